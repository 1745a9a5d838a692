"""A worker process: runs one invocation after the other of one program.

Started by fork from the zygote, or as ``python -m troupe.worker PROGRAM``.
"""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, NoReturn, Optional

import torch

from . import context, task
from .exceptions import InvalidFormatError, StorageError
from .failure import describe
from .process import die_with, limit_memory, log_to, own_group, pin
from .program import Program
from .request import Request
from .wire import Channel, FrameTooLong, connect

_PROGRESS = 0.5  # seconds between reports of batches


class Control(task.Node):
    """The node, at the other end of the control connection."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.sabotage = Request({"task": ""}).sabotage
        self._told = 0.0

    def receive(self) -> Dict[str, Any]:
        """Wait for the node; ends the process when it has gone."""
        message = self.channel.receive()
        if message is None:
            os._exit(0)
        return message

    def batch(self, index: int) -> None:
        s = self.sabotage
        if index == s.slow:
            time.sleep(s.slow_s)
        if index in (s.kill, s.hang):
            self.channel.send({"batch": index})
            while True:  # the node kills us, at once or when the time is up
                time.sleep(3600)
        now = time.monotonic()
        if now - self._told >= _PROGRESS:
            self._told = now
            self.channel.send({"batch": index})

    def create(self, model: Optional[int], optimizer: Optional[int]) -> Dict[str, str]:
        wanted = {"model": model, "optimizer": optimizer}
        self.channel.send({"create": {k: v for k, v in wanted.items() if v is not None}})
        reply = self.receive()
        if "paths" not in reply:
            raise StorageError(reply.get("refused", "the node reserved no files"))
        return reply["paths"]


class Worker:
    """Answers requests, one at a time."""

    def __init__(self, control: Control, program: Optional[Program], broken: Optional[BaseException], threads: int) -> None:
        self._control = control
        self._program = program
        self._broken = broken  # why there is no program
        self._threads = threads

    def serve(self) -> NoReturn:
        while True:
            request = Request(self._control.receive()["run"])
            reply = self._answer(request)
            sys.stdout.flush()
            sys.stderr.flush()
            self._control.channel.send(reply)

    def _answer(self, request: Request) -> Dict[str, Any]:
        invocation = context.Invocation(request, lambda model: self._execute(invocation, model))
        if self._broken is not None:
            return {"failed": describe(self._broken, "import")}
        environment = dict(os.environ)
        context.current = invocation
        self._control.sabotage = request.sabotage
        try:
            os.environ.update(request.env)
            torch.set_num_threads(self._threads)
            task.seed(request.seed)
            self._program.call(invocation)
            answer = invocation.answer
            if invocation.warnings:
                answer["warnings"] = invocation.warnings
            return _sendable({"done": answer})
        except BaseException as e:
            failed = describe(e, invocation.method)
            if invocation.warnings:
                failed["warnings"] = invocation.warnings
            return {"failed": failed}
        finally:
            context.current = None
            os.environ.clear()
            os.environ.update(environment)

    def _execute(self, invocation: context.Invocation, model: Any) -> Any:
        invocation.answer = task.run(invocation, model, self._control)
        return invocation.answer


def _sendable(reply: Dict[str, Any]) -> Dict[str, Any]:
    """reply, if a frame can hold it; else the exception that says what cannot."""
    import json

    try:
        size = len(json.dumps(reply, allow_nan=False))
    except ValueError:
        raise InvalidFormatError("the predictions hold NaN or infinite values, which JSON has no way to say") from None
    if size > (16 << 20) - 1024:
        raise InvalidFormatError(f"the predictions take {size} bytes, limit 16 MiB: ask for fewer points at once")
    return reply


def begin(token: str, cpus: Optional[List[int]]) -> None:
    """Set this process up: group, CPUs, log, and its end with the node's."""
    own_group()
    pin(cpus)
    log_to(connect("log", token))
    global _life
    _life = connect("life", token)
    die_with(_life)


def work(token: str, program: Optional[Program], broken: Optional[BaseException], threads: int, memory: int) -> NoReturn:
    """Be a worker until the node has gone."""
    try:
        limit_memory(memory)
    except Exception as e:
        broken = e
    Worker(Control(connect("worker", token)), program, broken, max(threads, 1)).serve()


_life: Optional[Channel] = None  # held open; the node's end says that it lives


def main(path: str) -> NoReturn:
    """A fresh process: all that is needed comes from the environment."""
    env, token = os.environ, os.environ["TROUPE_TOKEN"]
    cpus = [int(c) for c in env.get("TROUPE_CPUS", "").split(",") if c]
    begin(token, cpus)
    program, broken = None, None
    try:
        program = Program(path)
    except BaseException as e:
        broken = e
    work(token, program, broken, int(env.get("TROUPE_THREADS") or 1), int(env.get("TROUPE_MEMORY") or 0))


if __name__ == "__main__":
    main(sys.argv[1])
