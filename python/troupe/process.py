"""What a worker sets up in its process before it runs the user's code."""
from __future__ import annotations

import faulthandler
import fcntl
import os
import resource
import select
import signal
import socket
import sys
import threading
from typing import List, Optional

from .exceptions import InvalidArgsError
from .wire import Channel


def own_group() -> None:
    """Lead a process group, so that what the program starts ends with us."""
    try:
        os.setpgid(0, 0)
    except OSError:
        pass  # a session leader leads its group already
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)


def pin(cpus: Optional[List[int]]) -> None:
    """Run on these CPUs only. None: wherever."""
    if cpus:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as e:
            print(f"cannot pin this worker to CPUs {cpus}: {e}", file=sys.stderr)


def limit_memory(limit: int) -> None:
    """Let this process hold at most limit bytes of its own; 0: no limit. Mapped
    data sets and libraries do not count. InvalidArgsError: it holds more already."""
    if limit <= 0:
        return
    held = _data_bytes()
    if held > limit:
        raise InvalidArgsError(
            f"--memory-limit {limit >> 20} MiB is less than Python with torch and the program take ({held >> 20} MiB)"
        )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def log_to(channel: Channel) -> None:
    """Make the connection standard output and error, line by line; a crash puts
    the stacks of all threads there."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(channel.sock.fileno(), 1)
    os.dup2(channel.sock.fileno(), 2)
    channel.sock.close()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    faulthandler.enable(file=2)


def stacks_to(token: str) -> None:
    """Have SIGUSR1 put the stacks of all threads into a file of its own, where
    the node finds them whatever the program prints."""
    path = os.path.join(os.path.dirname(os.environ["TROUPE_SOCKET"]), "stack-" + token)
    faulthandler.register(signal.SIGUSR1, file=open(path, "ab", buffering=0), all_threads=True, chain=False)


def end_with(channel: Channel) -> None:
    """End this process group when the node closes the connection, or is gone, by
    a signal that the kernel sends: that stops code that never comes back to
    Python, and takes no thread."""
    sock = channel.sock
    try:
        fcntl.fcntl(sock, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(sock, 10, signal.SIGKILL)  # F_SETSIG
        fcntl.fcntl(sock, fcntl.F_SETFL, fcntl.fcntl(sock, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        pass  # the watch of a worker has to do; a zygote notices when it is read from


def die_with(channel: Channel) -> None:
    """As end_with, and by a thread where the kernel sends no signal."""
    end_with(channel)
    threading.Thread(target=_watch, args=(channel.sock,), name="troupe-life", daemon=True).start()


def _watch(sock: socket.socket) -> None:
    end = select.poll()  # no recv: while one waits, the kernel sends no signal
    end.register(sock, select.POLLIN)
    try:
        while not end.poll() or sock.recv(64):
            pass
    except OSError:
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _data_bytes() -> int:
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) << 10
    return 0
