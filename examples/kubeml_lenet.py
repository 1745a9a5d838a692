"""A program as it is written for KubeML. It runs as it stands.

    troupe run examples/kubeml_lenet.py -d $FASHION_MNIST -e 3 -b 128 --lr 0.01 -p 2

Where torchvision is installed its transforms do, too: an item's image is an array.
"""
import logging
import random
from typing import Any, List, Tuple, Union

import numpy as np
import torch
import torch.nn as nn
from kubeml import KubeDataset, KubeModel
from torch.optim import SGD

try:
    from torchvision import transforms

    to_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.286,), (0.353,))])
except ImportError:

    def to_tensor(image: np.ndarray) -> torch.Tensor:
        return (torch.from_numpy(image).unsqueeze(0).float() / 255 - 0.286) / 0.353


class FashionDataset(KubeDataset):
    def __init__(self):
        super().__init__(dataset="fashion-mnist")

    def __getitem__(self, index):
        x = self.data[index]
        y = self.labels[index]
        return to_tensor(x), y.astype("int64")

    def __len__(self):
        return len(self.data)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classifier = nn.Sequential(
            nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
        )

    def forward(self, x):
        y = self.features(x)
        return self.classifier(y.view(y.shape[0], -1))


class KubeLeNet(KubeModel):
    def __init__(self, network: nn.Module, dataset: FashionDataset):
        super().__init__(network, dataset, gpu=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return SGD(self.parameters(), lr=self.lr, momentum=0.9, weight_decay=1e-4)

    def init(self, model: nn.Module):
        def init_weights(m: nn.Module):
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(m.weight)
                nn.init.constant_(m.bias, 0.01)

        model.apply(init_weights)

    def train(self, batch, batch_index) -> float:
        x, y = batch
        loss_fn = nn.CrossEntropyLoss()
        self.optimizer.zero_grad()
        loss = loss_fn(self(x), y)
        loss.backward()
        self.optimizer.step()
        if batch_index % 100 == 0:
            logging.info(f"Index {batch_index}, error: {loss.item()}")
        return loss.item()

    def validate(self, batch, batch_index) -> Tuple[float, float]:
        x, y = batch
        output = self(x)
        loss = nn.CrossEntropyLoss()(output, y).item()
        correct = output.argmax(dim=1).eq(y).sum().item()
        return 100.0 * correct / self.batch_size, loss

    def infer(self, data: List[Any]) -> Union[torch.Tensor, np.ndarray, List[float]]:
        x = torch.stack([to_tensor(np.array(image, dtype="uint8")) for image in data])
        return self(x.to(self.device)).argmax(1)


def main():
    torch.manual_seed(42)
    random.seed(42)
    lenet = LeNet()
    dataset = FashionDataset()
    kubenet = KubeLeNet(lenet, dataset)
    return kubenet.start()
