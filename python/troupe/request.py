"""What one invocation asks for."""
from __future__ import annotations

import array
from typing import Any, Dict, List, Optional

import numpy as np


class Args(Dict[str, str]):
    """The user's ``--arg k=v``, as ``self.args["k"]``; and, as attributes, what
    KubeML's arguments hold."""

    lr: float
    batch_size: int
    epoch: int

    def __init__(self, request: "Request") -> None:
        super().__init__(request.args)
        self.lr, self.batch_size, self.epoch = request.lr, request.batch, request.epoch
        self._job_id, self._N, self._K = request.job, request.n, request.k
        self._task, self._func_id = request.task, request.index


class Sabotage:
    """Where --chaos breaks this attempt: before which batch, -1 for never."""

    def __init__(self, raw: Dict[str, Any]) -> None:
        self.kill: int = raw.get("kill_at_batch", -1)
        self.hang: int = raw.get("hang_at_batch", -1)
        self.slow: int = raw.get("slow_at_batch", -1)
        self.slow_s: float = raw.get("slow_s", 0.0)


class Request:
    """One invocation: task ("init", "train", "val", "infer") of function index
    of n in a round. All that an answer may depend on is here."""

    def __init__(self, raw: Dict[str, Any]) -> None:
        self.task: str = raw["task"]
        self.function: str = raw.get("function", "")
        self.job: str = raw.get("job", "")
        self.epoch: int = raw.get("epoch", 0)  # from 1; 0 for init
        self.round: int = raw.get("round", 0)
        self.index: int = raw.get("index", 0)
        self.n: int = raw.get("n", 1)
        self.k: int = raw.get("k", -1)
        self.batch: int = raw.get("batch") or 64
        self.lr: float = raw.get("lr", 0.0)
        self.seed: int = raw.get("seed", 0)
        self.args: Dict[str, str] = raw.get("args") or {}
        self.env: Dict[str, str] = raw.get("env") or {}
        self.dataset: str = raw.get("dataset", "")
        self.x: Optional[str] = raw.get("x")  # paths of npy files
        self.y: Optional[str] = raw.get("y")
        self.model: Optional[str] = raw.get("model") or None  # paths of safetensors files
        self.optimizer: Optional[str] = raw.get("optimizer") or None
        self.want_model: bool = raw.get("want_model", True)
        self.want_optimizer: bool = raw.get("want_optimizer", False)
        self.data: Any = raw.get("data")
        self.gpu: Optional[int] = raw.get("gpu")
        self.sabotage = Sabotage(raw.get("sabotage") or {})
        self._positions: List[int] = raw.get("positions") or []
        self._positions_file: Optional[str] = raw.get("positions_file") or None

    def positions(self) -> np.ndarray:
        """The rows to train or validate, in order: int64 [samples]."""
        if self._positions_file:
            return np.fromfile(self._positions_file, "<i8").astype(np.int64, copy=False)
        return np.frombuffer(array.array("q", self._positions), np.int64)

    def same_program(self, other: "Request") -> bool:
        """Whether main() would be called under the same conditions."""
        return (self.job, self.args, self.env, self.gpu) == (other.job, other.args, other.env, other.gpu)
