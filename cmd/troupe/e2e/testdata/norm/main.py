"""A net with BatchNorm on digits: a folder, whose module net holds the network."""
import torch
from torch.nn import functional

from kubeml import KubeDataset, KubeModel
from net import Net


class Digits(KubeDataset):
    def __init__(self):
        super().__init__(dataset="digits")

    def __getitem__(self, index):
        return torch.from_numpy(self.data[index]), self.labels[index]

    def __len__(self):
        return len(self.data)


class Model(KubeModel):
    def __init__(self):
        super().__init__(Net(), Digits())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr * 0.7 ** (self.epoch - 1), momentum=0.9)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self, batch, batch_index):
        x, y = batch
        out = self(x)
        return 100 * (out.argmax(1) == y).sum().item() / len(y), functional.cross_entropy(out, y).item()

    def infer(self, data):
        return self(torch.tensor(data, dtype=torch.float32)).argmax(1)


def main():
    return Model().start()
