"""A model of float64, whose optimizer has a state; a batch takes $PAUSE seconds."""
import os
import time

import torch
from torch import nn
from torch.nn import functional as F

from troupe import Model


class Doubles(Model):
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def train(self, batch, batch_index):
        time.sleep(float(os.environ.get("PAUSE", "0")))
        values, labels = batch
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self(values.double()), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self, batch, batch_index):
        values, labels = batch
        output = self(values.double())
        return 100 * (output.argmax(1) == labels).sum().item() / len(labels), F.cross_entropy(output, labels).item()


def main():
    return Doubles(nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 10)).double()).start()
