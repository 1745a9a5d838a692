"""The user's program: a file, or a folder with main.py, imported as a module."""
from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any, Callable, List, Optional

from .context import Invocation
from .exceptions import InvalidArgsError
from .model import Model

ENTRY = "TROUPE_ENTRY"  # environment: the name of what to run instead of main()
MODULE = "__troupe_program__"  # not __main__: `if __name__ == "__main__"` does not run


class Registered(BaseException):
    """Raised by troupe.run in a worker: this is what to train, import no further."""

    def __init__(self, entry: Callable[[], Any]) -> None:
        super().__init__()
        self.entry = entry


class Program:
    """An imported program. What is run is what $TROUPE_ENTRY names; else what the
    program gives to troupe.run while it is imported; else main(); else its only
    Model."""

    def __init__(self, path: str) -> None:
        """Import the program. Raises what its code raises, and InvalidArgsError
        where there is nothing to run."""
        self.file = _file(path)
        self.name = os.path.basename(path.rstrip("/"))
        sys.path.insert(0, os.path.dirname(self.file))  # as for a script
        sys.argv = [self.file]
        self._registered: Optional[Callable[[], Any]] = None
        self._module = self._import()
        if self._registered is None and not callable(getattr(self._module, "main", None)) and not self._models():
            raise InvalidArgsError(
                f"{self.name} has no main(): add `def main(): return YourModel(network, dataset).start()`"
            )

    def call(self, invocation: Invocation) -> None:
        """Run main(), or what stands in for it; start() runs the request."""
        try:
            value = self._entry()()
        except Registered as r:  # main() calls troupe.run
            value = r.entry()
        if invocation.started is None and isinstance(value, Model):
            value.start()
        if invocation.started is None:
            raise InvalidArgsError(
                f"main() of {self.name} came back without calling start(): end it with `return model.start()`"
            )

    def _entry(self) -> Callable[[], Any]:
        name = os.environ.get(ENTRY)
        if name:
            entry = getattr(self._module, name, None)
            if entry is None:
                raise InvalidArgsError(f"{self.name} has no {name}: define it before troupe.run is called")
            return entry
        entry = self._registered or getattr(self._module, "main", None)
        if entry is not None:
            return entry
        models = self._models()
        if len(models) > 1:
            raise InvalidArgsError(f"{self.name} has {len(models)} models and no main() that chooses: add one")
        model = models[0]
        try:
            inspect.signature(model).bind()
        except TypeError as e:
            raise InvalidArgsError(
                f"{self.name} has no main(), and {model.__name__} cannot be made without it ({e}): "
                f"add `def main(): return {model.__name__}(network, dataset).start()`"
            ) from None
        return model

    def _import(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location(MODULE, self.file)
        if spec is None or spec.loader is None:
            raise InvalidArgsError(f"{self.file} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE] = module
        try:
            spec.loader.exec_module(module)
        except Registered as r:
            self._registered = r.entry
        return module

    def _models(self) -> List[type]:
        """The models that the program's own file defines."""
        values = vars(self._module).values()
        return [v for v in values if isinstance(v, type) and issubclass(v, Model) and v.__module__ == MODULE]


def _file(path: str) -> str:
    path = os.path.abspath(path)
    if os.path.isdir(path):
        for name in ("main.py", "program.py"):
            if os.path.isfile(os.path.join(path, name)):
                return os.path.join(path, name)
        raise InvalidArgsError(f"the folder {path} has no main.py")
    return path
