"""troupe.run: the command it makes, the program it finds, how it ends."""
import json
import os
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

from . import local
import troupe
from troupe.notebook import definitions

COMMAND = """#!{python}
import json, os, sys
with open({out!r}, "w") as f:
    json.dump(sys.argv[1:], f)
if {save!r}:
    import shutil
    shutil.copy(sys.argv[2], {save!r})
print("epoch 1", file=sys.stderr)
{end}
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A `troupe` that notes its arguments and ends as told."""

    def make(end='print(json.dumps({"job_id": "j", "state": "SUCCEEDED", "accuracy": 90.5}))', save=""):
        path = tmp_path / "troupe"
        path.write_text(COMMAND.format(python=sys.executable, out=str(tmp_path / "argv"), save=save, end=end))
        path.chmod(0o755)
        monkeypatch.setenv("TROUPE_BIN", str(path))
        return lambda: json.loads((tmp_path / "argv").read_text())

    return make


class Net(troupe.Model):
    def __init__(self):
        super().__init__(__import__("torch").nn.Linear(1, 1))


def test_the_command(command, capfd):
    argv = command()
    result = troupe.run(Net, "digits", epochs=3, lr=0.5, k=-1, static=True, shuffle=False, optimizer_state="reset", goal_accuracy=None,
                        arg={"a": 1, "b": "x y"}, env={"E": "1"})
    assert argv() == ["run", __file__, "-d", "digits", "-o", "json", "--epochs=3", "--lr=0.5", "--K=-1", "--static=true", "--shuffle=false",
                      "--optimizer-state=reset", "--arg=a=1", "--arg=b=x y", "--env=E=1", "--env=TROUPE_ENTRY=Net"]
    assert (result.job_id, result.state, result.accuracy) == ("j", "SUCCEEDED", 90.5)
    assert "no 'nothing', only job_id, state, accuracy" in str(pytest.raises(AttributeError, lambda: result.nothing).value)
    assert "epoch 1" in capfd.readouterr().err


def test_arrays(command, monkeypatch):
    from troupe import launch

    command()
    seen = {}

    def call(words):
        with np.load(words[words.index("-d") + 1]) as data:
            seen.update({k: data[k].tolist() for k in data})
        return troupe.Result({})

    monkeypatch.setattr(launch, "_call", call)
    parts = [np.arange(3), np.ones(3), np.arange(2), np.zeros(2)]
    troupe.run(Net, parts)
    assert seen == {"x_train": [0, 1, 2], "y_train": [1, 1, 1], "x_test": [0, 1], "y_test": [0, 0]}
    seen.clear()
    troupe.run(Net, (parts[0], parts[1]))
    assert seen == {"x_train": [0, 1, 2], "y_train": [1, 1, 1]}, "troupe splits a part off for testing"
    for wrong, says in ((parts[:3], "dataset is 3 arrays"), (None, "dataset is of type NoneType"), (np.ones((2, 3)), "dataset is of type ndarray")):
        with pytest.raises(troupe.InvalidArgsError, match=says):
            troupe.run(Net, wrong)


def test_a_script_from_standard_input(command):
    command()
    run = subprocess.run(
        [sys.executable, "-"], input=SCRIPT, text=True, capture_output=True, env={**os.environ, "PYTHONPATH": local.ROOT}
    )
    assert "the source of Net came from <stdin>, which workers cannot read: put it into a file" in run.stderr


def test_a_job_that_fails(command):
    command('print(json.dumps({"job_id": "j", "state": "FAILED", "error": "it raised"})); sys.exit(7)')
    with pytest.raises(troupe.JobError, match="it raised") as e:
        troupe.run(Net, "digits")
    assert e.value.exit_code == 7 and e.value.result.state == "FAILED"


def test_a_request_that_is_refused(command):
    command('print("troupe: lr 0: must be greater than 0", file=sys.stderr); sys.exit(2)')
    with pytest.raises(troupe.JobError, match="lr 0: must be greater") as e:
        troupe.run(Net, "digits")
    assert e.value.exit_code == 2 and e.value.result is None


