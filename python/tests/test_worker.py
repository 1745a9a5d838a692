"""Zygote and workers as processes: fork, run, and every way to end."""
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from .node import Node, alive
from .programs import small

TINY = dict(job="j", n=1, k=16, batch=8, lr=0.1, epoch=1, seed=7, args={}, env={}, dataset="d")


def data(node, rows=20, width=4):
    rng = np.random.default_rng(0)
    x = node.array("x", rng.normal(size=(rows, width)).astype("f4"))
    y = node.array("y", np.arange(rows) % 2)
    return dict(TINY, x=x, y=y, samples=rows, positions=list(range(rows)))


def init(worker, request):
    worker.done(**dict(request, task="init"))
    return worker.paths["model"]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def test_forked_and_fresh_workers_agree(node):
    program = node.write("program.py", small())
    assert node.start_zygote(program) == {"ready": True, "forkable": True, "reason": ""}
    request = data(node)
    first = node.fork()
    model = init(first, request)
    answers = []
    for worker in (first, first, node.fork(), node.fresh(program)):
        done = worker.done(**dict(request, task="train", model=model, want_optimizer=True))
        answers.append((done["loss"], read(worker.paths["model"]), read(worker.paths["optimizer"])))
    assert all(a == answers[0] for a in answers)


def test_workers_are_replaced(node):
    node.start_zygote(node.write("program.py", small()))
    request = data(node)
    for _ in range(3):
        worker = node.fork()
        init(worker, request)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.reply() is None
        assert node.zygote.receive() == {"exited": {"pid": worker.pid, "status": int(signal.SIGKILL)}}


def test_thirty_workers_at_once(node):
    node.start_zygote(node.write("program.py", small()))
    workers = [node.fork() for _ in range(30)]
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
    gone = {node.zygote.receive()["exited"]["pid"] for _ in workers}
    assert gone == {w.pid for w in workers}
    init(node.fork(), data(node))


def test_workers_survive_the_zygote(node):
    node.start_zygote(node.write("program.py", small()))
    worker = node.fork()
    node.process.kill()
    node.process.wait()
    init(worker, data(node))
    worker.life.sock.close()
    assert worker.ended()


def test_the_zygote_ends_with_the_node(node):
    node.start_zygote(node.write("program.py", small()))
    node.zygote.sock.close()
    assert node.process.wait(10) == 0


BUSY = {
    "python": "while True: pass",
    "torch": "torch.linalg.svd(torch.rand(3000, 3000))",
    "sleep": "__import__('time').sleep(1000)",
    "a regular expression, which lets no other thread run": "__import__('re').match('(a*)*b', 'a' * 60)",
    "ignoring signals": "s = __import__('signal'); [s.signal(n, s.SIG_IGN) for n in (s.SIGTERM, s.SIGIO, s.SIGHUP)]\n        while True: pass",
}


@pytest.mark.parametrize("how", BUSY)
def test_a_busy_worker_dies_with_the_node(node, how):
    node.start_zygote(node.write("program.py", small(f"""
    def train(self, batch, batch_index):
        import subprocess
        print("child", subprocess.Popen(["sleep", "1000"]).pid, flush=True)
        {BUSY[how]}
        return 1.0
""")))
    request = data(node)
    worker = node.fork()
    model = init(worker, request)
    worker.send(**dict(request, task="train", model=model))
    await_text(worker, "child ")
    child = int(worker.text.split("child ")[1].split()[0])
    time.sleep(0.2)
    started = time.monotonic()
    worker.life.sock.close()
    assert worker.ended() and time.monotonic() - started < 2
    while alive(child):
        assert time.monotonic() - started < 5, "what the program started dies, too"
        time.sleep(0.01)


def await_text(worker, text):
    end = time.monotonic() + 20
    while text not in worker.text:
        assert time.monotonic() < end, worker.text
        time.sleep(0.01)


def test_a_fresh_worker_dies_with_the_node(node):
    worker = node.fresh(node.write("program.py", small()))
    init(worker, data(node))
    worker.life.sock.close()
    assert worker.ended()


