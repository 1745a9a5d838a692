"""Train a PyTorch program with Troupe.

A program subclasses :class:`Model` and :class:`Dataset` and offers a ``main()``
that returns ``model.start()``; ``troupe run program.py -d DATA`` trains it.
:func:`run` does the same from a script or a notebook.
"""
from .context import arguments
from .dataset import Dataset
from .exceptions import (
    DataError,
    DatasetNotFoundError,
    InvalidArgsError,
    InvalidFormatError,
    JobError,
    KubeMLException,
    MergeError,
    StorageError,
)
from .launch import Result, run
from .model import Model

__all__ = [
    "DataError",
    "Dataset",
    "DatasetNotFoundError",
    "InvalidArgsError",
    "InvalidFormatError",
    "JobError",
    "KubeMLException",
    "MergeError",
    "Model",
    "Result",
    "StorageError",
    "arguments",
    "run",
]
