"""What users' programs do, and what they are told."""
import numpy as np
import pytest
import torch

from .local import Local
from .programs import KUBEML_LENET, small

IMAGES = dict(x=np.random.default_rng(0).integers(0, 256, (130, 28, 28)).astype("u1"), y=np.arange(130, dtype="u1") % 10)


def test_a_kubeml_program_learns_unchanged(tmp_path):
    job = Local(tmp_path, KUBEML_LENET, **IMAGES, batch_size=64)
    model, losses, optimizer = job.init(), [], None
    for epoch in range(1, 13):
        done = job.train(model, epoch=1, seed=epoch, batch=32, lr=0.02, optimizer=optimizer, want_optimizer=True)
        assert (done["samples"], done["batches"], done["has_optimizer"]) == (130, 5, True)
        assert done["metrics"] == {"batch size": [26.0 * 130, 130.0]}
        losses.append(done["loss"])
        model, optimizer = job.files.paths["model"], job.files.paths["optimizer"]
    assert losses[-1] < losses[0] * 0.98
    done = job.done("val", model=model, batch=100)
    assert (done["samples"], done["batches"], done["has_accuracy"]) == (130, 2, True)
    assert 0 <= done["correct"] <= 130 and done["correct"] == pytest.approx(round(done["correct"]))
    predictions = job.done("infer", model=model, data=IMAGES["x"][:3].tolist(), positions=[])["predictions"]
    assert len(predictions) == 3 and all(p in range(10) for p in predictions)


def test_another_name_of_the_data_set_is_one_warning(tmp_path, capfd):
    job = Local(tmp_path, KUBEML_LENET, **IMAGES)
    model = job.init()
    for _ in range(3):
        job.train(model)
    assert capfd.readouterr().err.count("the program names the data set 'mnist', the task 'd'") == 1


def test_validation_is_the_plain_one(tmp_path):
    job = Local(tmp_path, KUBEML_LENET, **IMAGES)
    model = job.init()
    network = job.program._module.LeNet().eval()
    network.load_state_dict(job.state())
    x = (torch.from_numpy(IMAGES["x"]).unsqueeze(1).float() / 255 - 0.1307) / 0.3081
    y = torch.from_numpy(IMAGES["y"].astype("i8"))
    with torch.no_grad():
        out = network(x).double()
    want = torch.nn.functional.cross_entropy(out, y).item() * 130
    for batch in (1, 7, 64, 130, 1000):
        done = job.done("val", model=model, batch=batch)
        assert done["loss"] == pytest.approx(want, rel=1e-6)
        assert done["correct"] == pytest.approx((out.argmax(1) == y).sum().item(), rel=1e-9)


RESNET = '''
import torch
from torch import nn
from kubeml import KubeDataset, KubeModel

class Images(KubeDataset):
    def __init__(self):
        super().__init__("images")
    def __getitem__(self, index):
        x = torch.from_numpy(self.data[index]).float().permute(2, 0, 1)
        return (x.flip(2) if self.is_training() else x), self.labels[index].astype("int64")
    def __len__(self):
        return len(self.data)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    def forward(self, x):
        return x + self.body(x)

class Net(KubeModel):
    modes = set()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr * 0.1 ** (self.epoch // 3), momentum=0.9)
    def train(self, batch, batch_index):
        assert self._network.training and torch.is_grad_enabled() and self.task == "train"
        x, y = batch
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self(x), y)
        loss.backward()
        self.optimizer.step()
        self.log("lr", self.optimizer.param_groups[0]["lr"])
        return loss.item()
    def validate(self, batch, batch_index):
        assert not self._network.training and not torch.is_grad_enabled() and self.task == "val"
        assert not self._dataset.is_training()
        x, y = batch
        output = self(x)
        return 100 * (output.argmax(1) == y).sum().item() / self.batch_size, nn.functional.cross_entropy(output, y).item()

def main():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    return Net(net, Images()).start()
'''


