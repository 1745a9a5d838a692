"""The state of an optimizer, as named tensors and back.

The entry key of parameter i (in the order of the parameter groups) is the tensor
``state.<i>.<key>``. What is no tensor has a suffix that says what it was:
``#int`` ``#float`` ``#bool`` (0-d I64, F64, BOOL), ``#none`` (U8 [0]), ``#list``
``#tuple`` (0-d I64, the length; the elements follow as ``<key>.<j>``).
Groups are not stored: configure_optimizers() makes them anew each round, so that a
rule on ``self.epoch`` works.
"""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from .exceptions import DataError, UnsupportedError
from .safetensors import File
from .weights import check

_REMEDY = "use --optimizer-state reset"
_SCALARS = {"int": int, "float": float, "bool": bool}


def flatten(optimizer: torch.optim.Optimizer) -> Tuple[List[str], List[torch.Tensor]]:
    """Names and tensors of the state, none where it has no state.
    UnsupportedError names an entry that a file cannot hold."""
    index = {p: i for i, p in enumerate(_parameters(optimizer))}
    names: List[str] = []
    tensors: List[torch.Tensor] = []
    for parameter, entries in optimizer.state.items():
        if not isinstance(parameter, torch.Tensor) or parameter not in index:
            raise UnsupportedError(
                f"optimizer state is kept under the {type(parameter).__name__} {str(parameter)[:40]!r}, "
                f"which is not one of its parameters: {_REMEDY}"
            )
        prefix = f"state.{index[parameter]}."
        for key, value in entries.items():
            _flatten(prefix + str(key), value, names, tensors)
    if all(name.endswith("#none") for name in names):  # as SGD without momentum has
        return [], []
    return names, tensors


def restore(optimizer: torch.optim.Optimizer, file: File) -> None:
    """Give the optimizer the state that flatten() made, dtypes and all. DataError
    where it was made for other parameters."""
    parameters = _parameters(optimizer)
    groups = [g for g in optimizer.param_groups if not (g.get("capturable") or g.get("fused"))]
    on_host = {id(p) for g in groups for p in g["params"]}  # whose steps are counted there
    containers: Dict[str, List[Any]] = {}
    tuples: List[Tuple[Dict[str, Any], str]] = []
    for name, value in zip(file.layout.names, file.clone()):
        try:
            _, number, path = name.split(".", 2)
            parameter = parameters[int(number)]
        except (ValueError, IndexError):
            raise DataError(
                f"the optimizer state has {name!r}, but the optimizer has {len(parameters)} parameters: {_REMEDY}"
            ) from None
        path, _, mark = path.partition("#")
        if mark in _SCALARS:
            value = _SCALARS[mark](value.item())
        elif mark == "none":
            value = None
        elif mark:
            value = containers[f"{number}.{path}"] = []
        elif not (path == "step" and id(parameter) in on_host):
            value = value.to(parameter.device)
        parent = containers.get(f"{number}.{path.rpartition('.')[0]}")
        if parent is not None:
            parent.append(value)
            continue
        entries = optimizer.state[parameter]
        entries[path] = value
        if mark == "tuple":
            tuples.append((entries, path))
    for entries, path in tuples:
        entries[path] = tuple(entries[path])


def _flatten(name: str, value: Any, names: List[str], tensors: List[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        check(f"optimizer state {name!r}", value, _REMEDY)
    elif value is None:
        name, value = name + "#none", torch.empty(0, dtype=torch.uint8)
    elif isinstance(value, bool):
        name, value = name + "#bool", torch.tensor(value)
    elif isinstance(value, int):
        name, value = name + "#int", torch.tensor(value, dtype=torch.int64)
    elif isinstance(value, float):
        name, value = name + "#float", torch.tensor(value, dtype=torch.float64)
    elif isinstance(value, (list, tuple)):
        names.append(f"{name}#{'list' if isinstance(value, list) else 'tuple'}")
        tensors.append(torch.tensor(len(value), dtype=torch.int64))
        for j, item in enumerate(value):
            _flatten(f"{name}.{j}", item, names, tensors)
        return
    else:
        raise UnsupportedError(
            f"optimizer state {name!r} is of type {type(value).__name__}, which a file cannot hold: {_REMEDY}"
        )
    names.append(name)
    tensors.append(value)


def _parameters(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
