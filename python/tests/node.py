"""A node as the workers see it: the other end of the protocol, for tests."""
from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Dict, List, Optional

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from troupe.wire import Channel  # noqa: E402

DEADLINE = 60  # seconds for anything at all


class Worker:
    """The node's side of one worker process."""

    def __init__(self, node: "Node", token: str, control: Channel, log: Channel, life: Channel) -> None:
        self.node, self.token, self.pid = node, token, node.pid
        self.control, self._log, self.life = control, log, life
        self.text = ""
        self.batches: List[int] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _read_log(self) -> None:
        self._log.sock.settimeout(None)
        while True:
            try:
                chunk = self._log.sock.recv(65536)
            except OSError:
                return
            if not chunk:
                return
            self.text += chunk.decode(errors="replace")

    def send(self, **request: Any) -> None:
        self.control.send({"run": request})

    def reply(self) -> Optional[Dict[str, Any]]:
        """Serve the worker until it has answered; None when it died."""
        while True:
            message = self.control.receive()
            if message is None:
                return None
            if "batch" in message:
                self.batches.append(message["batch"])
            elif "create" in message:
                self.created = message["create"]
                paths = {}
                for kind, size in self.created.items():
                    path = self.node.path(f"{kind}-{next(self.node.numbers)}")
                    with open(path, "wb") as f:
                        f.truncate(size + 100)  # reserved in larger blocks
                    paths[kind] = path
                self.paths = paths
                self.control.send({"paths": paths})
            else:
                return message

    def run(self, **request: Any) -> Dict[str, Any]:
        self.send(**request)
        message = self.reply()
        assert message is not None, "the worker died:\n" + self.text
        return message

    def done(self, **request: Any) -> Dict[str, Any]:
        message = self.run(**request)
        assert "done" in message, message.get("failed", {}).get("traceback", message) + str(message)
        return message["done"]

    def failed(self, **request: Any) -> Dict[str, Any]:
        message = self.run(**request)
        assert "failed" in message, message
        return message["failed"]

    def ended(self, seconds: float = DEADLINE) -> bool:
        """Whether the process ends, within so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not alive(self.pid):
                return True
            time.sleep(0.01)
        return False


class Node:
    """Listens for zygotes and workers, in a folder of its own."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="troupe-test-")
        self.numbers = iter(range(1 << 30))
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path("socket"))
        self.listener.listen(64)
        self.listener.settimeout(DEADLINE)
        self.processes: List[subprocess.Popen] = []
        self.workers: List[Worker] = []
        self.waiting: Dict[Any, Channel] = {}
        self.zygote: Optional[Channel] = None

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, text: str) -> str:
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def array(self, name: str, value: np.ndarray) -> str:
        path = self.path(name + ".npy")
        np.save(path, value)
        return path

    def environment(self, **more: str) -> Dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
        env.update(
            PYTHONPATH=ROOT, PYTHONHASHSEED="0", TROUPE_SOCKET=self.path("socket"),
            OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
        )
        env.update(more)
        return env

    def start(self, module: str, program: str, token: str, **env: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "troupe." + module, program],
            env=self.environment(TROUPE_TOKEN=token, **env), cwd=self.folder, stdin=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def start_zygote(self, program: str) -> Dict[str, Any]:
        """Start a zygote; returns its first word."""
        self.process = self.start("zygote", program, "zygote")
        self.zygote = self.accept("zygote", "zygote")
        return self.zygote.receive()

    def fork(self, token: str = "", threads: int = 1, **order: Any) -> Worker:
        token = token or f"worker-{next(self.numbers)}"
        self.zygote.send({"fork": {"token": token, "slot": 0, "cpus": None, "threads": threads, "memory": 0, **order}})
        worker = self.worker(token)
        forked = self.zygote.receive()
        while "exited" in forked:
            forked = self.zygote.receive()
        assert forked == {"forked": {"token": token, "pid": worker.pid}}, forked
        return worker

    def fresh(self, program: str, threads: int = 1, **env: str) -> Worker:
        token = f"worker-{next(self.numbers)}"
        self.start("worker", program, token, TROUPE_THREADS=str(threads), **env)
        return self.worker(token)

    def worker(self, token: str) -> Worker:
        channels = {role: self.accept(role, token) for role in ("log", "life", "worker")}
        worker = Worker(self, token, channels["worker"], channels["log"], channels["life"])
        self.workers.append(worker)
        return worker

    def accept(self, role: str, token: str) -> Channel:
        while (role, token) not in self.waiting:
            sock, _ = self.listener.accept()
            sock.settimeout(DEADLINE)
            channel = Channel(sock)
            hello = channel.receive()
            self.pid = hello["pid"]
            self.waiting[hello["role"], hello["token"]] = channel
        return self.waiting.pop((role, token))

    def close(self) -> None:
        for worker in self.workers:
            worker.life.sock.close()
            worker.control.sock.close()
            if not worker.ended(5):
                os.kill(worker.pid, signal.SIGKILL)
        if self.zygote:
            self.zygote.sock.close()
        self.listener.close()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.folder)


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