def test_batch_norm(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 8, 8, 3)).astype("f2")
    y = (x.mean((1, 2, 3)) > 0).astype("i4")
    job = Local(tmp_path, RESNET, x=x, y=y)
    model = job.init()
    state = job.state()
    assert state["1.num_batches_tracked"].dtype == torch.int64 and state["1.num_batches_tracked"].shape == ()
    for epoch in range(1, 5):
        done = job.train(model, epoch=epoch, batch=10)
        lr, weight = done["metrics"]["lr"]
        assert lr / weight == pytest.approx(0.1 * 0.1 ** (epoch // 3))
        model = job.files.paths["model"]
    assert job.state()["1.num_batches_tracked"].item() == 24
    before = job.bytes()
    done = job.done("val", model=model)
    assert done["has_accuracy"] and open(model, "rb").read() == before


def test_what_init_may_look_at(tmp_path):
    job = Local(tmp_path, small("""
    def init(self):
        assert self._dataset.data.shape == (20, 4) and self._dataset.labels.dtype == "int64" and self._dataset.is_training()
        self.apply(lambda m: m.weight.data.fill_(self.args["fill"] == "1") if isinstance(m, nn.Linear) else None)
"""))
    job.done("init", args={"fill": "1"})
    assert job.state()["0.weight"].eq(1).all()


def test_signatures_of_early_programs(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, x, y, batch_index):
        assert len(x) == len(y) == self.batch_size
        return 1.5
    def validate(self, x, y, _):
        return None, 2.5
    def infer(self, model, data):
        return model(torch.tensor(data)).detach().numpy()
"""))
    model = job.init()
    assert job.train(model)["loss"] == 1.5
    done = job.done("val", model=model)
    assert (done["loss"], done["has_accuracy"]) == (2.5 * 20, False)
    assert np.shape(job.done("infer", model=model, data=[[0.0] * 4] * 3)["predictions"]) == (3, 2)


def test_the_default_inference(tmp_path):
    job = Local(tmp_path, small())
    model = job.init()
    assert np.shape(job.done("infer", model=model, data=[[0, 1, 2, 3]])["predictions"]) == (1, 2)


def test_loss_without_accuracy(tmp_path):
    for returned in ("1.5", "torch.tensor(1.5)", "(None, 1.5)", "__import__('numpy').float32(1.5)", "torch.tensor([1.5])"):
        job = Local(tmp_path, small(f"""
    def validate(self, batch, batch_index):
        return {returned}
"""))
        done = job.done("val", model=job.init())
        assert (done["loss"], done["has_accuracy"]) == (30, False)


WRONG = [
    ("None", "returned None (is a return missing?) at batch 0"), ("'0.5'", "returned the str '0.5' at batch 0"), ("[0.5]", "returned the list [0.5] at batch 0"),
    ("True", "returned the bool True"), ("torch.ones(2)", "returned a tensor of shape [2]"), ("1j", "returned the complex 1j"),
    ("{'loss': 1}", "returned the dict {'loss': 1}"), ("self", "returned the Small"),
]


@pytest.mark.parametrize("value, came", WRONG)
def test_a_wrong_return_is_told(tmp_path, value, came):
    job = Local(tmp_path, small(f"""
    def train(self, batch, batch_index):
        return {value}
    def validate(self, batch, batch_index):
        return {value}
"""))
    model = job.init()
    for task, method, expected in (("train", "train", "expected the loss of the batch"), ("val", "validate", "expected (accuracy, loss), (None, loss) or a loss")):
        failed = job.failed(task, model=model)
        assert failed["kind"] == "invalid" and failed["method"] == method
        assert f"Small.{method}() {came}" in failed["message"] and expected in failed["message"]


def test_more_wrong_returns(tmp_path):
    for method, value, text in (
        ("validate", "(1, 2, 3)", "Small.validate() returned the tuple (1, 2, 3)"),
        ("validate", "(1, None)", "Small.validate() returned the tuple (1, None)"),
        ("validate", "(None if index else 1, 1)", "an accuracy for 7 of 20 samples, expected all or none"),
        ("configure_optimizers", "None", "Small.configure_optimizers() returned None"),
        ("configure_optimizers", "[torch.optim.SGD(self.parameters(), lr=1)]", "expected a torch.optim.Optimizer"),
        ("infer", "None", "Small.infer() returned None"), ("infer", "[self]", "among its predictions"), ("infer", "[float('nan')]", "NaN"),
    ):
        arguments = "self, batch, index" if method == "validate" else "self, data" if method == "infer" else "self"
        job = Local(tmp_path, small(f"""
    def {method}({arguments}):
        return {value}
"""))
        model = job.init()
        failed = job.failed({"validate": "val", "infer": "infer"}.get(method, "train"), model=model, data=[1])
        assert failed["kind"] == "invalid" and text in failed["message"], failed


def test_a_loss_that_is_not_finite(tmp_path):
    for value in ("float('nan')", "torch.tensor(float('inf'))"):
        job = Local(tmp_path, small(f"""
    def train(self, batch, batch_index):
        return {value} if batch_index == 1 else 1.0
    def validate(self, batch, batch_index):
        return {value}, 1.0
"""))
        model = job.init()
        for task, method, batch in (("train", "train", 1), ("val", "validate", 0)):
            failed = job.failed(task, model=model)
            assert failed["kind"] == "rejected" and f"Small.{method}() returned" in failed["message"] and f"at batch {batch}" in failed["message"]


def test_a_missing_method(tmp_path):
    job = Local(tmp_path, small().replace("def train", "def trian"))
    failed = job.failed("train", model=job.init())
    assert failed["kind"] == "invalid" and failed["message"] == "Small does not define train()"


def test_an_exception_has_the_users_traceback(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        return self.deeper(batch)
    def deeper(self, batch):
        try:
            {}["missing"]
        except KeyError as e:
            raise ValueError("something\\n  is wrong") from e
"""))
    failed = job.failed("train", model=job.init())
    assert (failed["kind"], failed["type"], failed["message"], failed["method"]) == ("user", "ValueError", "something is wrong", "train")
    lines = failed["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):" and "in deeper" in lines[1] and 'program.py", line ' in lines[1]
    assert "KeyError: 'missing'" in lines and "direct cause" in failed["traceback"]
    where = [line for line in lines if line.endswith(", in deeper")][-1]
    assert f'File "{failed["where"].replace(":", chr(34) + ", line ")}, in deeper' in where
    assert "/troupe/" not in failed["traceback"]


def test_where_the_network_raises(tmp_path):
    job = Local(tmp_path, small(), x=np.zeros((20, 3), "f4"))
    failed = job.failed("train", model=job.init())
    assert failed["kind"] == "user" and failed["type"] == "RuntimeError"
    assert "loss = nn.functional.cross_entropy(self(x.float()), y)" in failed["traceback"]


def test_the_program_leaves(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        raise SystemExit(3)
"""))
    failed = job.failed("train", model=job.init())
    assert failed["kind"] == "user" and failed["message"] == "the program called sys.exit(3)"


def test_items_that_do_not_collate(tmp_path):
    job = Local(tmp_path, small(more="""
class Ragged(troupe.Dataset):
    def __getitem__(self, index):
        return torch.zeros(index + 1), 0
def main():
    return Small(network(), Ragged()).start()
"""))
    failed = job.failed("train", model=job.init())
    assert failed["kind"] == "user" and "stack expects each tensor" in failed["message"]


def test_a_length_of_its_own(tmp_path):
    job = Local(tmp_path, small(more="""
class Short(troupe.Dataset):
    def __len__(self):
        return 3
def main():
    return Small(network(), Short()).start()
"""))
    failed = job.failed("train", model=job.init())
    assert failed["kind"] == "invalid" and "Short.__len__() returned 3, expected 20" in failed["message"]


def test_memory(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        if self.args["how"] == "torch":
            return torch.empty(1 << 60)
        if self.args["how"] == "gpu":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        raise MemoryError
"""))
    model = job.init()
    for how in ("torch", "numpy"):
        failed = job.failed("train", model=model, args={"how": how})
        assert failed["kind"] == "memory"
        assert failed["message"].startswith("memory is exhausted in train(): use a smaller --batch, fewer --slots, or a larger --memory-limit")
    failed = job.failed("train", model=model, args={"how": "gpu"})
    assert failed["kind"] == "memory" and "--slots per GPU" in failed["message"]


