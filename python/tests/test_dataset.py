"""Rows, batches and labels as the user's data set sees them."""
import collections

import numpy as np
import pytest
import torch

from . import local  # noqa: F401: finds the packages
from troupe.dataset import Batcher, Dataset, sizes, spans
from troupe.exceptions import DataError, StorageError
from troupe.rows import Rows, as_labels

TYPES = ["?", "u1", "i1", "<u2", ">u2", "<i2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_rows_come_in_the_order_asked(tmp_path, dtype, shape):
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 2, (50,) + shape).astype(dtype)
    for array in (whole, np.asfortranarray(whole)):
        np.save(tmp_path / "x.npy", array)
        for positions in (rng.permutation(50), np.array([7, 3, 3, 49, 0]), np.array([], np.int64)):
            got = Rows(str(tmp_path / "x.npy")).read(positions)
            assert got.dtype == np.dtype(dtype).newbyteorder("=") and got.flags.c_contiguous
            np.testing.assert_array_equal(got, whole[positions])


def test_rows_larger_than_a_window(tmp_path):
    whole = np.arange(4 << 20, dtype="i8").reshape(16, -1)
    np.save(tmp_path / "x.npy", whole)
    positions = np.array([15, 0, 7, 7, 3, 12, 1])
    np.testing.assert_array_equal(Rows(str(tmp_path / "x.npy")).read(positions), whole[positions])


def test_what_is_no_array_of_rows(tmp_path):
    np.save(tmp_path / "x.npy", np.array(3.0))
    with pytest.raises(DataError, match="single value"):
        Rows(str(tmp_path / "x.npy"))
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(StorageError, match="cannot be read"):
        Rows(str(tmp_path / "x.npy"))


def test_labels():
    for dtype in ("?", "u1", "i2", "u4", "i8"):
        assert as_labels(np.ones((3, 2), dtype)).dtype == np.int64
        assert as_labels(np.ones((3, 2), dtype)).shape == (3, 2)
    for dtype in ("f2", "f4", "f8"):
        assert as_labels(np.ones(3, dtype)).dtype == dtype


def test_sizes():
    assert sizes(65, 64) == [33, 32]
    assert sizes(0, 64) == [] and sizes(1, 64) == [1]
    for n in range(1, 200):
        for batch in (1, 2, 3, 7, 64, 1000):
            cut = sizes(n, batch)
            assert sum(cut) == n and len(cut) == -(-n // batch) and max(cut) - min(cut) <= 1
            assert cut == sorted(cut, reverse=True)


def test_spans():
    assert spans([3, 3, 2], 10, 60) == [(0, 2), (2, 3)]
    assert spans([3, 3, 2], 10, 1) == [(0, 1), (1, 2), (2, 3)]
    assert spans([3, 3, 2], 0, 1) == [(0, 3)]
    assert spans([], 10) == []


class Doubled(Dataset):
    def __getitem__(self, index):
        return {"x": torch.from_numpy(self.data[index]) * 2, "y": (self.labels[index], float(index))}


class Many(Doubled):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


@pytest.mark.parametrize("cls", [Dataset, Doubled, Many])
def test_batches_are_those_of_a_data_loader(cls):
    dataset = cls()
    dataset._fill(np.random.rand(10, 3).astype("f4"), np.arange(10))
    loader = torch.utils.data.DataLoader(dataset, batch_size=5)
    batcher = Batcher(dataset)
    for i, want in enumerate(loader):
        assert repr(batcher.batch(5 * i, 5 * i + 5)) == repr(want)


def test_types_that_torch_lacks_arrive_wider():
    dataset = Dataset()
    dataset._fill(np.array([[65535]], "u2"), np.array([1]))
    x, _ = Batcher(dataset).batch(0, 1)
    assert x.dtype == torch.int32 and x.item() == 65535


@pytest.mark.parametrize("dtype, wider", [("u2", torch.int32), ("u4", torch.int64), ("u8", torch.int64)])
def test_items_of_types_that_torch_does_not_know(dtype, wider):
    class Items(Dataset):
        def __getitem__(self, index):
            return self.data[index], {"y": [self.labels[index]], "z": Pair(self.data[index, 0], 1.5)}

    dataset = Items()
    dataset._fill(np.arange(6, dtype=dtype).reshape(3, 2), np.arange(3))
    x, rest = Batcher(dataset).batch(1, 3)
    assert x.dtype == wider and x.tolist() == [[2, 3], [4, 5]]
    assert rest["y"][0].tolist() == [1, 2]
    assert type(rest["z"]) is Pair and rest["z"].a.tolist() == [2, 4] and rest["z"].b.tolist() == [1.5, 1.5]


Pair = collections.namedtuple("Pair", "a b")