def test_a_node_that_is_killed_takes_all_with_it(tmp_path):
    script = (
        "import sys, time; sys.path[:0] = [%r]\n"
        "from tests.node import Node; from tests.programs import small\n"
        "n = Node(); n.start_zygote(n.write('program.py', small()))\n"
        "print(n.folder, n.process.pid, *[n.fork().pid for _ in range(3)], flush=True); time.sleep(1000)"
    ) % os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    folder, *pids = process.stdout.readline().split()
    assert len(pids) == 4 and all(alive(int(p)) for p in pids)
    process.kill()
    process.wait()
    end = time.monotonic() + 5
    while any(alive(int(p)) for p in pids):
        assert time.monotonic() < end
        time.sleep(0.01)
    subprocess.run(["rm", "-rf", folder], check=True)


def test_output_goes_to_the_log(node):
    node.start_zygote(node.write("program.py", small("""
    def train(self, batch, batch_index):
        import os
        print("out", batch_index)
        self.logger.info("logged %d", batch_index)
        os.system("echo from a child")
        return 1.0
""")))
    request = data(node)
    worker = node.fork()
    worker.done(**dict(request, task="train", model=init(worker, request)))
    await_text(worker, "INFO logged 2")
    assert worker.text.count("from a child") == 3 and "out 1\nINFO logged 1\n" in worker.text


def test_the_stack_of_a_worker(node):
    node.start_zygote(node.write("program.py", small("""
    def train(self, batch, batch_index):
        __import__("time").sleep(1000)
""")))
    request = data(node)
    worker = node.fork()
    worker.send(**dict(request, task="train", model=init(worker, request)))
    time.sleep(0.3)
    os.kill(worker.pid, signal.SIGUSR1)
    stack, end = "", time.monotonic() + 20
    while "in train" not in stack:
        assert time.monotonic() < end, stack
        with open(node.path("stack-" + worker.token)) as f:
            stack = f.read()
    assert "most recent call first" in stack and "program.py" in stack and not worker.text


def test_chaos(node):
    node.start_zygote(node.write("program.py", small()))
    request = data(node)
    worker = node.fork()
    model = init(worker, request)
    calm = {"kill_at_batch": -1, "hang_at_batch": -1, "slow_at_batch": -1, "slow_s": 0}
    for kind in ("kill_at_batch", "hang_at_batch"):
        worker.send(**dict(request, task="train", model=model, sabotage=dict(calm, **{kind: 1})))
        while worker.control.receive() != {"batch": 1}:
            pass
        os.killpg(worker.pid, signal.SIGKILL)
        assert worker.reply() is None
        worker = node.fork()
    started = time.monotonic()
    worker.done(**dict(request, task="train", model=model, sabotage=dict(calm, slow_at_batch=2, slow_s=0.3)))
    assert time.monotonic() - started > 0.3


def test_progress_is_told(node):
    node.start_zygote(node.write("program.py", small("""
    def train(self, batch, batch_index):
        __import__("time").sleep(0.3)
        return 1.0
""")))
    request = dict(data(node), batch=4)
    worker = node.fork()
    worker.done(**dict(request, task="train", model=init(worker, request)))
    assert 1 < len(worker.batches) < 5 and worker.batches == sorted(worker.batches)


def test_a_file_that_cannot_be_reserved(node):
    node.start_zygote(node.write("program.py", small()))
    worker = node.fork()
    worker.send(**dict(data(node), task="init"))
    while "create" not in worker.control.receive():
        pass
    worker.control.send({"refused": "the disk is full"})
    assert "the disk is full" in worker.control.receive()["failed"]["message"]


def test_many_positions_come_in_a_file(node):
    node.start_zygote(node.write("program.py", small()))
    request = data(node, rows=3000)
    np.arange(3000, dtype="<i8")[::-1].tofile(node.path("positions"))
    worker = node.fork()
    model = init(worker, request)
    done = worker.done(**dict(request, task="val", model=model, positions=None, positions_file=node.path("positions")))
    assert done["samples"] == 3000