NETWORKS = [
    ("torch.zeros(2, dtype=torch.complex64)", "complex"), ("torch.zeros(2, 2).to_sparse()", "sparse"),
    ("torch.quantize_per_tensor(torch.zeros(2), 1, 0, torch.qint8)", "quantised"),
]


@pytest.mark.parametrize("value, kind", NETWORKS)
def test_tensors_that_no_file_holds_are_named(tmp_path, value, kind):
    job = Local(tmp_path, small(more=f"""
def main():
    net = network()
    net.register_buffer("odd", {value})
    return Small(net).start()
"""))
    failed = job.failed("init")
    assert failed["kind"] == "unsupported" and f"model tensor 'odd' is {kind}" in failed["message"] and "register it" in failed["message"]


def test_a_lazy_layer_is_named(tmp_path):
    job = Local(tmp_path, small().replace("nn.Linear(4, 8)", "nn.LazyLinear(8)"))
    failed = job.failed("init")
    assert failed["kind"] == "unsupported" and "'0.weight' is lazy" in failed["message"]


def test_every_dtype_trains(tmp_path):
    job = Local(tmp_path, small(more="""
def main():
    net = network()
    for i, dtype in enumerate((torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)):
        net.register_buffer(f"b{i}", torch.ones(i % 3, dtype=dtype))
        net.register_buffer(f"s{i}", torch.ones((), dtype=dtype))
    return Small(net).start()
"""))
    model = job.init()
    before = job.state()
    job.train(model)
    after = job.state()
    for name, t in before.items():
        assert after[name].dtype == t.dtype and after[name].shape == t.shape
        assert name[0] not in "bs" or torch.equal(after[name], t)


