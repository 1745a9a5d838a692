"""A softmax on samples of 64 values, of which --arg do=METHOD-WHAT makes something
else: in train only in batch `step` (0) of function `function` (each). With the
argument `once`, a path, only in the attempt of a function that creates the file of
that path and its id."""
import os
import signal
import time

import torch
from torch import nn
from torch.nn import functional

from kubeml import KubeModel


class Probe(KubeModel):
    def configure_optimizers(self):
        return self.changed("configure", torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9))

    def train(self, batch, batch_index):
        x, y = batch
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self(x.float()), y)
        loss.backward()
        self.optimizer.step()
        function = str(self.args._func_id)
        if batch_index == int(self.args.get("step", 0)) and function == self.args.get("function", function):
            return self.changed("train", loss)
        return loss

    def validate(self, batch, batch_index):
        x, y = batch
        out = self(x.float())
        correct = (out.argmax(1) == y).sum().item()
        return self.changed("validate", (100 * correct / len(y), functional.cross_entropy(out, y)))

    def changed(self, method, value):
        """value, or what is asked for to come of method in its stead."""
        do = self.args.get("do", "")
        if not do.startswith(method + "-"):
            return value
        if "once" in self.args:
            try:
                os.close(os.open(f"{self.args['once']}{self.args._func_id}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return value
        return getattr(self, do[len(method) + 1 :])(value)

    def none(self, value):
        return None

    def text(self, value):
        return "0.25"

    def list(self, value):
        return [0.25, 0.5]

    def nan(self, value):
        return float("nan")

    def raises(self, value):
        if "mark" in self.args:  # whose time is that of the raise
            with open(self.args["mark"], "a") as f:
                f.write("raised\n")
        raise RuntimeError("the fifth step went wrong")

    def poison(self, value):
        with torch.no_grad():
            self._network.bias[3] = float("inf")
        return value

    def exits(self, value):
        os._exit(3)

    def kills(self, value):
        os.kill(os.getpid(), signal.SIGKILL)

    def naps(self, value):
        """For a while, once the file `mark` says who."""
        with open(self.args["mark"], "a") as f:
            f.write(f"{os.getpid()}\n")
        time.sleep(3)
        return value

    def sleeps(self, value):
        """For an hour, once the file `mark` says so."""
        with open(self.args["mark"], "a") as f:
            f.write(f"{os.getpid()}\n")
        time.sleep(3600)


def main():
    return Probe(nn.Linear(64, 10)).start()
