"""A softmax on samples of 64 values with momentum, whose learning rate falls to a
ten-thousandth after the first epoch, and which says so at the start of a round. In its
second epoch, while the folder of the argument `gate` has a file `shut`, it waits, once
it has said so in the file `here`; while that has a file `broken`, it raises."""
import os
import time

import torch
from torch import nn
from torch.nn import functional

from kubeml import KubeModel


class Gate(KubeModel):
    def configure_optimizers(self):
        lr = self.lr if self.epoch == 1 else self.lr / 10000
        return torch.optim.SGD(self.parameters(), lr=lr, momentum=0.9)

    def train(self, batch, batch_index):
        if batch_index == 0:
            print(f"epoch {self.epoch} lr {self.optimizer.param_groups[0]['lr']:g}")
            if "gate" in self.args and self.epoch == 2:
                self.pass_gate()
        x, y = batch
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self(x.float()), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def pass_gate(self):
        def is_there(name):
            return os.path.exists(os.path.join(self.args["gate"], name))

        if is_there("broken"):
            raise RuntimeError("something that this program needs is broken")
        if is_there("shut"):
            with open(os.path.join(self.args["gate"], "here"), "a") as f:
                f.write("here\n")
            while is_there("shut"):
                time.sleep(0.02)

    def validate(self, batch, batch_index):
        x, y = batch
        out = self(x.float())
        return 100 * (out.argmax(1) == y).sum().item() / len(y), functional.cross_entropy(out, y)


def main():
    return Gate(nn.Linear(64, 10)).start()
