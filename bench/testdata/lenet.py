"""LeNet on images uint8 [n, 28, 28]. $ITEMS=1: each sample goes through a data set
class; else batches are as they are stored. In the first batch of a round, and in the
middle one, it prints when that is and in which process."""
import os
import time

import torch
from torch import nn
from torch.nn import functional

from troupe import Dataset, Model


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


class Items(Dataset):
    def __getitem__(self, index):
        return torch.from_numpy(self.data[index]).unsqueeze(0).float() / 255, self.labels[index]


def step(network, optimizer, batch):
    """One batch; returns its loss."""
    x, y = batch
    if x.dtype is torch.uint8:
        x = x.unsqueeze(1).float() / 255
    optimizer.zero_grad()
    loss = functional.cross_entropy(network(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def optimizer(network, lr):
    return torch.optim.SGD(network.parameters(), lr=lr, momentum=0.9)


class Bench(Model):
    def configure_optimizers(self):
        return optimizer(self._network, self.lr)

    def train(self, batch, batch_index):
        if batch_index in (0, 8):
            print("batch", batch_index, time.time_ns(), os.getpid())
        return step(self._network, self.optimizer, batch)

    def validate(self, batch, batch_index):
        return 0.0


def main():
    return Bench(LeNet(), Items() if os.environ.get("ITEMS") else None).start()
