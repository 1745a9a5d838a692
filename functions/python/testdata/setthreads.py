"""The network, in a program that sets torch's threads when it is imported."""
import torch

from network import main  # noqa: F401

torch.set_num_threads(4)
