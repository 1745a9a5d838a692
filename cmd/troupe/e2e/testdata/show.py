"""Prints the rows that its data set holds."""
import json

import torch
from torch import nn

from kubeml import KubeDataset, KubeModel


class Data(KubeDataset):
    def __init__(self):
        super().__init__("noise")

    def __getitem__(self, index):
        return 0

    def __len__(self):
        return len(self.data)


class Show(KubeModel):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def train(self, batch, batch_index):
        x, y = self._dataset.data, self._dataset.labels
        print("shown", json.dumps([str(x.dtype), x.tolist(), str(y.dtype), y.tolist()]))
        return 0.0

    def validate(self, batch, batch_index):
        return 0.0


def main():
    return Show(nn.Linear(1, 1), Data()).start()
