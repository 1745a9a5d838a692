"""A small network for the conformance suite: x float32 [n, 4, 2], y int64 in [0, 4)."""
import torch
from torch import nn
from torch.nn import functional

from kubeml import KubeDataset, KubeModel


class Points(KubeDataset):
    def __init__(self):
        super().__init__("points")

    def __getitem__(self, index):
        return torch.from_numpy(self.data[index]), self.labels[index]

    def __len__(self):
        return len(self.data)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.output = nn.Linear(16, 4)

    def forward(self, x):
        h = self.hidden(x.flatten(1))
        if not self.training or len(x) > 1:  # a batch of one has no variance
            h = self.norm(h)
        return self.output(functional.relu(h))


class Model(KubeModel):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self(x), y)
        loss.backward()
        self.optimizer.step()
        self.log("train_samples", float(len(y)))
        return loss.item()

    def validate(self, batch, batch_index):
        x, y = batch
        z = self(x)
        correct = (z.argmax(1) == y).sum().item()
        return 100 * correct / len(y), functional.cross_entropy(z, y).item()

    def infer(self, data):
        return self(torch.tensor(data, dtype=torch.float32)).argmax(1).tolist()


def main():
    return Model(Network(), Points()).start()
