"""Rows of the arrays of a data set, read from mapped npy files."""
from __future__ import annotations

from typing import Optional

import numpy as np

from .exceptions import DataError, StorageError

_WINDOW = 8 << 20  # bytes of rows on their way into order


class Rows:
    """An npy file, mapped: no process holds it, however large it is."""

    def __init__(self, path: str) -> None:
        try:
            self.array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as e:
            raise StorageError(f"{path} cannot be read: {e}") from None
        if self.array.ndim == 0:
            raise DataError(f"{path} is a single value, expected an array of rows")
        self.row_bytes = self.array.nbytes // max(len(self.array), 1)

    def read(self, positions: np.ndarray) -> np.ndarray:
        """A new array of the rows at positions (int64), in that order, of the
        file's type in native byte order. The file is read front to back."""
        source = self.array
        out = np.empty((len(positions),) + source.shape[1:], source.dtype.newbyteorder("="))
        order = np.argsort(positions, kind="stable")
        step = max(1, _WINDOW // max(self.row_bytes, 1))
        for lo in range(0, len(order), step):
            part = order[lo : lo + step]
            out[part] = source[positions[part]]
        return out


def as_labels(labels: Optional[np.ndarray]) -> Optional[np.ndarray]:
    """labels, int64 where they are integer or bool."""
    if labels is not None and labels.dtype.kind in "iub":
        return labels.astype(np.int64, copy=False)
    return labels
