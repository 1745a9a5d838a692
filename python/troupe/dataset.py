"""The data set class that a user's program extends."""
from __future__ import annotations

import re
from typing import Any, List, Optional, Tuple

import numpy as np
import torch
import torch.utils.data

from . import context

# What torch has no type for arrives as the next wider one.
_WIDER = {"u2": np.int32, "u4": np.int64, "u8": np.int64}


class Dataset(torch.utils.data.Dataset):
    """The rows that this function trains or validates, as numpy arrays.

    ``self.data`` [rows, ...] has the type of the file, ``self.labels`` [rows, ...]
    is int64 where the file's are integer or bool. Both are there when items are
    asked for, not yet in ``__init__``, and hold some of the rows of the round, in
    training order: ``__getitem__`` must go by ``index`` alone. In ``init`` they are
    the whole training split, to look at.

    The default item is ``(data[index], labels[index])``, and batches of those are
    made without a call for each.
    """

    def __init__(self, dataset: str = "") -> None:
        """dataset: the name that the program was written for; which data it gets
        is decided by ``-d``, and another name here is worth a warning."""
        self.dataset = dataset
        self.data: Any = None
        self.labels: Any = None
        invocation = context.current
        if dataset and invocation and invocation.request.dataset and _stored(dataset) != invocation.request.dataset:
            invocation.warn(
                f"the program names the data set {dataset!r}, "
                f"the task {invocation.request.dataset!r}: the task's is used"
            )

    def is_training(self) -> bool:
        """Whether items are for training: False in validation and inference."""
        return context.current is None or context.current.request.task in ("init", "train")

    def __getitem__(self, index: int) -> Any:
        return self.data[index], self.labels[index]

    def __len__(self) -> int:
        return 0 if self.data is None else len(self.data)

    def _fill(self, data: Optional[np.ndarray], labels: Optional[np.ndarray]) -> None:
        self.data, self.labels = data, labels


class Batcher:
    """Makes the batches of a data set, the way torch's DataLoader would."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._plain = type(dataset).__getitem__ is Dataset.__getitem__ and not hasattr(dataset, "__getitems__")
        self._many = getattr(dataset, "__getitems__", None)
        self._collate = getattr(dataset, "collate_fn", None) or _collate

    def batch(self, lo: int, hi: int) -> Any:
        """The batch of items [lo, hi)."""
        dataset = self._dataset
        if self._plain:
            return [_tensor(dataset.data[lo:hi]), _tensor(dataset.labels[lo:hi])]
        if self._many is not None:
            return self._collate(self._many(list(range(lo, hi))))
        return self._collate([dataset[i] for i in range(lo, hi)])


def to_device(value: Any, device: torch.device) -> Any:
    """value with all its tensors on device."""
    if device.type == "cpu":
        return value
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return type(value)((k, to_device(v, device)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_device(v, device) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(to_device(v, device) for v in value)
    return value


def sizes(samples: int, batch: int) -> List[int]:
    """Cut samples into ceil(samples/batch) batches whose sizes differ by at most
    one, the larger first: 65 at 64 are 33 and 32."""
    if samples < 1 or batch < 1:
        return []
    count = (samples - 1) // batch + 1
    return [samples // count + (i < samples % count) for i in range(count)]


def spans(batches: List[int], row_bytes: int, limit: int = 128 << 20) -> List[Tuple[int, int]]:
    """Group batches into pieces [lo, hi) of batches whose rows fit limit bytes
    together; a piece has one batch at least."""
    pieces: List[Tuple[int, int]] = []
    lo, held = 0, 0
    for i, size in enumerate(batches):
        if i > lo and (held + size) * row_bytes > limit:
            pieces.append((lo, i))
            lo, held = i, 0
        held += size
    if batches:
        pieces.append((lo, len(batches)))
    return pieces


def _stored(name: str) -> str:
    """What the store calls a data set of that name."""
    return re.sub("[^a-z0-9._]", "-", name.lower())


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(_widened(array))


def _collate(items: List[Any]) -> Any:
    """torch's default, for items of the types that it does not know, too."""
    if items and _widened(items[0]) is not items[0]:
        items = [_widened(item) for item in items]
    return torch.utils.data.default_collate(items)


def _widened(value: Any) -> Any:
    """value with what torch has no type for made wider, itself if there is none."""
    if isinstance(value, (np.ndarray, np.generic)):
        wider = _WIDER.get(value.dtype.str[1:])
        return value if wider is None else value.astype(wider)
    if isinstance(value, dict):
        parts = {k: _widened(v) for k, v in value.items()}
        return value if all(parts[k] is v for k, v in value.items()) else parts
    if isinstance(value, (list, tuple)):
        elements = [_widened(v) for v in value]
        if all(new is old for new, old in zip(elements, value)):
            return value
        return type(value)(*elements) if hasattr(value, "_fields") else type(value)(elements)
    return value
