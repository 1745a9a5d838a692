"""Model files: every dtype and shape, whatever its place."""
import json
import struct
import zlib

import numpy as np
import pytest
import torch

from .local import File
from troupe.exceptions import StorageError
from troupe.safetensors import DTYPES, lay_out, write
from troupe.weights import Weights


def save(path, tensors):
    layout = lay_out([f"t{i}" for i in range(len(tensors))], tensors)
    path.write_bytes(b"x" * (layout.size + 17))
    crc = write(str(path), layout, tensors)
    assert path.stat().st_size == layout.size
    assert crc == zlib.crc32(path.read_bytes())
    return str(path)


def equal(a, b):
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.contiguous().view(-1).view(bits), b.contiguous().view(-1).view(bits))


def example(dtype, shape):
    generator = torch.Generator().manual_seed(1)
    value = torch.randint(0, 2 if dtype is torch.bool else 100, shape, generator=generator)
    return value.to(dtype)


SHAPES = [(), (0,), (3, 0, 2), (1,), (5,), (2, 3), (2, 1, 3, 2)]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("before", [0, 1, 2, 4])  # bytes that push the rest out of line
def test_round_trip(tmp_path, dtype, before):
    tensors = [torch.zeros(before, dtype=torch.uint8)] + [example(dtype, s) for s in SHAPES]
    file = File(save(tmp_path / "m", tensors))
    assert len(file.layout.header) % 64 == 0
    for got, want in zip(file.clone(), tensors):
        assert equal(got, want)


def test_bits_survive(tmp_path):
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4e38])
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for before in (0, 1):
            tensors = [torch.zeros(before, dtype=torch.uint8), odd.to(dtype), odd.to(dtype)[2]]
            for got, want in zip(File(save(tmp_path / "m", tensors)).clone(), tensors):
                assert equal(got, want)


def test_what_is_not_contiguous(tmp_path):
    base = torch.arange(24.0).view(2, 3, 4)
    tensors = [base.transpose(0, 2), base[:, ::2], base.expand(2, 2, 3, 4), torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)]
    for got, want in zip(File(save(tmp_path / "m", tensors)).clone(), tensors):
        assert equal(got, want)


def test_copy_into_keeps_objects_and_strides(tmp_path):
    want = [torch.rand(2, 3), torch.rand(2, 3, 4, 4)]
    path = save(tmp_path / "m", want)
    into = [torch.zeros(3, 2).t(), torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()]
    strides = [t.stride() for t in into]
    File(path).copy_into(into)
    assert all(torch.equal(a, b) for a, b in zip(into, want))
    assert strides == [t.stride() for t in into]


def test_large_and_small_neighbours(tmp_path, monkeypatch):
    from troupe import safetensors

    monkeypatch.setattr(safetensors, "_LARGE", 40)
    monkeypatch.setattr(safetensors, "_WRITE", 100)
    sizes = [1, 2, 30, 3, 10, 9, 9, 9, 9, 9, 9, 200, 1]
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        tensors = [example(dtype, (n,)) for n in sizes]
        for got, want in zip(File(save(tmp_path / "m", tensors)).clone(), tensors):
            assert equal(got, want)


def test_names_and_order(tmp_path):
    names = ["b", "a", 'qu"ote\\', "ünï", "a.b.c"]
    tensors = [torch.tensor(float(i)) for i in range(5)]
    layout = lay_out(names, tensors)
    (tmp_path / "m").touch()
    write(str(tmp_path / "m"), layout, tensors)
    file = File(str(tmp_path / "m"))
    assert file.layout.names == names
    assert [t.item() for t in file.clone()] == [0, 1, 2, 3, 4]


def test_other_writers(tmp_path):
    header = {"b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, "__metadata__": {"format": "pt"}, "a": {"dtype": "I32", "shape": [], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text + struct.pack("<if", 7, 1.5))
    file = File(str(tmp_path / "m"))
    assert file.layout.names == ["a", "b"]
    assert [t.tolist() for t in file.clone()] == [7, [1.5]]


def test_an_empty_dict(tmp_path):
    assert File(save(tmp_path / "m", [])).clone() == []


@pytest.mark.parametrize(
    "header, data",
    [
        ("{", b""), ("[]", b""), ("{}", b"1"), ('{"a":1}', b""), ('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}}', b"123"),
        ('{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}', b"12345678"), ('{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', b"123"),
        ('{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"1"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, header, data):
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(header)) + header.encode() + data)
    with pytest.raises(StorageError, match="not a model file"):
        File(str(tmp_path / "m"))


def test_short_files_are_refused(tmp_path):
    for content in (b"", b"123", struct.pack("<Q", 1 << 40) + b"{}"):
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(StorageError):
            File(str(tmp_path / "m"))


def test_a_file_does_not_change_under_its_tensors(tmp_path):
    path = save(tmp_path / "m", [torch.ones(4)])
    before = np.fromfile(path, np.uint8)
    File(path).clone()[0].fill_(5)
    assert (np.fromfile(path, np.uint8) == before).all()


def test_buffers_are_named(tmp_path):
    """The merge must know which floats are statistics; their names survive a round."""
    network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    network.register_buffer("näme\"d", torch.zeros(1))
    network[0].weight.requires_grad_(False)  # frozen, and a parameter all the same
    named = ["näme\"d", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    path = tmp_path / "m"
    path.touch()
    for weights in (Weights(network), Weights(network)):  # as init makes it, then as a round answers
        if path.stat().st_size:
            weights.load(str(path))
        layout, tensors = weights.collect()
        write(str(path), layout, tensors)
        (length,) = struct.unpack("<Q", path.read_bytes()[:8])
        metadata = json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]
        assert set(json.loads(metadata["troupe.buffers"])) == set(named)
        assert len(layout.header) % 64 == 0


def test_without_buffers_there_are_no_metadata():
    layout, _ = Weights(torch.nn.Linear(2, 3)).collect()
    assert b"__metadata__" not in layout.header
