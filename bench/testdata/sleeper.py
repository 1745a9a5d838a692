"""A tiny network whose batches take as long as $BATCH_S says, whatever the machine
does. In the first batch of a round it prints when that is and in which process."""
import os
import time

import torch
from torch import nn
from torch.nn import functional

from troupe import Model


class Sleeper(Model):
    def configure_optimizers(self):
        return torch.optim.SGD(self._network.parameters(), lr=self.lr, momentum=0.9)

    def train(self, batch, batch_index):
        if batch_index == 0:
            print("batch", batch_index, time.time_ns(), os.getpid())
        time.sleep(float(os.environ["BATCH_S"]))
        x, y = batch
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self._network(x.float()), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self, batch, batch_index):
        x, y = batch
        return 0.0, functional.cross_entropy(self._network(x.float()), y).item()


def main():
    return Sleeper(nn.Linear(3, 2)).start()