def test_a_model_of_another_program(tmp_path):
    job = Local(tmp_path, small())
    model = job.init()
    for line, text in (
        ("nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2)", "tensor '2.weight' is in the network but not in the model file"),
        ("nn.Linear(4, 8)", "tensor '3.weight' is in the model file but not in the network"),
        ("nn.Linear(4, 8), nn.ReLU(), nn.Identity(), nn.Linear(8, 3)", "tensor '3.weight' is F32 [3, 8] in the network and F32 [2, 8] in the model file"),
    ):
        other = Local(tmp_path, small(more=f"""
def network():
    return nn.Sequential({line})
"""))
        failed = other.failed("train", model=model)
        assert failed["kind"] == "invalid" and text in failed["message"], failed


def test_a_broken_file_is_named(tmp_path):
    job = Local(tmp_path, small())
    model = job.init()
    (tmp_path / "bad").write_bytes(b"not a model")
    assert job.failed("train", model=str(tmp_path / "bad"))["kind"] == "corrupt"
    (tmp_path / "x.npy").write_bytes(b"not an array")
    failed = job.failed("train", model=model)
    assert failed["kind"] == "corrupt" and "x.npy cannot be read" in failed["message"]


def test_the_answer_is_in_the_order_of_the_model(tmp_path):
    from troupe.safetensors import File, lay_out, write

    job = Local(tmp_path, small())
    job.init()
    state = dict(reversed(job.state().items()))
    layout = lay_out(list(state), list(state.values()))
    (tmp_path / "other").touch()
    write(str(tmp_path / "other"), layout, list(state.values()))
    job.train(str(tmp_path / "other"))
    assert File(job.files.paths["model"]).layout.names == list(state)


def test_nothing_is_written_that_nobody_wants(tmp_path):
    job = Local(tmp_path, small())
    model = job.init()
    job.files.paths = None
    assert not job.train(model, want_model=False, want_optimizer=False)["has_optimizer"]
    assert job.files.paths is None


def test_an_optimizer_without_state(tmp_path):
    job = Local(tmp_path, small().replace(", momentum=0.9", ""))
    model = job.init()
    assert not job.train(model, want_optimizer=True)["has_optimizer"]
    assert set(job.files.paths) == {"model"}


