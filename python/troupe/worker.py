"""A worker process: runs one invocation after the other of one program.

Started by fork from the zygote, or as ``python -m troupe.worker PROGRAM``.
"""
from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple

import torch

from . import context, task
from .exceptions import InvalidFormatError, StorageError
from .failure import report
from .model import Model
from .process import die_with, limit_memory, log_to, own_group, pin, stacks_to
from .program import Program
from .request import Request
from .reuse import Pristine
from .wire import LIMIT, Channel, connect

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

    def create(self, sizes: Dict[str, int]) -> Dict[str, str]:
        self.channel.send({"create": sizes})
        reply = self.receive()
        if "paths" not in reply:
            raise StorageError(reply.get("refused", "the node reserved no files"))
        return reply["paths"]


class Worker:
    """Answers requests, one at a time."""

    def __init__(
        self, control: Control, program: Optional[Program], broken: Optional[BaseException], threads: int
    ) -> None:
        self._control = control
        self._program = program
        self._broken = broken  # why there is no program
        self._threads = threads
        torch.set_num_threads(threads)  # once: each call starts new threads, which costs 20 ms
        self._kept: Optional[Tuple[Request, Pristine]] = None  # what main() made, and for whom
        self._warned: Set[str] = set()

    def serve(self) -> NoReturn:
        """Answer requests until the node has gone."""
        while True:
            request = Request(self._control.receive()["run"])
            reply = self._answer(request)
            sys.stdout.flush()
            sys.stderr.flush()
            self._control.channel.send(reply)

    def _answer(self, request: Request) -> Dict[str, Any]:
        if self._broken is not None:
            return {"failed": report(self._broken, "import")}
        invocation = context.Invocation(request, self._execute)
        environment = dict(os.environ)
        context.current = invocation
        self._control.sabotage = request.sabotage
        try:
            os.environ.update(request.env)
            if torch.get_num_threads() != self._threads:  # the program has changed it
                torch.set_num_threads(self._threads)
            self._run(invocation)
            return _sendable({"done": self._with_warnings(invocation, invocation.answer)})
        except BaseException as e:
            self._kept = None
            return {"failed": self._with_warnings(invocation, report(e, invocation.method))}
        finally:
            context.current = None
            _restore(environment)
            if request.task == "init":
                gc.collect()  # a model that nothing else comes after for a while

    def _run(self, invocation: context.Invocation) -> None:
        """Run the request, on a model kept from the last or on a new one."""
        request = invocation.request
        kept, self._kept = self._kept, None
        if kept and request.task != "init" and request.same_program(kept[0]) and kept[1].restore():
            invocation.method = ""
            invocation.answer = task.run(invocation, kept[1].model, self._control)
            self._kept = (request, kept[1])
            return
        kept = None  # there is one model at a time
        # What main() draws at random must be the same in every round, or a model
        # kept would differ from a new one; only init() has draws of its own.
        task.seed(request.seed if request.task == "init" else 0)
        self._program.call(invocation)

    def _execute(self, invocation: context.Invocation, model: Model) -> Any:
        """What start() does."""
        pristine = Pristine(model) if invocation.request.task != "init" else None
        invocation.method = ""
        invocation.answer = task.run(invocation, model, self._control)
        if pristine is not None:
            self._kept = (invocation.request, pristine)
        return invocation.answer

    def _with_warnings(self, invocation: context.Invocation, content: Dict[str, Any]) -> Dict[str, Any]:
        for text in invocation.warnings:
            if text not in self._warned:
                self._warned.add(text)
                print(f"warning: {text}", file=sys.stderr)
        if invocation.warnings:
            content["warnings"] = invocation.warnings
        return content


def _restore(environment: Dict[str, str]) -> None:
    for name in [name for name in os.environ if name not in environment]:
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _sendable(reply: Dict[str, Any]) -> Dict[str, Any]:
    """reply, if a frame can hold it; else the exception that says what cannot."""
    try:
        size = len(json.dumps(reply, allow_nan=False, separators=(",", ":")))
    except ValueError:
        raise InvalidFormatError("the predictions hold NaN or infinite values, which JSON has no way to say") from None
    if size > LIMIT:
        raise InvalidFormatError(f"the predictions take {size} bytes, limit 16 MiB: ask for fewer points at once")
    return reply


def begin(token: str, cpus: Optional[List[int]]) -> None:
    """Set this process up: group, CPUs, log, and its end with the node's."""
    own_group()
    pin(cpus)
    log_to(connect("log", token))
    stacks_to(token)
    global _life
    _life = connect("life", token)
    die_with(_life)


def work(
    token: str, program: Optional[Program], broken: Optional[BaseException], threads: int, memory: int
) -> NoReturn:
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
