"""KubeML's exceptions."""
from troupe.exceptions import (
    DataError,
    DatasetNotFoundError,
    InvalidArgsError,
    InvalidFormatError,
    KubeMLException,
    MergeError,
    StorageError,
)

__all__ = [
    "DataError",
    "DatasetNotFoundError",
    "InvalidArgsError",
    "InvalidFormatError",
    "KubeMLException",
    "MergeError",
    "StorageError",
]
