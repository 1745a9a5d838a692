"""LeNet on images of 28x28 pixels, such as Fashion-MNIST.

    troupe run examples/lenet.py -d $FASHION_MNIST -e 3 -b 128 --lr 0.02 -p 2

$FASHION_MNIST is the folder of its four IDX files.
"""
import torch
import troupe
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


def images(pixels):
    """uint8 [n, 28, 28] as float32 [n, 1, 28, 28] around 0."""
    return (pixels.unsqueeze(1).float() - 73) / 90


class Classifier(troupe.Model):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)

    def train(self, batch, batch_index):
        pixels, labels = batch
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self(images(pixels)), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self, batch, batch_index):
        pixels, labels = batch
        output = self(images(pixels))
        right = (output.argmax(1) == labels).sum().item()
        return 100 * right / len(labels), F.cross_entropy(output, labels).item()

    def infer(self, data):
        return self(images(torch.tensor(data, device=self.device))).argmax(1)


def main():
    return Classifier(LeNet(), gpu=True).start()
