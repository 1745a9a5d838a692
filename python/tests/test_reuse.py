"""A round is a pure function, in a worker that is new or warm."""
import pytest

from .local import Local
from .programs import KUBEML_LENET, small
from .test_programs import IMAGES, RESNET

import numpy as np

ADAM = small("""
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)
""")

# What a program may leave behind. Each round answers what the first would.
LEFTOVERS = {
    "attribute": "self.count = getattr(self, 'count', 0) + 1; scale = self.count",
    "list": "self.seen.append(1); scale = len(self.seen)",
    "set": "self.bag.add(len(self.bag)); scale = len(self.bag)",
    "dict": "self.cache[len(self.cache)] = 1; scale = len(self.cache)",
    "array": "self.array += 1; scale = float(self.array[0])",
    "large array": "self.large += 1; scale = float(self.large[0])",
    "tensor": "self.tensor += 1; scale = float(self.tensor[0])",
    "object": "self.thing.n += 1; scale = self.thing.n",
    "opaque": "scale = next(self.counter)",
    "python generator": "scale = self.random.random()",
    "numpy generator": "scale = self.numpy.random()",
    "old numpy generator": "scale = self.state.rand()",
    "torch generator": "scale = float(torch.rand(1, generator=self.torch))",
    "closure": "scale = self.closure()",
    "data set": "self._dataset.n = getattr(self._dataset, 'n', 0) + 1; scale = self._dataset.n",
    "module": "m = self._network[0]; m.n = getattr(m, 'n', 0) + 1; scale = m.n",
    "hidden buffer": "self._network[0].hidden += 1; scale = float(self._network[0].hidden)",
    "hook": "self._network.register_forward_hook(lambda m, i, o: o * 1.5); scale = 1",
    "frozen": "self._network[0].weight.requires_grad_(False); scale = 1",
    "gradient": "scale = 1 if self._network[0].weight.grad is None else 2; self.optimizer.zero_grad = lambda: None",
    "mode": "scale = 2 if self._network.training else 1; self._network.eval()",
    "random module": "self._network[0].noise = torch.rand(1); scale = float(self._network[0].noise)",
    "environment": "import os; os.environ['LEFT'] = os.environ.get('LEFT', '') + 'x'; scale = len(os.environ['LEFT'])",
}

MAIN = """
import itertools
import random
import numpy as np

class Thing:
    n = 0

def counting():
    n = [0]
    def count():
        n[0] += 1
        return n[0]
    return count

def main():
    made.append(1)
    net = network()
    net[0].register_buffer("hidden", torch.rand(()), persistent=False)
    model = Small(net)
    model.seen, model.bag, model.cache, model.thing = [], set(), {}, Thing()
    model.array, model.large, model.tensor = np.zeros(3), np.zeros(1 << 18), torch.zeros(2)
    model.closure, model.random, model.numpy = counting(), random.Random(1), np.random.default_rng(1)
    model.state, model.torch = np.random.RandomState(1), torch.Generator()
    if LEFTOVER == "opaque":
        model.counter = itertools.count()
    if LEFTOVER != "large array":
        del model.large
    return model.start()

made = []
"""


@pytest.mark.parametrize("name", LEFTOVERS)
def test_a_round_leaves_nothing_behind(tmp_path, name):
    job = Local(tmp_path, small(f"""
    def train(self, batch, batch_index):
        {LEFTOVERS[name]}
        x, y = batch
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self(x.float()), y) * scale
        loss.backward()
        self.optimizer.step()
        return loss
""", MAIN + f"LEFTOVER = {name!r}\n"))
    model = job.init()
    answers = []
    for fresh in (False, False, False, True):
        if fresh:
            job.fresh()
        loss = job.train(model, want_optimizer=True)["loss"]
        answers.append((loss, job.bytes(), job.bytes("optimizer")))
    assert all(a == answers[0] for a in answers)
    made = len(job.program._module.made)
    again = name in ("opaque", "large array", "tensor", "hidden buffer")
    assert made == (5 if again else 3), "main() runs where something cannot be put back, and only there"


PROGRAMS = {"lenet": (KUBEML_LENET, IMAGES), "resnet": (RESNET, {"x": np.random.default_rng(0).normal(size=(60, 8, 8, 3)).astype("f2")}), "adam": (ADAM, {}), "sgd": (small(), {})}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_request_gives_the_same_bits(tmp_path, name):
    source, data = PROGRAMS[name]
    job = Local(tmp_path, source, **data)
    model, optimizer = job.init(), None
    assert job.done("init") and open(model, "rb").read() == job.bytes()
    for epoch in (1, 2):
        answers = []
        for seed in (epoch, 99, epoch, None, epoch):
            if seed is None:  # a new worker
                job.fresh()
                continue
            loss = job.train(model, seed=seed, epoch=epoch, optimizer=optimizer, want_optimizer=True)["loss"]
            answers.append((loss, job.bytes(), job.bytes("optimizer")))
        first, other, second, third = answers
        assert first == second == third
        assert first != other or name == "resnet", "the seed decides what dropout drops"
        model, optimizer = job.files.paths["model"], job.files.paths["optimizer"]
        values = [job.done("val", model=model)["loss"] for _ in range(2)]
        job.fresh()
        assert values == [job.done("val", model=model)["loss"]] * 2


def test_positions_decide_what_is_trained(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        x, y = batch
        order.append((batch_index, [int(v) for v in x[:, 0]], y.tolist()))
        return float(x.float().mean())
""", "order = []\n"), x=np.arange(20, dtype="u2").reshape(20, 1).repeat(4, 1), y=np.arange(20) % 3 == 0)
    model, positions = job.init(), [19, 3, 3, 0, 7]
    done = job.train(model, positions=positions, batch=2)
    assert (done["samples"], done["batches"]) == (5, 3) and done["loss"] == pytest.approx(np.mean(positions))
    assert job.program._module.order == [(0, [19, 3], [0, 1]), (1, [3, 0], [1, 1]), (2, [7], [0])]
    np.array(positions, "<i8").tofile(tmp_path / "positions")
    assert job.train(model, positions=[], positions_file=str(tmp_path / "positions"), batch=2)["loss"] == done["loss"]


def test_an_assignment_in_pieces_is_the_same_round(tmp_path, monkeypatch):
    from troupe import task

    job = Local(tmp_path, small())
    model = job.init()
    job.train(model)
    whole = job.bytes()
    monkeypatch.setattr(task, "spans", lambda cut, row: [(i, i + 1) for i in range(len(cut))])
    job.train(model)
    assert job.bytes() == whole
