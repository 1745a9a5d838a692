"""The class that a user's program extends."""
from __future__ import annotations

import logging
import math
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import nn

from . import context
from .dataset import Dataset
from .exceptions import InvalidArgsError
from .request import Args


class Model:
    """A network, and how it is trained.

    Override :meth:`configure_optimizers`, :meth:`train` and :meth:`validate`;
    :meth:`init` and :meth:`infer` where the default does not do. Each call trains
    or validates one batch, which is what the data set's items collate to, on
    ``self.device``. The program's ``main()`` builds network, data set and model
    and returns ``model.start()``.

    A round must depend on nothing but the network's state dict, the optimizer's
    state, the batches and the attributes below, so that it can be repeated: what
    else a method leaves in the model, the data set or the network is undone
    before the next round.
    """

    lr: float  #: learning rate of this round
    batch_size: int  #: samples of the *current* batch
    epoch: int  #: from 1
    task: str  #: "init", "train", "val" or "infer"
    args: Args  #: the user's ``--arg k=v``
    device: torch.device  #: where batches and network are
    optimizer: Optional[torch.optim.Optimizer]  #: of this round, in train
    logger: logging.Logger  #: its text becomes the job's log

    def __init__(self, network: nn.Module, dataset: Optional[Dataset] = None, gpu: bool = False) -> None:
        """dataset: left out, batches are (data, labels) as they are stored.
        gpu: use one where there is one."""
        if not isinstance(network, nn.Module):
            raise InvalidArgsError(f"network is {_kind(network)}, expected a torch.nn.Module")
        if dataset is None:
            dataset = Dataset()
        if not isinstance(dataset, Dataset):
            raise InvalidArgsError(f"dataset is {_kind(dataset)}, expected a class that extends KubeDataset")
        self._network = network
        self._dataset = dataset
        self.platform = "gpu" if gpu else "cpu"
        self.device = torch.device("cpu")
        self.optimizer = None
        self.logger = _logger()
        self._metrics: Dict[str, List[float]] = {}  # name -> [weighted sum, weight]
        if context.current is not None:
            self._read_request()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return a new optimizer over ``self.parameters()``. Called at the start
        of every round, after ``self.lr`` and ``self.epoch`` are set; the state of
        the last round (momentum and the like) is then put back."""
        raise self._missing("configure_optimizers")

    def init(self, network: nn.Module) -> None:
        """Set the weights that training starts from. May also be written
        ``init(self)``. The default keeps what the network's constructor made."""

    def train(self, batch: Any, batch_index: int) -> float:
        """Train one batch: forward, backward, ``self.optimizer.step()``. Return
        the mean loss of the batch, a number or a tensor of one element."""
        raise self._missing("train")

    def validate(self, batch: Any, batch_index: int) -> Any:
        """Return ``(accuracy, loss)``, ``(None, loss)`` or the loss of one batch:
        means, accuracy in percent. The network is in eval mode, without gradients."""
        raise self._missing("validate")

    def infer(self, data: List[Any]) -> Any:
        """Return predictions for data points as they came in JSON: a tensor, an
        array or a list. The default returns what the network answers."""
        parameter = next(self._network.parameters(), None)
        x = torch.as_tensor(data, device=self.device)
        return self(x if parameter is None else x.to(parameter.dtype))

    def start(self) -> Any:
        """Run what this process was asked to do."""
        invocation = context.current
        if invocation is None:
            raise InvalidArgsError(
                "start() trains only inside of a Troupe worker: use `troupe run PROGRAM -d DATASET` or troupe.run"
            )
        invocation.started = self
        return invocation.execute(invocation, self)

    def log(self, name: str, value: Any) -> None:
        """Record a number of the current batch. History and metrics show its
        mean, weighted by samples. NaN and infinite values are left out."""
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise InvalidArgsError(f"log({name!r}, …) got {_kind(value)}, expected a number") from None
        if not math.isfinite(number):
            if context.current is not None:
                context.current.warn(f"log({name!r}, {number}): values that are not finite are left out of its mean")
            return
        weight = float(self.batch_size)
        entry = self._metrics.setdefault(str(name), [0.0, 0.0])
        entry[0] += number * weight
        entry[1] += weight

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the network."""
        return self._network(*args, **kwargs)

    def parameters(self) -> Iterator[nn.Parameter]:
        """The network's parameters."""
        return self._network.parameters()

    def apply(self, fn: Callable[[nn.Module], None]) -> "Model":
        """Apply fn to every module of the network."""
        self._network.apply(fn)
        return self

    def _read_request(self) -> None:
        """Take over what the request says."""
        request = context.current.request
        self.lr, self.batch_size, self.epoch = request.lr, request.batch, request.epoch
        self.task, self.args = request.task, Args(request)
        self._metrics = {}

    def _missing(self, method: str) -> InvalidArgsError:
        return InvalidArgsError(f"{type(self).__name__} does not define {method}()")


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _logger() -> logging.Logger:
    """A logger of its own, so that what the program does to the root one holds."""
    logger = logging.getLogger("troupe.program")
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
