"""The examples, on a little data of the shape they expect."""
import os
import subprocess
import sys

import numpy as np
import pytest

from .local import ROOT, Local

EXAMPLES = os.path.join(os.path.dirname(ROOT), "examples")


def bars(rows, *shape):
    """Images with a bright row; which one is the label."""
    y = np.arange(rows, dtype="u1") % 4
    x = np.random.default_rng(0).integers(0, 60, (rows, *shape)).astype("u1")
    for i, label in enumerate(y):
        x[i, 4 + 5 * label] += 180
    return x, y


def waves(tmp_path):
    path = str(tmp_path / "waves.npz")
    subprocess.run([sys.executable, os.path.join(EXAMPLES, "regression.py"), path], check=True, env={**os.environ, "PYTHONPATH": ROOT})
    with np.load(path) as data:
        assert data["x_test"].shape == (500, 2) and data["y_test"].shape == (500,)
        return data["x_train"][:500], data["y_train"][:500]


def spirals(tmp_path):
    namespace = {"__name__": "example"}
    sys.path.insert(0, ROOT)
    with open(os.path.join(EXAMPLES, "notebook.py")) as f:
        exec(f.read(), namespace)
    return namespace["spirals"](500, 1)


# Name: data, learning rate, epochs, what a point of inference looks like, least accuracy.
CASES = {
    "lenet": (lambda _: bars(96, 28, 28), 0.02, 6, "image", 90),
    "kubeml_lenet": (lambda _: bars(96, 28, 28), 0.01, 8, "image", 90),
    "resnet": (lambda _: bars(96, 28, 28), 0.05, 5, "image", 90),
    "regression": (waves, 0.01, 10, [0.1, 0.2], None),
    "notebook": (spirals, 0.02, 15, [0.1, 0.2], 80),
}


@pytest.mark.parametrize("name", CASES)
def test_an_example_learns(tmp_path, name):
    make, lr, epochs, point, least = CASES[name]
    x, y = make(tmp_path)
    with open(os.path.join(EXAMPLES, name + ".py")) as f:
        job = Local(tmp_path, f.read(), x=x, y=y)
    model, optimizer, losses = job.init(), None, []
    for epoch in range(1, epochs + 1):
        request = dict(lr=lr, batch=16, epoch=epoch, seed=epoch, args={"epochs": str(epochs)}, want_optimizer=True)
        losses.append(job.train(model, optimizer=optimizer, **request)["loss"])
        model, optimizer = job.files.paths["model"], job.files.paths["optimizer"]
    assert losses[-1] < losses[0] / 2
    done = job.done("val", model=model)
    assert done["has_accuracy"] == (least is not None)
    assert least is None or done["correct"] >= least / 100 * len(x)
    point = x[0].tolist() if point == "image" else point
    assert len(job.done("infer", model=model, data=[point, point])["predictions"]) == 2


def test_colour_images(tmp_path):
    x, y = bars(32, 28, 28, 3)
    with open(os.path.join(EXAMPLES, "resnet.py")) as f:
        job = Local(tmp_path, f.read(), x=x, y=y)
    args = {"channels": "3", "width": "4"}
    job.done("init", args=args)
    model = job.files.paths["model"]
    job.train(model, args=args)
    assert len(job.done("infer", model=model, args=args, data=x[:2].tolist())["predictions"]) == 2