COMPUTES = "torch.nn.Conv2d(3, 8, 3)(torch.rand(4, 3, 32, 32)).sum().backward(); (torch.rand(500, 500) @ torch.rand(500, 500)).sum()"
IMPORTS = {
    "computes": (COMPUTES, ""),
    "computes with threads": (f"torch.set_num_threads(2); {COMPUTES}; torch.set_num_threads(1)", "starts threads"),
    "starts a thread": ("import threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()", "starts threads when it is imported (1 are running)"),
    "sets threads": ("torch.set_num_threads(4)", "torch.set_num_threads(4)"),
}


@pytest.mark.parametrize("what", IMPORTS)
def test_programs_that_do_something_at_import(node, what):
    """Where a fork could hang, the zygote says so; either way training works."""
    source, reason = IMPORTS[what]
    program = node.write("program.py", small(more=source + "\n").replace("nn.Linear(4, 8)", "nn.Linear(4, 800)").replace("nn.Linear(8", "nn.Linear(800"))
    ready = node.start_zygote(program)
    assert ready["forkable"] == (not reason) and reason in ready["reason"]
    request = data(node, rows=2000)
    worker = node.fork(threads=2) if ready["forkable"] else node.fresh(program, threads=2)
    model = init(worker, request)
    assert worker.done(**dict(request, task="train", model=model, batch=1000))["samples"] == 2000


def test_an_import_that_fails(node):
    program = node.write("program.py", "import torch\n\ndef f():\n    raise ValueError('at import')\n\nf()\n")
    error = node.start_zygote(program)["error"]
    assert (error["type"], error["message"]) == ("ValueError", "at import") and 'program.py", line 4, in f' in error["traceback"]
    assert "/troupe/" not in error["traceback"]
    assert node.process.wait(10) == 1
    worker = node.fresh(program)
    failed = worker.failed(task="init")
    assert (failed["kind"], failed["type"], failed["method"]) == ("user", "ValueError", "import")
    await_text(worker, "ValueError: at import\n")


def test_what_an_import_prints_and_raises_is_in_the_log(node, capfd):
    error = node.start_zygote(node.write("program.py", "print('hello')\nraise ValueError('at import')\n"))["error"]
    assert node.process.wait(10) == 1
    assert "".join(capfd.readouterr()) == "hello\n" + error["traceback"]


def test_what_an_import_starts_ends_with_the_node(node):
    pid = node.path("pid")
    source = f"import subprocess; open({pid!r}, 'w').write(str(subprocess.Popen(['sleep', '1000']).pid))\n"
    assert node.start_zygote(node.write("program.py", source + small()))["ready"]
    init(node.fork(), data(node))
    with open(pid) as f:
        child = int(f.read())
    assert alive(child)
    node.accept("life", "zygote").sock.close()
    end = time.monotonic() + 5
    while alive(child):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_module_that_is_missing(node):
    error = node.start_zygote(node.write("program.py", "import torchnotvision\n"))["error"]
    assert f"No module named 'torchnotvision': install it for {sys.executable}" in error["message"]


def test_a_syntax_error(node):
    error = node.start_zygote(node.write("program.py", "def main(:\n    pass\n"))["error"]
    assert error["type"] == "SyntaxError" and "program.py" in error["traceback"] and "line 1" in error["traceback"]


def test_a_folder_with_modules(node):
    node.write("folder/main.py", "from parts import main\n" + small() + "\nfrom parts import main\nif __name__ == '__main__': raise Exception\n")
    node.write("folder/parts.py", "import sys\ndef main():\n    program = sys.modules['__troupe_program__']\n    return program.Small(program.network()).start()\n")
    assert node.start_zygote(node.path("folder"))["ready"]
    init(node.fork(), data(node))


def test_threads_and_cores(node):
    node.start_zygote(node.write("program.py", small("""
    def train(self, batch, batch_index):
        import os
        return float(torch.get_num_threads() * 100 + sum(os.sched_getaffinity(0)))
""")))
    request = data(node)
    last = max(os.sched_getaffinity(0))
    worker = node.fork(threads=2, cpus=[last])
    assert worker.done(**dict(request, task="train", model=init(worker, request)))["loss"] == 200 + last


