"""Training from a script or a notebook, where data and results are objects.

    PYTHONPATH=python /usr/bin/python3 examples/notebook.py

In a notebook, each part below is a cell.
"""
import numpy as np
import torch
import troupe
from torch import nn
from torch.nn import functional as F


# Cell 1: the model.
class Spirals(troupe.Model):
    def __init__(self):
        width = int(troupe.arguments().get("width", "32"))
        hidden = [nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()]
        super().__init__(nn.Sequential(*hidden, nn.Linear(width, 2)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def validate(self, batch, batch_index):
        x, y = batch
        output = self(x)
        return (output.argmax(1) == y).float().mean() * 100, F.cross_entropy(output, y)


# Cell 2: data, two spirals of points.
def spirals(rows, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    angle = 4 * np.sqrt(rng.random(rows)) + np.pi * y
    radius = (angle - np.pi * y) / 4
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1) + rng.normal(0, 0.02, (rows, 2))
    return x.astype("float32"), y


# Cell 3: training. What `troupe run` takes as flags are arguments here.
if __name__ == "__main__":
    data = (*spirals(2000, seed=1), *spirals(500, seed=2))
    result = troupe.run(Spirals, data, epochs=20, batch=32, lr=0.01, parallelism=2, arg={"width": 48})
    print(f"{result.state}: accuracy {result.accuracy:.1f} %")

    # Cell 4: the model, as PyTorch has it.
    for name, tensor in result.state_dict().items():
        print(f"{name:10} {tuple(tensor.shape)}")
