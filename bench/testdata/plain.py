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


def epoch(network, opt, source):
    started = time.perf_counter()
    for b in source:
        step(network, opt, b)
    return time.perf_counter() - started


def main(path, batch, threads, epochs, items=None):
    torch.set_num_threads(int(threads))
    with np.load(path) as arrays:
        x, y = arrays["x_train"], arrays["y_train"]
    network = LeNet()
    opt = optimizer(network, 0.01)
    dataset = Items()
    dataset.data, dataset.labels = x, y

    def source():
        if items:
            return DataLoader(dataset, int(batch), sampler=RandomSampler(dataset))
        return batches(x, y, int(batch))

    for _ in range(int(epochs)):
        print(epoch(network, opt, source()))


main(*sys.argv[1:])
