"""troupe.run: train from a script or a notebook, through the `troupe` command."""
from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Union
from urllib.parse import unquote, urlparse

import numpy as np
import torch

from .exceptions import InvalidArgsError, JobError
from .notebook import definitions
from .program import ENTRY, Registered
from .safetensors import File

Arrays = Sequence[np.ndarray]

_PARTS = ("x_train", "y_train", "x_test", "y_test")


class Result:
    """How a job ended: the object that ``troupe run -o json`` prints, with its
    fields as attributes (``job_id state epochs accuracy validation_loss model …``)."""

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("fields", ()))
            raise AttributeError(f"a result has no {name!r}, only {known}") from None

    def __repr__(self) -> str:
        shown = ("job_id", "state", "accuracy")
        return f"Result({', '.join(f'{k}={self.fields.get(k)!r}' for k in shown)})"

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """The trained model, for ``network.load_state_dict``. It must be a file of
        this machine."""
        url = urlparse(self.fields.get("model") or "")
        if url.scheme not in ("", "file") or not url.path:
            raise InvalidArgsError(f"the model {url.geturl()!r} is no file of this machine: use `troupe model export`")
        file = File(unquote(url.path))
        return dict(zip(file.layout.names, file.clone()))


def run(model: Callable[[], Any], dataset: Union[str, "os.PathLike[str]", Arrays], **flags: Any) -> Result:
    """Train, and return how it went.

    model: a :class:`Model` subclass whose constructor needs no arguments, or a
    function that returns a model; defined in the calling script or notebook.
    dataset: what ``-d`` takes; or arrays ``(x_train, y_train, x_test, y_test)``; or
    ``(x, y)``, of which ``test_share=0.2`` is kept for testing.
    flags: those of ``troupe run``, with _ for -: ``epochs=3, parallelism=2,
    static=True, arg={"width": 64}``.

    JobError when the job does not succeed; InvalidArgsError when there is nothing
    to run. In a worker, where the script is imported as the program, this names
    the model and goes no further.
    """
    if not callable(model):
        raise InvalidArgsError(
            f"troupe.run got a {type(model).__name__}, expected a Model subclass or a function that returns a model"
        )
    if "TROUPE_SOCKET" in os.environ:
        raise Registered(model)
    folder = tempfile.mkdtemp(prefix="troupe-run-")
    try:
        program = _program(model, folder)
        data = dataset if isinstance(dataset, (str, os.PathLike)) else _save(dataset, folder)
        flags["env"] = {**flags.get("env", {}), ENTRY: model.__name__}
        return _call([_binary(), "run", program, "-d", os.fspath(data), "-o", "json", *_arguments(flags)])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _program(model: Callable[[], Any], folder: str) -> str:
    """The path of a program that has model: its script, or, of a notebook, the
    definitions in a new file."""
    name = getattr(model, "__qualname__", repr(model))
    module = sys.modules.get(getattr(model, "__module__", ""))
    if module is None or getattr(module, name, None) is not model:
        raise InvalidArgsError(f"troupe.run got {name}: define it at the top level of the script or notebook")
    file = getattr(module, "__file__", None) and (inspect.getsourcefile(module) or module.__file__)
    if file and os.path.isfile(file):
        return os.path.abspath(file)
    if file:
        raise InvalidArgsError(f"the source of {name} came from {file}, which workers cannot read: put it into a file")
    path = os.path.join(folder, "notebook.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write(definitions(vars(module), name))
    return path


def _save(arrays: Sequence[np.ndarray], folder: str) -> str:
    if not isinstance(arrays, (tuple, list)) or len(arrays) not in (2, len(_PARTS)):
        got = f"{len(arrays)} arrays" if isinstance(arrays, (tuple, list)) else f"of type {type(arrays).__name__}"
        raise InvalidArgsError(f"dataset is {got}, expected a name, a path, (x, y) or ({', '.join(_PARTS)})")
    path = os.path.join(folder, "data.npz")
    np.savez(path, **dict(zip(_PARTS, map(np.asarray, arrays))))
    return path


def _binary() -> str:
    path = os.environ.get("TROUPE_BIN") or shutil.which("troupe")
    if not path:
        raise InvalidArgsError("the `troupe` command is not found: put it on PATH, or its path into TROUPE_BIN")
    return path


def _arguments(flags: Mapping[str, Any]) -> Iterator[str]:
    """Flags as typed: epochs=3 is --epochs=3, arg={"k": "v"} is --arg=k=v."""
    for key, value in flags.items():
        name = "--K" if key in ("k", "K") else "--" + key.replace("_", "-")
        if isinstance(value, Mapping):
            yield from (f"{name}={k}={v}" for k, v in value.items())
        elif isinstance(value, bool):
            yield f"{name}={str(value).lower()}"
        elif value is not None:
            yield f"{name}={value}"


def _call(command: List[str]) -> Result:
    """Run the command, with its progress on our standard error."""
    # In a session of its own: Ctrl-C reaches it once, through us, also in a notebook.
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    lines: List[str] = []
    relay = threading.Thread(target=_relay, args=(process.stderr, lines), daemon=True)
    relay.start()
    try:
        out = process.stdout.read()  # type: ignore[union-attr]
        code = process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    relay.join()
    result = Result(json.loads(out)) if out.strip() else None
    if code != 0 or result is None:
        reason = (result and result.fields.get("error")) or "".join(lines[-5:]).strip() or f"exit code {code}"
        raise JobError(reason, code, result)
    return result


def _relay(stream: Any, lines: List[str]) -> None:
    for line in stream:
        lines.append(line)
        del lines[:-20]
        sys.stderr.write(line)