MEMORY = small("""
    def train(self, batch, batch_index):
        if self.args["how"] == "torch":
            held = [torch.ones(1 << 24) for _ in range(100)]
        elif self.args["how"] == "numpy":
            held = [__import__("numpy").ones(1 << 24) for _ in range(100)]
        elif self.args["how"] == "python":
            held = [bytes(1 << 24) for _ in range(1000)]
        return 1.0
""")


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_the_memory_limit(node, start):
    program = node.write("program.py", MEMORY)
    request = data(node)
    limit = 1 << 30
    if start == "fork":
        node.start_zygote(program)
        worker = node.fork(memory=limit)
    else:
        worker = node.fresh(program, TROUPE_MEMORY=str(limit))
    model = init(worker, request)
    for how in ("torch", "numpy", "python"):
        failed = worker.failed(**dict(request, task="train", model=model, args={"how": how}))
        assert failed["kind"] == "memory" and "--memory-limit" in failed["message"], failed
    worker.done(**dict(request, task="train", model=model, args={"how": ""}))


def test_a_memory_limit_that_is_too_low(node):
    node.start_zygote(node.write("program.py", small()))
    failed = node.fork(memory=1 << 20).failed(task="init")
    assert failed["kind"] == "invalid" and "--memory-limit 1 MiB is less than Python with torch" in failed["message"]


def test_an_array_larger_than_the_memory_limit(node):
    """All of it in one assignment, in any order: the worker maps it, and holds a piece."""
    rows, limit = 1 << 14, 448 << 20
    path = node.path("big.npy")
    x = np.lib.format.open_memmap(path, "w+", "f4", (rows, 1 << 13))
    x[:, 0] = np.arange(rows)
    assert x.nbytes > limit
    del x
    y = node.array("y", np.arange(rows) % 2)
    np.random.default_rng(0).permutation(rows).astype("<i8").tofile(node.path("positions"))
    node.start_zygote(node.write("program.py", small("""
    def train(self, batch, batch_index):
        x, y = batch
        assert (x[:, 0].long() % 2 == y).all()
        return float(x[:, 0].mean())
""")))
    request = dict(TINY, x=path, y=y, samples=rows, batch=512, positions=[], positions_file=node.path("positions"))
    worker = node.fork(memory=limit)
    done = worker.done(**dict(request, task="train", model=init(worker, dict(request))))
    assert done["samples"] == rows and done["loss"] == pytest.approx((rows - 1) / 2)


@pytest.mark.parametrize("tensors, size", [(1, 150_000_000), (50_000, 4)])
def test_large_models(node, tensors, size):
    node.start_zygote(node.write("program.py", small(more=f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.ParameterList([nn.Parameter(torch.ones({size})) for _ in range({tensors})])
    def forward(self, x):
        return x
class Large(Small):
    def train(self, batch, batch_index):
        return 1.0
def main():
    return Large(Net()).start()
""")))
    request = data(node)
    worker = node.fork()
    model = init(worker, request)
    worker.done(**dict(request, task="train", model=model))
    status = dict(line.split(":", 1) for line in open(f"/proc/{worker.pid}/status").read().splitlines())
    anonymous = int(status["RssAnon"].split()[0]) << 10
    assert anonymous < tensors * size * 4 * 1.3 + (300 << 20), f"the worker holds {anonymous >> 20} MiB"
    worker.done(**dict(request, task="train", model=model))
    assert os.path.getsize(worker.paths["model"]) == os.path.getsize(model)


def test_predictions_that_do_not_fit_a_frame(node):
    node.start_zygote(node.write("program.py", small("""
    def infer(self, data):
        return [0.1234567890123456] * 1_000_000
""")))
    request = data(node)
    worker = node.fork()
    model = init(worker, request)
    failed = worker.failed(**dict(request, task="infer", model=model, data=[1]))
    assert failed["kind"] == "invalid" and "ask for fewer points" in failed["message"]
