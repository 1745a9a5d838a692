"""The loop that people write without Troupe, in one process: lenet.py's network and
data set class on an npz file. Prints the seconds of each epoch.

    plain.py DATA.npz BATCH THREADS EPOCHS [items]
"""
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler

from lenet import Items, LeNet, optimizer, step


def batches(x, y, batch):
    order = np.random.permutation(len(x))
    for lo in range(0, len(x), batch):
        rows = order[lo : lo + batch]
        yield torch.from_numpy(x[rows]), torch.from_numpy(y[rows])


def main(path, batch, threads, epochs, items=None):
    torch.set_num_threads(int(threads))
    with np.load(path) as arrays:
        x, y = arrays["x_train"], arrays["y_train"]
    network = LeNet()
    opt = optimizer(network, 0.01)
    dataset = Items()
    dataset.data, dataset.labels = x, y
    for _ in range(int(epochs)):
        started = time.perf_counter()
        if items:
            source = DataLoader(dataset, int(batch), sampler=RandomSampler(dataset))
        else:
            source = batches(x, y, int(batch))
        for b in source:
            step(network, opt, b)
        print(time.perf_counter() - started, flush=True)


main(*sys.argv[1:])
