"""The zygote: imports torch and the program once, and forks workers.

A process forked from one whose OpenMP threads once ran a parallel region waits for
those threads for ever, and CUDA does not survive a fork. So nothing here may start
a thread, and the node is told whether the program kept to that.
"""
from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, Dict, NoReturn, Optional, Set

import torch

from .failure import report
from .process import end_with, own_group
from .program import Program
from .wire import Channel, connect
from .worker import begin, work


def unforkable() -> str:
    """Why this process must not be forked, "" when it may."""
    if torch.cuda.is_initialized():
        return "it initialises CUDA when it is imported"
    if torch.get_num_threads() != 1:
        return f"it calls torch.set_num_threads({torch.get_num_threads()}) when it is imported"
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"it starts threads when it is imported ({threads - 1} are running)"
    return ""


def warm_up() -> None:
    """Let torch set up what every worker needs, on this one thread."""
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    torch.nn.functional.cross_entropy(layer(torch.zeros(2, 2)), torch.zeros(2, dtype=torch.int64)).backward()
    optimizer.step()


class Zygote:
    """Serves fork requests until the node closes the connection."""

    def __init__(self, node: Channel, life: Channel, program: Program) -> None:
        self._node = node
        self._life = life
        self._program = program
        self._children: Set[int] = set()
        self._woken, wake = socket.socketpair()
        for end in (self._woken, wake):
            end.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._node.sock, self._woken], [], [])
            if self._woken in ready:
                self._woken.recv(4096)
                self._reap()
            if self._node.sock in ready:
                message = self._node.receive()
                if message is None:
                    return
                self._fork(message["fork"])

    def _fork(self, order: Dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            self._child(order)
        try:
            os.setpgid(pid, pid)  # the child does, too: whoever comes first
        except OSError:
            pass
        self._children.add(pid)
        self._node.send({"forked": {"token": order["token"], "pid": pid}})

    def _child(self, order: Dict[str, Any]) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for sock in (self._node.sock, self._life.sock, self._woken, self._wake):
                sock.close()
            begin(order["token"], order.get("cpus"))
            work(order["token"], self._program, None, order.get("threads") or 1, order.get("memory") or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _reap(self) -> None:
        for pid in list(self._children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._children.discard(pid)
                self._node.send({"exited": {"pid": pid, "status": status}})


def main(path: str) -> int:
    """Returns the exit status of the process."""
    torch.set_num_threads(1)
    own_group()
    token = os.environ["TROUPE_TOKEN"]
    node, life = connect("zygote", token), connect("life", token)
    end_with(life)  # what the program starts when it is imported, too
    program: Optional[Program] = None
    try:
        warm_up()
        program = Program(path)
    except BaseException as e:
        node.send({"error": report(e, "import")})
        return 1
    reason = unforkable()
    node.send({"ready": True, "forkable": not reason, "reason": reason})
    gc.collect()
    gc.freeze()
    Zygote(node, life, program).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
