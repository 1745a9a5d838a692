"""The network alone: nothing here knows of Troupe."""
from torch import nn


class Net(nn.Module):
    """x float32 [n, 64], grey values 0 to 16, to logits [n, 10]. Its state dict has
    counters without dimensions, those of BatchNorm."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64, 10),
        )

    def forward(self, x):
        return self.layers(x.view(-1, 1, 8, 8) / 16)
