"""The network, which in its second batch does what the argument "do" says."""
import ctypes
import os
import subprocess
import threading
import time

import torch

import network


def where_it_hangs():
    time.sleep(3600)


def deeper(left):
    if left == 0:
        where_it_hangs()
    deeper(left - 1)


def multiplies(size):
    """In C, with the lock given away, and torch's own threads at work."""
    a = torch.ones(size, size)
    while True:
        a @ a


class Model(network.Model):
    def train(self, batch, batch_index):
        do = self.args.get("do", "")
        if batch_index == 1 and do:
            print("here", os.getpid(), flush=True)
            getattr(self, do)()
        return super().train(batch, batch_index)

    def hang(self):
        where_it_hangs()

    def nested(self):
        deeper(200)

    def threads(self):
        for i in range(3):
            threading.Thread(target=deeper, args=(i,), daemon=True).start()
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        where_it_hangs()

    def multiply(self):
        multiplies(1500)

    def wait(self):
        """Goes on when the file that "until" names is there."""
        while not os.path.exists(self.args["until"]):
            time.sleep(0.01)

    def spin(self):
        """In C, with the interpreter's lock held: no Python code runs meanwhile."""
        ctypes.PyDLL(None).sleep(3600)

    def print_on(self):
        while True:
            print("x" * 1000)

    def offspring(self):
        print("child", subprocess.Popen(["sleep", "3600"]).pid, flush=True)
        where_it_hangs()

    def memory(self):
        torch.zeros(1 << 32)

    def environment(self):
        print("env", os.environ["COLOUR"], os.environ["SHAPE"], flush=True)


def main():
    return Model(network.Network(), network.Points()).start()