def test_no_command(monkeypatch):
    monkeypatch.delenv("TROUPE_BIN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(troupe.InvalidArgsError, match="TROUPE_BIN"):
        troupe.run(Net, "digits")


def test_what_cannot_be_run(command):
    command()

    class Inner(troupe.Model):
        pass

    for model, text in ((Inner, "define it at the top level"), (3, "expected a Model subclass"), (lambda: None, "define it at the top level")):
        with pytest.raises(troupe.InvalidArgsError, match=text):
            troupe.run(model, "digits")


def test_ctrl_c_reaches_the_command_once(tmp_path):
    seen = tmp_path / "seen"
    binary = tmp_path / "troupe"
    binary.write_text(f"#!{sys.executable}\nimport signal, sys, time\n"
                      f"def note(*_):\n    open({str(seen)!r}, 'a').write('x')\n    time.sleep(0.3); sys.exit(8)\n"
                      "signal.signal(signal.SIGINT, note)\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(60)\n")
    binary.chmod(0o755)
    script = tmp_path / "script.py"
    script.write_text("import troupe\nclass Net(troupe.Model): pass\ntroupe.run(Net, 'digits')\n")
    process = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": local.ROOT, "TROUPE_BIN": str(binary)},
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a job in the background inherits SIG_IGN
    assert process.stderr.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in process.stderr.read()
    process.wait()
    assert seen.read_text() == "x"


CELLS = [
    "", "%matplotlib inline\nimport torch\nimport troupe\nfrom torch import nn", "!ls\nWIDTH = 4\nNAMES: list = ['a']\nx = torch.rand(1000)\nprint('hello')",
    "%%bash\necho class Net", "this is no Python", "class Net(troupe.Model):\n    pass",
    "class Net(troupe.Model):\n    def __init__(self):\n        super().__init__(nn.Linear(WIDTH, 2))\n\n    def configure_optimizers(self):\n        return torch.optim.SGD(self.parameters(), lr=self.lr)\n\n"
    "    def train(self, batch, batch_index):\n        return 1.0",
    "result = troupe.run(Net, 'digits')",
]


def test_a_notebook(tmp_path):
    text = definitions({"In": CELLS}, "Net")
    for gone in ("hello", "rand", "bash", "troupe.run"):
        assert gone not in text
    job = local.Local(tmp_path, text)
    job.train(job.init(), env={"TROUPE_ENTRY": "Net"})


def test_a_notebook_is_found(command, monkeypatch, tmp_path):
    command(save=str(tmp_path / "saved.py"))
    module = types.ModuleType("notebook_main")
    exec("import troupe\nclass Net(troupe.Model):\n    pass", vars(module))
    module.In, module.Net.__module__ = CELLS, "notebook_main"
    monkeypatch.setitem(sys.modules, "notebook_main", module)
    troupe.run(module.Net, "digits")
    assert "class Net" in (tmp_path / "saved.py").read_text()


def test_no_notebook():
    with pytest.raises(troupe.InvalidArgsError, match="put it into a file"):
        definitions({}, "Net")
    with pytest.raises(troupe.InvalidArgsError, match="no cell of this notebook defines Other"):
        definitions({"In": CELLS}, "Other")


def test_the_model_of_a_result(tmp_path, monkeypatch):
    monkeypatch.setenv("TROUPE_SOCKET", "/nowhere")
    job = local.Local(tmp_path, SCRIPT)
    path = job.init()
    state = troupe.Result({"model": "file://" + path}).state_dict()
    assert {k: tuple(v.shape) for k, v in state.items()} == {"weight": (1, 1), "bias": (1,)}
    with pytest.raises(troupe.InvalidArgsError, match="troupe model export"):
        troupe.Result({"model": "s3://bucket/m"}).state_dict()


SCRIPT = """
import torch, troupe
class Net(troupe.Model):
    def __init__(self):
        super().__init__(torch.nn.Linear(1, 1))
class Other(Net):
    def init(self):
        self.apply(lambda m: m.weight.data.fill_(5))
def main():
    troupe.run(Net, "digits", epochs=3)
if __name__ == "__main__":
    main()
"""


def test_a_script_in_a_worker(tmp_path, monkeypatch):
    monkeypatch.setenv("TROUPE_SOCKET", "/nowhere")
    job = local.Local(tmp_path, SCRIPT)
    job.done("init")
    assert job.state()["weight"].item() != 5
    job.done("init", env={"TROUPE_ENTRY": "Other"})
    assert job.state()["weight"].item() == 5
    failed = job.failed("init", env={"TROUPE_ENTRY": "Late"})
    assert "has no Late: define it before troupe.run is called" in failed["message"]
