"""Checks of what the user's methods return."""
from __future__ import annotations

import math
import numbers
from typing import Any, Optional, Tuple

import numpy as np
import torch

from .exceptions import InvalidFormatError, NotFiniteError

_LOSS = "the loss of the batch: a number, or a tensor of one element"
_VALIDATE = "(accuracy, loss), (None, loss) or a loss, each a number or a tensor of one element"


def train_loss(value: Any, batch_index: int, cls: str) -> float:
    """The loss that train() returned. InvalidFormatError, or NotFiniteError, says
    what came instead, and in which batch."""
    return _number(value, f"{cls}.train()", _LOSS, batch_index, value)


def validation(value: Any, batch_index: int, cls: str) -> Tuple[Optional[float], float]:
    """Accuracy, None without one, and loss that validate() returned."""
    method = f"{cls}.validate()"
    if not isinstance(value, tuple):
        return None, _number(value, method, _VALIDATE, batch_index, value)
    if len(value) != 2:
        raise InvalidFormatError(f"{method} returned {show(value)} at batch {batch_index}, expected {_VALIDATE}")
    accuracy, loss = value
    if accuracy is not None:
        accuracy = _number(accuracy, method, _VALIDATE, batch_index, value)
    return accuracy, _number(loss, method, _VALIDATE, batch_index, value)


def optimizer(value: Any, cls: str) -> torch.optim.Optimizer:
    """What configure_optimizers() returned."""
    if not isinstance(value, torch.optim.Optimizer):
        raise InvalidFormatError(
            f"{cls}.configure_optimizers() returned {show(value)}, expected a torch.optim.Optimizer"
        )
    return value


def predictions(value: Any, cls: str) -> Any:
    """What infer() returned, as JSON values."""
    plain = _plain(value)
    if not isinstance(plain, (list, dict)):
        raise InvalidFormatError(
            f"{cls}.infer() returned {show(value)}, expected a tensor, an array or a list of numbers"
        )
    return plain


def show(value: Any) -> str:
    """What came, for an error text."""
    if value is None:
        return "None (is a return missing?)"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {list(value.shape)}"
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"the {type(value).__name__} {text}"


def _number(value: Any, method: str, expected: str, batch_index: int, whole: Any) -> float:
    if isinstance(value, torch.Tensor):
        fits = value.numel() == 1 and value.dtype is not torch.bool and not value.is_complex()
    elif isinstance(value, np.ndarray):
        fits = value.size == 1 and value.dtype.kind in "iuf"
    else:
        fits = isinstance(value, (numbers.Real, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
    if not fits:
        raise InvalidFormatError(f"{method} returned {show(whole)} at batch {batch_index}, expected {expected}")
    number = float(value.detach()) if isinstance(value, torch.Tensor) else float(value)
    if not math.isfinite(number):
        raise NotFiniteError(f"{method} returned {number} at batch {batch_index}, expected a finite number")
    return number


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidFormatError(f"infer() returned {show(value)} among its predictions, expected numbers")
