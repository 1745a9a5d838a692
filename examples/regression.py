"""Regression: a loss, and no accuracy.

    PYTHONPATH=python /usr/bin/python3 examples/regression.py /tmp/waves.npz
    troupe run examples/regression.py -d /tmp/waves.npz -e 20 -b 32 --lr 0.01 -p 2

The first line makes the data: y = sin(3 x0) + x1^2 with some noise.
"""
import sys

import numpy as np
import torch
import troupe
from torch import nn
from torch.nn import functional as F


class Regressor(troupe.Model):
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = F.mse_loss(self(x).squeeze(1), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def validate(self, batch, batch_index):
        x, y = batch
        output = self(x).squeeze(1)
        self.log("absolute error", F.l1_loss(output, y))
        return F.mse_loss(output, y)


def main():
    network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    return Regressor(network).start()


def make(path, rows=2500):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 2)).astype("float32")
    y = np.sin(3 * x[:, 0]) + x[:, 1] ** 2 + rng.normal(0, 0.05, rows).astype("float32")
    test = rows // 5
    np.savez(path, x_train=x[test:], y_train=y[test:], x_test=x[:test], y_test=y[:test])


if __name__ == "__main__":
    make(sys.argv[1])
