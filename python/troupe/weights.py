"""A network's state dict, checked, in and out of model files."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from .exceptions import DataError, UnsupportedError
from .safetensors import NAMES, File, Layout, lay_out

_REMEDY = "register it as a dense real tensor, or as a buffer with persistent=False"


def state(network: nn.Module) -> Tuple[List[str], List[torch.Tensor]]:
    """Names and tensors of the state dict: the network's own, no copies.
    UnsupportedError names what a model file cannot hold."""
    entries = network.state_dict(keep_vars=True)
    for name, value in entries.items():
        check(f"model tensor {name!r}", value, _REMEDY)
    return list(entries), list(entries.values())


def check(what: str, value: Any, remedy: str) -> None:
    """UnsupportedError unless value is a tensor that a file can hold."""
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"{what} is of type {type(value).__name__}, which a model file cannot hold: {remedy}")
    if is_lazy(value):
        raise UnsupportedError(f"{what} is lazy, its shape unknown: run the network on an example in main()")
    if value.is_quantized:
        kind = f"quantised ({value.dtype})"
    elif value.layout is not torch.strided:
        kind = f"sparse ({value.layout})"
    elif value.is_complex():
        kind = f"complex ({value.dtype})"
    elif value.dtype not in NAMES:
        kind = f"of type {value.dtype}"
    else:
        return
    raise UnsupportedError(f"{what} is {kind}, which a model file cannot hold: {remedy}")


class Weights:
    """The state dict of a network, in the order of the model file that it was
    loaded from, which is the order of the answer."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._layout: Optional[Layout] = None

    def load(self, path: str) -> None:
        """Copy the file's values into the network. DataError where they differ in
        names, shapes or types."""
        file = File(path)
        self._layout = file.layout
        file.copy_into(self._ordered())

    def collect(self) -> Tuple[Layout, List[torch.Tensor]]:
        """What to write: as loaded, or in the network's order."""
        if self._layout is not None:
            return self._layout, self._ordered()
        names, tensors = state(self._network)
        buffers = [name for name, t in zip(names, tensors) if not isinstance(t, nn.Parameter)]
        return lay_out(names, tensors, buffers), tensors

    def _ordered(self) -> List[torch.Tensor]:
        """The network's tensors in the file's order."""
        layout = self._layout
        names, tensors = state(self._network)
        if names != layout.names:
            have = dict(zip(names, tensors))
            missing = [n for n in names if n not in set(layout.names)]
            extra = [n for n in layout.names if n not in have]
            if missing or extra:
                where = "network but not in the model file" if missing else "model file but not in the network"
                raise DataError(
                    f"tensor {(missing or extra)[0]!r} is in the {where}: "
                    "the model was made by another program, or the network changes between rounds"
                )
            tensors = [have[n] for n in layout.names]
        for name, t, shape, dtype in zip(layout.names, tensors, layout.shapes, layout.dtypes):
            if t.shape != shape or NAMES[t.dtype] != dtype:
                raise DataError(
                    f"tensor {name!r} is {NAMES[t.dtype]} {list(t.shape)} in the network "
                    f"and {dtype} {list(shape)} in the model file"
                )
        return tensors
