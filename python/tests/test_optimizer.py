"""Optimizer state: going on from it is as if one had never stopped."""
import pytest
import torch
from torch import nn

from .local import File
from troupe.exceptions import DataError, UnsupportedError
from troupe.optimizer import flatten, restore
from troupe.safetensors import lay_out, write

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "radam": lambda p: torch.optim.RAdam(p),
    "rprop": lambda p: torch.optim.Rprop(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "lbfgs": lambda p: torch.optim.LBFGS(p, max_iter=3, history_size=4),
}


def make(name):
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    return network, OPTIMIZERS[name](network.parameters())


def steps(network, optimizer, lo, hi):
    for i in range(lo, hi):
        x = torch.rand(6, 4, generator=torch.Generator().manual_seed(i))

        def closure():
            optimizer.zero_grad()
            loss = (network(x) ** 2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def through_file(tmp_path, optimizer):
    names, tensors = flatten(optimizer)
    layout = lay_out(names, tensors)
    (tmp_path / "o").touch()
    write(str(tmp_path / "o"), layout, tensors)
    return File(str(tmp_path / "o"))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_going_on(tmp_path, name):
    whole, optimizer = make(name)
    steps(whole, optimizer, 0, 6)
    network, first = make(name)
    steps(network, first, 0, 3)
    file = through_file(tmp_path, first)
    second = OPTIMIZERS[name](network.parameters())
    restore(second, file)
    for p, entries in first.state.items() if file.layout.names else ():
        kept = second.state[p]
        assert [(k, type(v)) for k, v in kept.items()] == [(k, type(v)) for k, v in entries.items()]
    steps(network, second, 3, 6)
    for a, b in zip(whole.parameters(), network.parameters()):
        assert torch.equal(a, b)


def test_every_kind_of_entry(tmp_path):
    p = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([p], lr=1)
    entries = {
        "int": 7, "float": 0.1, "true": True, "none": None, "t": torch.tensor([1.0, 2.0], dtype=torch.bfloat16), "step": torch.tensor(3.0),
        "list": [torch.ones(2), None, 4], "empty": [], "tuple": (1.5, torch.zeros(0)), "after": 1,
    }
    optimizer.state[p] = dict(entries)
    file = through_file(tmp_path, optimizer)
    other = torch.optim.SGD([p], lr=1)
    restore(other, file)
    assert repr(other.state[p]) == repr(entries)


def test_the_order_of_parameters_is_that_of_the_groups():
    a, b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([{"params": [b]}, {"params": [a], "lr": 1}], lr=0.1, momentum=0.5)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    names, tensors = flatten(optimizer)
    assert dict(zip(names, [t.shape[0] for t in tensors])) == {"state.0.momentum_buffer": 2, "state.1.momentum_buffer": 1}


def test_what_a_file_cannot_hold_is_named():
    p = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([p], lr=1)
    for value, kind in (
        (torch.zeros(2, dtype=torch.complex64), "complex"), (torch.zeros(2).to_sparse(), "sparse"),
        (torch.quantize_per_tensor(torch.zeros(2), 1, 0, torch.qint8), "quantised"), ({}, "dict"), ("x", "str"),
    ):
        optimizer.state[p] = {"thing": value}
        with pytest.raises(UnsupportedError, match=f"state.0.thing.*{kind}.*--optimizer-state reset"):
            flatten(optimizer)


def test_state_of_other_parameters_is_refused(tmp_path):
    network, optimizer = make("momentum")
    steps(network, optimizer, 0, 1)
    file = through_file(tmp_path, optimizer)
    with pytest.raises(DataError, match="has 1 parameters: use --optimizer-state reset"):
        restore(torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1), file)
