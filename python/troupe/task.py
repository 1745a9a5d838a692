"""What start() does: the tasks init, train, val and infer of one invocation."""
from __future__ import annotations

import inspect
import random
import time
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np
import torch

from . import returns
from .context import Invocation
from .dataset import Batcher, sizes, spans, to_device
from .exceptions import DataError, InvalidArgsError
from .model import Model
from .optimizer import flatten, restore
from .rows import Rows, as_labels
from .safetensors import File, lay_out, write
from .weights import Weights


class Node:
    """What a task needs of the node. The worker's speaks the protocol."""

    def batch(self, index: int) -> None:
        """Batch index begins. May never return, where chaos is asked for."""

    def create(self, sizes: Dict[str, int]) -> Dict[str, str]:
        """Reserve files of so many bytes, by kind ("model", "optimizer"); returns
        their paths."""
        raise NotImplementedError


def seed(value: int) -> None:
    """Seed every source of chance that programs use. value: 64 bits, unsigned."""
    random.seed(value)
    np.random.seed([value & 0xFFFFFFFF, value >> 32])
    torch.manual_seed(value)


def run(invocation: Invocation, model: Model, node: Node) -> Dict[str, Any]:
    """Run the request on the model that main() made; returns the answer, as in
    the protocol."""
    return _Task(invocation, model, node).run()