def test_what_log_takes(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        self.log("a", torch.tensor(batch_index))
        self.log("b", float("nan"))
        if self.args.get("bad"):
            self.log("c", "text")
        return 1.0
"""))
    model = job.init()
    done = job.train(model)
    assert done["metrics"] == {"a": [0 * 7 + 1 * 7 + 2 * 6, 20.0]} and "log('b', nan)" in done["warnings"][0]
    failed = job.failed("train", model=model, args={"bad": "1"})
    assert "log('c', …) got str, expected a number" in failed["message"]


def test_arguments_and_environment(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        import os
        assert self.args["k"] == "v" and self.args.lr == self.lr == 0.1 and self.args._N == 1
        assert os.environ["HELLO"] == "there"
        return 1.0
"""))
    import os

    job.train(job.init(), args={"k": "v"}, env={"HELLO": "there"})
    assert "HELLO" not in os.environ


def test_a_gpu_that_is_not_there_is_a_warning(tmp_path):
    job = Local(tmp_path, small(more="""
def main():
    return Small(network(), gpu=True).start()
"""))
    model = job.init()
    done = job.train(model)
    if not torch.cuda.is_available():
        assert "it runs on the CPU" in done["warnings"][0]


MAINS = [
    ("", "has no main()"), ("def main():\n    pass", "came back without calling start()"),
    ("import troupe\ndef main():\n    return troupe.Model(3)", "network is int, expected a torch.nn.Module"),
    ("import troupe, torch\ndef main():\n    return troupe.Model(torch.nn.Linear(1, 1), [1])", "dataset is list, expected a class that extends KubeDataset"),
]


@pytest.mark.parametrize("source, text", MAINS)
def test_programs_without_a_start(tmp_path, source, text):
    try:
        message = Local(tmp_path, source).failed("init")["message"]
    except Exception as e:
        message = str(e)
    assert text in message


@pytest.mark.parametrize("more", ["\nmain = None\nclass Only(Small):\n    def __init__(self):\n        super().__init__(network())\ndel Small\n",
                                  "\ndef main():\n    return Small(network())\n", "\ndel main\ntroupe.run(lambda: Small(network()), 'digits')\nraise Exception\n"])
def test_other_ways_to_say_what_to_run(tmp_path, monkeypatch, more):
    monkeypatch.setenv("TROUPE_SOCKET", "/nowhere")
    job = Local(tmp_path, small(more=more))
    job.train(job.init())


def test_outside_of_a_worker():
    import troupe

    with pytest.raises(troupe.InvalidArgsError, match="troupe run PROGRAM"):
        troupe.Model(torch.nn.Linear(1, 1)).start()


def test_the_exceptions_of_kubeml():
    import kubeml
    from kubeml import exceptions

    for name, status in (("MergeError", 500), ("DataError", 400), ("InvalidFormatError", 400), ("StorageError", 500), ("DatasetNotFoundError", 404), ("InvalidArgsError", 400)):
        error = getattr(exceptions, name)()
        assert isinstance(error, kubeml.KubeMLException) and error.message and error.status_code == status
    error = exceptions.KubeMLException("text", 418)
    assert (str(error), error.message, error.status_code) == ("text", "text", 418)


def test_an_exception_that_cannot_be_shown(tmp_path):
    job = Local(tmp_path, small("""
    def train(self, batch, batch_index):
        class Mute(RuntimeError):
            def __str__(self):
                raise KeyError("no text")
        raise Mute()
"""))
    failed = job.failed("train", model=job.init())
    assert failed["kind"] == "user" and failed["message"] == "(Mute.__str__() raised KeyError)"
    assert "in train" in failed["traceback"]


def test_a_model_that_needs_a_main(tmp_path):
    job = Local(tmp_path, small("""
    def __init__(self, network, dataset):
        super().__init__(network, dataset)
""").replace("def main", "def start_it"))
    assert "has no main(), and Small cannot be made without it (missing a required argument: 'network')" in job.failed("init")["message"]


def test_the_name_of_the_data_set(tmp_path):
    source = small().replace("Small(network())", 'Small(network(), troupe.Dataset("My D"))')
    for task, warns in (("my-d", False), ("other", True)):
        done = Local(tmp_path, source).done("init", dataset=task)
        assert done.get("warnings", []) == ["the program names the data set 'My D', the task 'other': the task's is used"] * warns
