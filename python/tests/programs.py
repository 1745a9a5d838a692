"""Programs that users might write, for tests."""

KUBEML_LENET = '''
import logging
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from kubeml import KubeDataset, KubeModel
from torch.optim import SGD


class Compose:
    """As torchvision's, which tests do without."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


def to_tensor(x):
    return torch.from_numpy(x).unsqueeze(0).float().div(255)


def normalize(x):
    return (x - 0.1307) / 0.3081


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.drop = nn.Dropout(0.2)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(x.shape[0], -1)
        x = self.drop(F.relu(self.fc1(x)))
        return self.fc3(F.relu(self.fc2(x)))


class MnistDataset(KubeDataset):
    def __init__(self):
        super().__init__(dataset="mnist")
        self.transform = Compose([to_tensor, normalize])

    def __getitem__(self, index):
        x = self.data[index]
        y = self.labels[index]
        return self.transform(x), y.astype('int64')

    def __len__(self):
        return len(self.data)


class KubeLeNet(KubeModel):
    def __init__(self, network, dataset):
        super().__init__(network, dataset, gpu=False)

    def configure_optimizers(self):
        lr = self.lr if self.epoch < 3 else self.lr / 10
        return SGD(self.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)

    def init(self, network):
        def weights(m):
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(m.weight)
                nn.init.constant_(m.bias, 0.01)

        network.apply(weights)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(self(x), y)
        loss.backward()
        self.optimizer.step()
        if batch_index % 10 == 0:
            logging.info(f"Index {batch_index}, error: {loss.item()}")
        self.log("batch size", self.batch_size)
        return loss.item()

    def validate(self, batch, batch_index):
        x, y = batch
        output = self(x)
        _, predicted = torch.max(output.data, 1)
        loss = nn.CrossEntropyLoss()(output, y).item()
        correct = predicted.eq(y).sum().item()
        self.logger.debug(f"{correct} of {self.batch_size}")
        return correct * 100 / self.batch_size, loss

    def infer(self, data):
        x = torch.tensor(data, dtype=torch.float32).unsqueeze(1)
        return self(x).argmax(1)


def main():
    torch.manual_seed(42)
    random.seed(42)
    net = LeNet()
    dataset = MnistDataset()
    kubenet = KubeLeNet(net, dataset)
    return kubenet.start()
'''

# A small linear program; %s are methods that replace or join the usual ones.
SMALL = '''
import torch
import troupe
from torch import nn

class Small(troupe.Model):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self(x.float()), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def validate(self, batch, batch_index):
        x, y = batch
        output = self(x.float())
        return (output.argmax(1) == y).float().mean() * 100, nn.functional.cross_entropy(output, y)

def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2))

def main():
    return Small(network()).start()
'''


def small(methods: str = "", more: str = "") -> str:
    """SMALL with methods (indented by 4) that override its own, and more below."""
    return SMALL.replace("\ndef network", methods + "\ndef network", 1) + more
