"""An exception, as the node and the user are told of it."""
from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any, Dict, List

import torch

from .exceptions import KubeMLException, NotFiniteError, StorageError, UnsupportedError
from .program import MODULE

_SDK = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Ours, but between the user's main() and the user's methods.
_BOUNDARY = tuple(_SDK + name for name in ("task.py", "worker.py", "program.py", "zygote.py", "dataset.py"))
_LIMIT = 64 << 10  # characters of a traceback
_GPU_MEMORY = ("CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
_HOST_MEMORY = ("DefaultCPUAllocator", "not enough memory", "std::bad_alloc", "can't start new thread")


def describe(error: BaseException, method: str) -> Dict[str, Any]:
    """The content of a `failed` frame. method: the user's that ran, "" for none."""
    return {
        "kind": _kind(error, method),
        "type": type(error).__name__,
        "message": _message(error, method),
        "traceback": trace(error),
        "method": method,
        "where": _where(error),
    }


def report(error: BaseException, method: str) -> Dict[str, Any]:
    """describe, and where the user's code is to blame its traceback to the log."""
    failed = describe(error, method)
    if failed["kind"] == "user":
        sys.stdout.flush()
        sys.stderr.write(failed["traceback"])
        sys.stderr.flush()
    return failed


def trace(error: BaseException) -> str:
    """The traceback without our own frames, the program's files named from its
    folder on: nobody knows the place where a worker has them."""
    told = traceback.TracebackException.from_exception(error)
    link, seen = told, set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.stack = traceback.StackSummary.from_list(_users(link.stack))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    text = "".join(told.format()).replace(_folder(), "")
    if len(text) > _LIMIT:
        text = text[: _LIMIT // 2] + "\n  ...\n" + text[-_LIMIT // 2 :]
    return text


def _where(error: BaseException) -> str:
    """file:line of the program that the error came out of; "" when unknown."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}".replace(_folder(), "")
    folder = _folder()
    for frame in reversed(_users(traceback.extract_tb(error.__traceback__))):
        if folder and frame.filename.startswith(folder):
            return f"{frame.filename[len(folder):]}:{frame.lineno}"
    return ""


def _folder() -> str:
    """The program's folder, with the separator at its end; "" before there is one."""
    file = getattr(sys.modules.get(MODULE), "__file__", None)
    return os.path.dirname(file) + os.sep if file else ""


def _users(stack: List[traceback.FrameSummary]) -> List[traceback.FrameSummary]:
    """The frames from where the user's code was entered last."""
    after = stack
    for i, frame in enumerate(stack):
        if frame.filename in _BOUNDARY:
            after = stack[i + 1 :]
    kept = [f for f in after if not _ours(f.filename)]
    return kept or [f for f in stack if not _ours(f.filename)]


def _ours(filename: str) -> bool:
    return filename.startswith((_SDK, "<frozen importlib", "<frozen runpy"))


def _kind(error: BaseException, method: str) -> str:
    if _gpu_memory(error) or _host_memory(error):
        return "memory"
    if isinstance(error, UnsupportedError):
        return "unsupported"
    if isinstance(error, NotFiniteError):
        return "rejected"
    if isinstance(error, KubeMLException) and _raised_here(error):
        if isinstance(error, StorageError):
            return "corrupt"
        return "invalid" if error.status_code < 500 else "internal"
    return "user" if method else "internal"


def _raised_here(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _ours(frames[-1].filename)


def _gpu_memory(error: BaseException) -> bool:
    kind = getattr(torch.cuda, "OutOfMemoryError", ())
    return isinstance(error, kind) or isinstance(error, RuntimeError) and any(t in _text(error) for t in _GPU_MEMORY)


def _host_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, RuntimeError):
        return any(t in _text(error) for t in _HOST_MEMORY)
    return isinstance(error, MemoryError)


def _message(error: BaseException, method: str) -> str:
    text = " ".join(_text(error).split())[:1000]
    where = f" in {method}()" if method not in ("", "import") else ""
    if _gpu_memory(error):
        return f"the GPU's memory is exhausted{where}: use a smaller --batch, or fewer --slots per GPU ({text})"
    if _host_memory(error):
        remedy = "use a smaller --batch, fewer --slots, or a larger --memory-limit"
        return f"memory is exhausted{where}: {remedy} ({text or 'MemoryError'})"
    if isinstance(error, SystemExit):
        return f"the program called {_exit_call(error)}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{text}: install it for {sys.executable}"
    return text or type(error).__name__


def _text(error: BaseException) -> str:
    """str(error), where that works: its code is the user's, too."""
    try:
        return str(error)
    except BaseException as e:
        return f"({type(error).__name__}.__str__() raised {type(e).__name__})"


def _exit_call(error: SystemExit) -> str:
    code = error.code
    return f"sys.exit({code!r})" if code is None or isinstance(code, (int, str)) else "sys.exit()"
