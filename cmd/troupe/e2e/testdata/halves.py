"""Float16 values near 2000, whose sums over functions no float16 can hold."""
import torch
from torch import nn

from troupe import Model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.same = nn.Parameter(torch.zeros(5, dtype=torch.float16))
        self.apart = nn.Parameter(torch.zeros(5, dtype=torch.float16))


class Halves(Model):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def train(self, batch, batch_index):
        with torch.no_grad():
            self._network.same.fill_(2000)
            self._network.apart.fill_(1999 + 2 * (self.args._func_id % 2))
        return 1.0

    def validate(self, batch, batch_index):
        return 1.0


def main():
    return Halves(Net()).start()
