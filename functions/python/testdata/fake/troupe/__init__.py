"""Stands in for the SDK: speaks its protocol, knows no torch, and misbehaves as
the program's name (a zygote) or the argument "do" (a worker) says."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time


def connect(role, token):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(os.environ["TROUPE_SOCKET"])
    send(s, {"role": role, "token": token, "pid": os.getpid()})
    return s


def send(s, message):
    body = json.dumps(message).encode()
    s.sendall(struct.pack(">I", len(body)) + body)


def receive(s):
    head = s.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        os._exit(0)
    return json.loads(s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))


def worker(token, cpus, **settings):
    os.setpgid(0, 0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    log = connect("log", token)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    life = connect("life", token)  # noqa: F841: to be held
    control = connect("worker", token)
    while True:
        request = receive(control)["run"]
        do = (request["args"] or {}).get("do", "ok")
        globals()["do_" + do](control, request, settings)


def done(control, value=None):
    send(control, {"done": {"samples": 0, "batches": 0, "loss": 0, "correct": 0, "has_accuracy": False, "has_optimizer": False,
                            "metrics": {}, "predictions": value}})


def do_ok(control, request, settings):
    done(control, {"pid": os.getpid(), "group": os.getpgid(0), "cpus": sorted(os.sched_getaffinity(0)), "request": request, **settings})


def do_print(control, request, settings):
    print("one\ntwo", flush=True)
    os.write(2, b"bad \xff byte\r\n" + b"x" * 70000 + b"\nno end")
    done(control)


def do_warn(control, request, settings):
    send(control, {"failed": {"kind": "invalid", "type": "E", "message": "no", "traceback": "", "method": "", "warnings": ["careful"]}})


def do_garbage(control, request, settings):
    control.sendall(b"\x00\x00\x00\x05hello")
    time.sleep(3600)


def do_long(control, request, settings):
    control.sendall(b"\xff\xff\xff\xff")
    time.sleep(3600)


def do_half(control, request, settings):
    control.sendall(b"\x00\x00\x00\x20{\"done\":")
    control.close()
    time.sleep(3600)


def do_nothing(control, request, settings):
    send(control, {})
    time.sleep(3600)


def do_silent(control, request, settings):
    time.sleep(3600)


def do_exit(control, request, settings):
    os._exit(3)


def do_segv(control, request, settings):
    os.kill(os.getpid(), signal.SIGSEGV)


def do_kill(control, request, settings):
    os.kill(os.getpid(), signal.SIGKILL)


def do_child(control, request, settings):
    done(control, {"pid": subprocess.Popen(["sleep", "3600"]).pid})


def do_heir(control, request, settings):
    """Dies, and leaves a process of another group that holds its connections."""
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(3600)
    time.sleep(3600)


def do_nomodel(control, request, settings):
    done(control)


def do_twice(control, request, settings):
    for _ in range(2):
        send(control, {"create": {"model": 8}})
        receive(control)
    time.sleep(3600)


def do_negative(control, request, settings):
    send(control, {"create": {"model": -1}})
    time.sleep(3600)


def do_short(control, request, settings):
    send(control, {"create": {"model": 100}})
    with open(receive(control)["paths"]["model"], "r+b") as f:
        f.truncate(99)
    done(control)


def do_memory(control, request, settings):
    send(control, {"failed": {"kind": "memory", "type": "MemoryError", "message": "no memory: fewer --slots", "traceback": "", "method": "train"}})


def do_internal(control, request, settings):
    send(control, {"failed": {"kind": "internal", "type": "E", "message": "ours", "traceback": "T", "method": ""}})


def do_nan(control, request, settings):
    send(control, {"done": {"samples": 1, "batches": 1, "loss": "nan", "correct": None, "metrics": {"m": ["inf", 1]}}})


def zygote(path):
    name = os.path.basename(path)
    if name == "exit.py":
        print("first words\nlast words", file=sys.stderr, flush=True)
        sys.exit(5)
    if name == "mute.py":
        time.sleep(3600)
    node = connect("zygote", os.environ["TROUPE_TOKEN"])
    life = connect("life", os.environ["TROUPE_TOKEN"])  # noqa: F841: to be held
    if name == "raises.py":
        send(node, {"error": {"kind": "user", "type": "ValueError", "message": "no", "traceback": "Traceback", "method": "import"}})
        time.sleep(3600)
    if name == "babble.py":
        node.sendall(b"\x00\x00\x00\x02{]")
        time.sleep(3600)
    if name == "hangup.py":
        node.close()
        time.sleep(3600)
    if name == "empty.py":
        send(node, {})
        time.sleep(3600)
    print("imported", flush=True)
    send(node, {"ready": True, "forkable": name != "fresh.py", "reason": "it is not safe"})
    signal.signal(signal.SIGCHLD, lambda *_: reap(node))
    while True:
        order = receive(node)["fork"]
        if name == "nofork.py":
            os._exit(6)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            node.close()
            if name == "stillborn.py":
                os._exit(7)
            try:
                worker(order.pop("token"), order.pop("cpus"), **order)
            finally:
                os._exit(1)
        send(node, {"forked": {"token": order["token"], "pid": pid}})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def reap(node):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        send(node, {"exited": {"pid": pid, "status": status}})
