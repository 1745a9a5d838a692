"""Runs programs in the test's own process, as a worker would."""
from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from troupe.program import Program  # noqa: E402
from troupe.request import Request  # noqa: E402
from troupe.safetensors import File  # noqa: E402
from troupe.task import Node  # noqa: E402
from troupe.worker import Worker  # noqa: E402


class Files(Node):
    """Reserves files in a folder, as a node does."""

    def __init__(self, folder: str) -> None:
        self.folder, self.number, self.paths = folder, 0, {}

    def batch(self, index: int) -> None:
        pass

    def create(self, sizes: Dict[str, int]) -> Dict[str, str]:
        self.number += 1
        self.paths = {kind: os.path.join(self.folder, f"{kind}-{self.number}") for kind in sizes}
        for kind, path in self.paths.items():
            with open(path, "wb") as f:
                f.truncate(sizes[kind] + 100)
        return self.paths


class Local:
    """One program with its data, and the requests that a job would make."""

    def __init__(self, folder: Any, source: str, x: Optional[np.ndarray] = None, y: Optional[np.ndarray] = None, **request: Any) -> None:
        self.folder = str(folder)
        path = os.path.join(self.folder, "program.py")
        with open(path, "w") as f:
            f.write(source)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(20, 4)).astype("f4") if x is None else x
        y = np.arange(len(x)) % 2 if y is None else y
        self.rows = len(x)
        self.request = dict(
            function="program", job="j", epoch=1, round=0, index=0, n=1, k=16, batch=8, lr=0.1, seed=7, dataset="d",
            x=self.array("x", x), y=self.array("y", y), samples=len(x), positions=list(range(len(x))), **request,
        )
        self.program = Program(path)
        sys.path.pop(0)
        self.files = Files(self.folder)
        self.fresh()

    def fresh(self) -> None:
        """Go on in a new worker."""
        self.worker = Worker(self.files, self.program, None, 1)  # type: ignore[arg-type]

    def array(self, name: str, value: np.ndarray) -> str:
        path = os.path.join(self.folder, name + ".npy")
        np.save(path, value)
        return path

    def answer(self, task: str, **more: Any) -> Dict[str, Any]:
        self.files.sabotage = None
        return self.worker._answer(Request({**self.request, "task": task, **more}))

    def done(self, task: str, **more: Any) -> Dict[str, Any]:
        answer = self.answer(task, **more)
        assert "done" in answer, answer["failed"]["message"] + "\n" + answer["failed"]["traceback"]
        return answer["done"]

    def failed(self, task: str, **more: Any) -> Dict[str, Any]:
        answer = self.answer(task, **more)
        assert "failed" in answer, answer
        return answer["failed"]

    def init(self) -> str:
        """The path of a new model."""
        self.done("init")
        return self.files.paths["model"]

    def train(self, model: str, **more: Any) -> Dict[str, Any]:
        return self.done("train", model=model, **more)

    def bytes(self, kind: str = "model") -> bytes:
        with open(self.files.paths[kind], "rb") as f:
            return f.read()

    def state(self) -> Dict[str, Any]:
        file = File(self.files.paths["model"])
        return dict(zip(file.layout.names, file.clone()))