class _Task:
    def __init__(self, invocation: Invocation, model: Model, node: Node) -> None:
        self.invocation = invocation
        self.request = invocation.request
        self.model = model
        self.network = model._network
        self.node = node
        self.weights = Weights(model._network)
        self.cls = type(model).__name__
        self.seconds = {"load": 0.0, "compute": 0.0, "write": 0.0}
        self.batches = 0
        self.crc: Dict[str, int] = {}  # CRC-32 of what was written, by kind

    def run(self) -> Dict[str, Any]:
        tasks: Dict[str, Callable[[], Dict[str, Any]]] = {
            "init": self.init, "train": self.train, "val": self.validate, "infer": self.infer,
        }
        task = tasks.get(self.request.task)
        if task is None:
            raise InvalidArgsError(f"unknown task {self.request.task!r}")
        self.model._read_request()
        answer = task()
        answer.setdefault("samples", 0)
        answer["batches"] = self.batches
        answer["metrics"] = {name: list(pair) for name, pair in self.model._metrics.items()}
        answer["seconds"] = self.seconds
        answer["crc"] = self.crc
        return answer

    def init(self) -> Dict[str, Any]:
        """The weights come from main() and init(), under main()'s seed."""
        self.node.batch(0)
        dataset = self.model._dataset
        if self.request.x and self.request.y:
            dataset._fill(Rows(self.request.x).array, as_labels(Rows(self.request.y).array))
        started = time.perf_counter()
        self._user("init")
        if _positional(self.model.init) == 0:
            self.model.init()  # type: ignore[call-arg]
        else:
            self.model.init(self.network)
        self._user("")
        self.seconds["compute"] = time.perf_counter() - started
        self._write(None)
        return {"has_optimizer": False}

    def train(self) -> Dict[str, Any]:
        self._prepare(training=True)
        started = time.perf_counter()
        self.network.zero_grad(set_to_none=True)
        self._user("configure_optimizers")
        optimizer = returns.optimizer(self.model.configure_optimizers(), self.cls)
        self._user("")
        if self.request.optimizer:
            restore(optimizer, File(self.request.optimizer))
        self.model.optimizer = optimizer
        self.seconds["load"] += time.perf_counter() - started
        train = _method(self.model.train)
        total, samples = 0.0, 0
        with torch.enable_grad():
            for i, n, batch in self._batches("train"):
                total += returns.train_loss(train(batch, i), i, self.cls) * n
                samples += n
                batch = None
        has_optimizer = self._write(optimizer if self.request.want_optimizer else None)
        self.model.optimizer = None
        self.network.zero_grad(set_to_none=True)
        return {"samples": samples, "loss": total / max(samples, 1), "has_optimizer": has_optimizer}

    def validate(self) -> Dict[str, Any]:
        self._prepare(training=False)
        validate = _method(self.model.validate)
        total, correct, samples, with_accuracy = 0.0, 0.0, 0, 0
        with torch.no_grad():
            for i, n, batch in self._batches("validate"):
                accuracy, loss = returns.validation(validate(batch, i), i, self.cls)
                total += loss * n
                samples += n
                batch = None
                if accuracy is not None:
                    correct += accuracy * n / 100
                    with_accuracy += n
        if with_accuracy not in (0, samples):
            raise InvalidArgsError(
                f"{self.cls}.validate() returned an accuracy for {with_accuracy} of {samples} samples, "
                "expected all or none"
            )
        return {"samples": samples, "loss": total, "correct": correct, "has_accuracy": 0 < samples == with_accuracy}

    def infer(self) -> Dict[str, Any]:
        self._prepare(training=False)
        self.node.batch(0)
        started = time.perf_counter()
        self._user("infer")
        with torch.no_grad():
            takes_network = _positional(self.model.infer) == 2
            given = (self.network, self.request.data) if takes_network else (self.request.data,)
            predictions = returns.predictions(self.model.infer(*given), self.cls)
        self._user("")
        self.seconds["compute"] = time.perf_counter() - started
        return {"predictions": predictions}

    def _prepare(self, training: bool) -> None:
        """Network on its device with the reference weights, all chance seeded."""
        started = time.perf_counter()
        self.model.device = self._device()
        self.network.to(self.model.device)
        if self.request.model is None:
            raise InvalidArgsError(f"task {self.request.task} without a model")
        self.weights.load(self.request.model)
        self.network.train(training)
        seed(self.request.seed)
        self.seconds["load"] += time.perf_counter() - started

    def _device(self) -> torch.device:
        if self.model.platform != "gpu":
            return torch.device("cpu")
        count = torch.cuda.device_count() if self.request.gpu is not None else 0
        if count == 0:
            self.invocation.warn("the program asks for a GPU and this node offers none: it runs on the CPU")
            return torch.device("cpu")
        return torch.device("cuda", self.request.gpu % count)

    def _batches(self, method: str) -> Iterator[Tuple[int, int, Any]]:
        """Index, size and content of each batch, on its device, loaded in pieces
        of bounded size."""
        mark = time.perf_counter()
        model, dataset = self.model, self.model._dataset
        positions = self.request.positions()
        cut = sizes(len(positions), self.request.batch)
        self.batches = len(cut)
        x, y = Rows(self.request.x or ""), Rows(self.request.y or "")
        batcher, index, taken = Batcher(dataset), 0, 0
        for lo, hi in spans(cut, x.row_bytes + y.row_bytes):
            rows = positions[taken : taken + sum(cut[lo:hi])]
            taken += len(rows)
            dataset._fill(None, None)  # there is one piece at a time
            dataset._fill(x.read(rows), as_labels(y.read(rows)))
            self._user("__len__")
            if len(dataset) != len(rows):
                raise DataError(
                    f"{type(dataset).__name__}.__len__() returned {len(dataset)}, expected {len(rows)}: "
                    "a data set has one item for each row of self.data"
                )
            self._user(method)
            self.seconds["load"] += time.perf_counter() - mark
            mark, at = time.perf_counter(), 0
            for n in cut[lo:hi]:
                self.node.batch(index)
                model.batch_size = n
                yield index, n, to_device(batcher.batch(at, at + n), model.device)
                at += n
                index += 1
            now = time.perf_counter()
            self.seconds["compute"] += now - mark
            mark = now
        self._user("")
        dataset._fill(None, None)

    def _write(self, optimizer: Optional[torch.optim.Optimizer]) -> bool:
        """Write the answer; reports whether there was optimizer state to write."""
        started = time.perf_counter()
        files = {}
        if self.request.want_model:
            files["model"] = self.weights.collect()
        if optimizer is not None:
            names, states = flatten(optimizer)
            if names:
                files["optimizer"] = lay_out(names, states), states
        if files:
            paths = self.node.create({kind: layout.size for kind, (layout, _) in files.items()})
            for kind, (layout, tensors) in files.items():
                self.crc[kind] = write(paths[kind], layout, tensors)
        self.seconds["write"] += time.perf_counter() - started
        return "optimizer" in files

    def _user(self, method: str) -> None:
        """Say whose code runs from here on: a method of the user's, "" ours."""
        self.invocation.method = method


def _method(method: Callable[..., Any]) -> Callable[[Any, int], Any]:
    """method as (batch, batch_index); early KubeML programs take (x, y, index)."""
    if _positional(method) == 3:
        return lambda batch, index: method(*batch, index)
    return method


def _positional(method: Callable[..., Any]) -> int:
    """How many arguments a bound method needs."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)
