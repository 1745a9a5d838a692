"""Plain PyTorch, without Troupe: the network norm/net.py with the weights of a
safetensors file, on an array of samples and their labels. Prints JSON: accuracy in
percent, mean loss, and the predictions.

    plain.py MODEL X.npy Y.npy
"""
import json
import os
import struct
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "norm"))
from net import Net  # noqa: E402


def load(path):
    """The tensors of a safetensors file, by name."""
    with open(path, "rb") as f:
        b = f.read()
    start = 8 + struct.unpack("<Q", b[:8])[0]
    tensors = {}
    for name, entry in json.loads(b[8:start]).items():
        if name == "__metadata__":
            continue
        lo, hi = entry["data_offsets"]
        dtype = {"F32": "<f4", "I64": "<i8"}[entry["dtype"]]
        values = np.frombuffer(b[start + lo : start + hi], dtype).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


def main(model, x, y):
    net = Net()
    net.load_state_dict(load(model), strict=True)
    net.eval()
    x, y = torch.from_numpy(np.load(x)), torch.from_numpy(np.load(y))
    with torch.no_grad():
        out = net(x)
    predictions = out.argmax(1)
    print(json.dumps({
        "accuracy": 100 * (predictions == y).sum().item() / len(y),
        "loss": torch.nn.functional.cross_entropy(out.double(), y).item(),
        "predictions": predictions.tolist(),
        "data": x.tolist(),
    }))


main(*sys.argv[1:])
