"""A small residual network with BatchNorm, for small images.

    troupe run examples/resnet.py -d $FASHION_MNIST -e 3 -b 128 --lr 0.05 -p 2
    troupe run examples/resnet.py -d cifar10.npz --arg channels=3 --arg width=32

Images are [height, width] or [height, width, channels], of bytes. The learning rate
falls to a tenth after two thirds of the epochs that `--arg epochs` names.
"""
import numpy as np
import torch
import troupe
from torch import nn
from torch.nn import functional as F


class Images(troupe.Dataset):
    """Images as float32 [channels, height, width] in [-1, 1], some mirrored."""

    def __getitem__(self, index):
        image = np.atleast_3d(self.data[index])
        if self.is_training() and torch.rand(()) < 0.5:
            image = image[:, ::-1]
        pixels = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
        return pixels.float() / 127.5 - 1, self.labels[index]


class Block(nn.Module):
    """Two convolutions beside a way around them; stride halves the image."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.around = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.around(x))


def resnet(channels, width, classes):
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, width, 2),
        Block(width, 2 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, classes),
    )


class Classifier(troupe.Model):
    def configure_optimizers(self):
        late = self.epoch > int(self.args.get("epochs", "3")) * 2 / 3
        lr = self.lr / 10 if late else self.lr
        self.log("learning rate", lr)
        return torch.optim.SGD(self.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self, batch, batch_index):
        x, y = batch
        output = self(x)
        return (output.argmax(1) == y).float().mean() * 100, F.cross_entropy(output, y)

    def infer(self, data):
        pixels = torch.tensor(data, dtype=torch.float32, device=self.device)
        pixels = pixels.unsqueeze(1) if pixels.dim() == 3 else pixels.permute(0, 3, 1, 2)
        return self(pixels / 127.5 - 1).argmax(1)


def main():
    args = {"channels": "1", "width": "8", "classes": "10", **troupe.arguments()}
    network = resnet(int(args["channels"]), int(args["width"]), int(args["classes"]))
    return Classifier(network, Images(), gpu=True).start()
