"""The user's program: a file, or a folder with main.py, imported as a module."""
from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, List, Optional

from .context import Invocation
from .exceptions import InvalidArgsError
from .model import Model

MODULE = "__troupe_program__"  # not __main__: `if __name__ == "__main__"` does not run


class Registered(BaseException):
    """Raised by troupe.run in a worker: this is what to train, import no further."""

    def __init__(self, entry: Callable[[], Any]) -> None:
        super().__init__()
        self.entry = entry


class Program:
    """An imported program. ``main()`` is what it is run by; without one, what it
    gives to troupe.run, or its only Model."""

    def __init__(self, path: str) -> None:
        """Import the program. Raises what its code raises, and InvalidArgsError
        where there is nothing to run."""
        self.file = _file(path)
        self.name = os.path.basename(path.rstrip("/"))
        folder = os.path.dirname(self.file)
        if sys.path and folder != sys.path[0]:
            sys.path[0] = folder  # in the place of -m's folder, as for a script
        sys.argv = [self.file]
        self._entry = self._import()

    def call(self, invocation: Invocation) -> None:
        """Run main(), whose start() runs the request."""
        value = self._entry()
        if invocation.started is None and isinstance(value, Model):
            value.start()
        if invocation.started is None:
            raise InvalidArgsError(f"main() of {self.name} came back without calling start(): end it with `return model.start()`")

    def _import(self) -> Callable[[], Any]:
        spec = importlib.util.spec_from_file_location(MODULE, self.file)
        if spec is None or spec.loader is None:
            raise InvalidArgsError(f"{self.file} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE] = module
        registered: Optional[Callable[[], Any]] = None
        try:
            spec.loader.exec_module(module)
        except Registered as r:
            registered = r.entry
        main = getattr(module, "main", None)
        if registered is not None or callable(main):
            return registered or main
        models = _models(module)
        if len(models) != 1:
            raise InvalidArgsError(
                f"{self.name} has no main() and {len(models) or 'no'} models: add `def main(): return YourModel(network, dataset).start()`"
            )
        return models[0]


def _models(module: ModuleType) -> List[type]:
    return [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Model) and v.__module__ == MODULE]


def _file(path: str) -> str:
    path = os.path.abspath(path)
    if os.path.isdir(path):
        for name in ("main.py", "program.py"):
            if os.path.isfile(os.path.join(path, name)):
                return os.path.join(path, name)
        raise InvalidArgsError(f"the folder {path} has no main.py")
    return path
