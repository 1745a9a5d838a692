"""Using what main() made for further rounds, as if it were made anew.

Building a network can take longer than a short round, so a worker keeps model,
data set and network. A round must not depend on what ran before it: everything
reachable from the model is noted when main() has made it, and put back before the
next round. The weights are not: they come from the round's model file. Where
something cannot be put back (a buffer outside of the state dict was written to, or
an object keeps its state where Python cannot see it), main() is called again.
"""
from __future__ import annotations

import collections
import enum
import functools
import gc
import logging
import pathlib
import random
import re
import types
from operator import is_
from typing import Any, Callable, Dict, List, Set, Tuple

import numpy as np
import torch

from .model import Model

_COPIED = 1 << 20  # bytes of an array that is kept twice
_ATOMS = {bool, int, str, float, type(None)}
_FIXED = (
    *_ATOMS, complex, bytes, range, type, type(...), slice, enum.Enum, re.Pattern, logging.Logger, pathlib.PurePath,
    types.ModuleType, types.BuiltinFunctionType, np.generic, np.dtype, np.ufunc,
    torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
)
_DICTS = (dict, collections.OrderedDict)
_CONTAINERS = (dict, list, set, collections.deque, tuple, frozenset)


class _Opaque(Exception):
    """Something whose state cannot be put back."""


class Pristine:
    """A model as main() left it. It is opaque where that cannot be put back."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.opaque = False
        self._seen: Set[int] = set()
        self._keep: List[Any] = []  # ids in _seen stay taken
        self._empty: List[Dict[Any, Any]] = []  # dicts that had nothing in them
        self._dicts: List[Tuple[Dict[Any, Any], Dict[Any, Any]]] = []
        self._tensors: List[Tuple[torch.Tensor, int, bool]] = []
        self._weights: List[Tuple[torch.Tensor, torch.Size, bool]] = []
        self._puts: List[Callable[[], None]] = []
        self._state = {id(t) for t in model._network.state_dict(keep_vars=True).values()}
        todo: List[Any] = [model]
        collecting = gc.isenabled()
        gc.disable()  # nothing here is garbage, and there may be much of it
        try:
            while todo:
                self._note(todo.pop(), todo)
        except (_Opaque, RuntimeError):
            self.opaque = True
        finally:
            if collecting:
                gc.enable()

    def restore(self) -> bool:
        """Put everything back; False where that is impossible."""
        if self.opaque:
            return False
        for empty in self._empty:
            if empty:
                empty.clear()
        for now, then in self._dicts:
            if now.keys() != then.keys() or not all(map(is_, now.values(), then.values())):
                now.clear()
                now.update(then)
        for put in self._puts:
            put()
        for t, version, wants in self._tensors:
            if t._version != version:
                return False
            if t.is_leaf:
                t.requires_grad_(wants).grad = None
        for t, shape, wants in self._weights:
            if t.shape != shape:
                return False
            if t.requires_grad is not wants:
                t.requires_grad_(wants)
        return True

    def _note(self, value: Any, todo: List[Any]) -> None:
        cls = type(value)
        if cls in _ATOMS or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._keep.append(value)
        if cls is torch.nn.Parameter or isinstance(value, torch.Tensor):
            self._note_tensor(value)
        elif isinstance(value, torch.nn.Module):
            self._note_object(value, todo)
        elif isinstance(value, _FIXED):
            return
        elif cls is collections.OrderedDict or isinstance(value, _CONTAINERS):
            self._note_container(value, todo)
        elif isinstance(value, np.ndarray):
            self._note_array(value)
        elif isinstance(value, types.FunctionType):
            todo.extend(cell.cell_contents for cell in value.__closure__ or ())
            todo.extend(value.__defaults__ or ())
        elif isinstance(value, types.MethodType):
            todo.extend((value.__self__, value.__func__))
        elif isinstance(value, functools.partial):
            todo.extend((value.func, value.args, value.keywords))
        elif not self._note_chance(value):
            self._note_object(value, todo)

    def _note_tensor(self, t: torch.Tensor) -> None:
        if id(t) in self._state:
            self._weights.append((t, t.shape, t.requires_grad))
        else:
            self._tensors.append((t, t._version, t.requires_grad))

    def _note_container(self, value: Any, todo: List[Any]) -> None:
        if isinstance(value, dict):
            if value:
                self._dicts.append((value, dict(value)))
                todo.extend(value.values())
            else:
                self._empty.append(value)
            if type(value) in _DICTS:
                return
        else:
            todo.extend(value)
            if isinstance(value, (list, collections.deque)):
                self._puts.append(functools.partial(_refill, value, list(value), "extend"))
            elif isinstance(value, set):
                self._puts.append(functools.partial(_refill, value, set(value), "update"))
        if hasattr(value, "__dict__"):
            self._dicts.append((value.__dict__, dict(value.__dict__)))
            todo.extend(value.__dict__.values())

    def _note_array(self, a: np.ndarray) -> None:
        if a.dtype.hasobject or a.nbytes > _COPIED and a.flags.writeable:
            raise _Opaque
        if a.flags.writeable:
            self._puts.append(functools.partial(np.copyto, a, a.copy()))

    def _note_chance(self, value: Any) -> bool:
        """Whether value is a source of random numbers, which are noted."""
        if isinstance(value, random.Random):
            self._puts.append(functools.partial(value.setstate, value.getstate()))
        elif isinstance(value, np.random.RandomState):
            self._puts.append(functools.partial(value.set_state, value.get_state(legacy=False)))
        elif isinstance(value, np.random.Generator):
            bits = value.bit_generator
            self._puts.append(functools.partial(setattr, bits, "state", bits.state))
        elif isinstance(value, torch.Generator):
            self._puts.append(functools.partial(value.set_state, value.get_state()))
        else:
            return False
        return True

    def _note_object(self, value: Any, todo: List[Any]) -> None:
        if isinstance(value, torch.jit.ScriptModule) or not _plain(type(value)):
            raise _Opaque
        attributes = value.__dict__
        self._dicts.append((attributes, dict(attributes)))
        if not isinstance(value, torch.nn.Module):
            todo.extend(attributes.values())
            return
        for inner in attributes.values():  # most are the module's empty dicts of hooks
            if type(inner) in _ATOMS:
                continue
            if inner or type(inner) not in _DICTS:
                todo.append(inner)
            else:
                self._empty.append(inner)


@functools.lru_cache(maxsize=None)
def _plain(cls: type) -> bool:
    """Whether objects of a class keep all they know in __dict__."""
    heap = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
    abstract = ("typing", "abc", "collections.abc")  # whose __slots__ are empty
    return cls.__dictoffset__ != 0 and all(
        c is object or c.__flags__ & heap and ("__slots__" not in vars(c) or c.__module__ in abstract)
        for c in cls.__mro__
    )


def _refill(container: Any, then: Any, add: str) -> None:
    container.clear()
    getattr(container, add)(then)
