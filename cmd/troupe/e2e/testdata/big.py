"""A model of $TENSORS float32 tensors of $VALUES values; a step adds to all, with
momentum if $MOMENTUM is set."""
import os

import torch
from torch import nn

from troupe import Model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        shape = [int(os.environ["VALUES"])]
        self.all = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for _ in range(int(os.environ["TENSORS"])))


class Big(Model):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=float(os.environ.get("MOMENTUM", "0")))

    def train(self, batch, batch_index):
        if "MOMENTUM" in os.environ:
            for value in self.parameters():
                value.grad = torch.full_like(value, -1)
            self.optimizer.step()
        else:
            with torch.no_grad():
                for value in self.parameters():
                    value += 1
        return 1.0

    def validate(self, batch, batch_index):
        return 1.0


def main():
    return Big(Net()).start()
