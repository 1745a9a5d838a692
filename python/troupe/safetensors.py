"""State dicts as files in the safetensors format, which are mapped to be read.

A file is the header's length (8 bytes little-endian), the header in JSON, and
the values, little-endian in C order, one after the other without holes. So a
value may start at any byte: what is not aligned for its type goes through numpy,
which copies such memory, and all else through torch directly. Values are copied
once, between the file's pages and the tensor; neighbours of one type are handled
together, because a model may have 50,000 of them.
"""
from __future__ import annotations

import io
import json
import mmap
import struct
import warnings
import zlib
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple, Union

import numpy as np
import torch
from torch._utils import _unflatten_dense_tensors as unflatten

from .exceptions import StorageError

DTYPES: Dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES: Dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}
ITEM = {name: torch.empty(0, dtype=dtype).element_size() for name, dtype in DTYPES.items()}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes: for copies of bits
_LARGE = 256 << 10  # bytes from which on a tensor is written by itself
_WRITE = 8 << 20  # bytes written at once
ALIGN = 64  # of the first value in files that we write


class Run(NamedTuple):
    """Neighbours [lo, hi) of one type: count values from byte offset of the file."""

    lo: int
    hi: int
    dtype: str
    offset: int
    count: int


class Layout:
    """Where the tensors of a file are, in the order of their bytes."""

    def __init__(
        self, header: bytes, names: List[str], dtypes: List[str], shapes: List[Tuple[int, ...]], counts: List[int]
    ) -> None:
        self.header = header  # with its length: all that precedes the values
        self.names = names
        self.dtypes = dtypes
        self.shapes = shapes
        self.counts = counts  # values of each tensor
        self.size = len(header) + sum(n * ITEM[d] for n, d in zip(counts, dtypes))  # bytes of the file

    def runs(self) -> Iterator[Run]:
        """The file in as few pieces as its types allow."""
        offset, lo, count = len(self.header), 0, 0
        for i, (dtype, n) in enumerate(zip(self.dtypes, self.counts)):
            if dtype != self.dtypes[lo]:
                yield Run(lo, i, self.dtypes[lo], offset, count)
                offset += count * ITEM[self.dtypes[lo]]
                lo, count = i, 0
            count += n
        if self.names:
            yield Run(lo, len(self.names), self.dtypes[lo], offset, count)


def lay_out(names: Sequence[str], tensors: Sequence[torch.Tensor], buffers: Sequence[str] = ()) -> Layout:
    """The layout of a new file with these tensors, in this order.

    Their dtypes must be among DTYPES. buffers: the names of those that training
    does not step; the file's metadata say so (package tensor: BuffersKey), and
    they stay with the model from merge to merge.
    """
    dtypes = [NAMES[t.dtype] for t in tensors]
    shapes = [tuple(t.shape) for t in tensors]
    counts = [t.numel() for t in tensors]
    parts, begin = [], 0
    if buffers:
        listed = json.dumps(list(buffers), ensure_ascii=False)
        parts.append('"__metadata__":' + json.dumps({"troupe.buffers": listed}, ensure_ascii=False))
    for name, dtype, shape, count in zip(names, dtypes, shapes, counts):
        end = begin + count * ITEM[dtype]
        parts.append(
            f'{json.dumps(name, ensure_ascii=False)}:{{"dtype":"{dtype}",'
            f'"shape":[{",".join(map(str, shape))}],"data_offsets":[{begin},{end}]}}'
        )
        begin = end
    text = ("{" + ",".join(parts) + "}").encode()
    text += b" " * (-(len(text) + 8) % ALIGN)
    return Layout(struct.pack("<Q", len(text)) + text, list(names), dtypes, shapes, counts)


class File:
    """A file mapped for reading. Its pages are shared and never written to."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as f:
            try:
                self.map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as e:  # an empty file
                raise StorageError(f"{path}: {e}") from None
        self.layout = _layout(self.map, path)

    def copy_into(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the values into tensors, which are in the file's order and have
        its shapes; dtypes are converted as Tensor.copy_ does."""
        with torch.no_grad():
            for run, group in _groups(self.layout, tensors):
                for t, source in zip(group, self._views(run, group)):
                    t.copy_(source)

    def clone(self) -> List[torch.Tensor]:
        """New tensors with the file's values, in the file's order."""
        tensors = [torch.empty(s, dtype=DTYPES[d]) for s, d in zip(self.layout.shapes, self.layout.dtypes)]
        self.copy_into(tensors)
        return tensors

    def _views(self, run: Run, group: Sequence[torch.Tensor]) -> Iterable[torch.Tensor]:
        """The values of run as tensors shaped as those of group."""
        item = ITEM[run.dtype]
        if run.offset % item:
            return _unaligned(self.map, run, group)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the memory is read-only
            flat = torch.frombuffer(self.map, dtype=DTYPES[run.dtype], count=run.count, offset=run.offset)
        if len(group) == 1:
            return (flat.view(group[0].shape),)
        return unflatten(flat, group)


def write(path: str, layout: Layout, tensors: Sequence[torch.Tensor]) -> int:
    """Write tensors, in the layout's order, into the file at path, which exists
    and may have its blocks already; returns the CRC-32 of what was to be written,
    whatever became of it in the file. OSError where the disk is full: bytes are
    written, not mapped, because a full disk would end the process then (and
    because each page of a new mapping costs a fault, three times the copy)."""
    with open(path, "r+b", buffering=0) as f, torch.no_grad():
        f.truncate(layout.size)
        crc = _put(f, layout.header, 0)
        for run, group in _groups(layout, tensors):
            bits = BITS[ITEM[run.dtype]]
            for piece in _pieces([t.detach() for t in group]):
                crc = _put(f, memoryview(piece.view(-1).view(bits).numpy()).cast("B"), crc)
    return crc


def _put(f: io.RawIOBase, data: Union[bytes, memoryview], crc: int) -> int:
    view = memoryview(data)
    while view:
        n = f.write(view[:_WRITE])
        crc = zlib.crc32(view[:n], crc)
        view = view[n:]
    return crc


def _pieces(group: List[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The group as contiguous tensors on the host: large ones as they are, small
    neighbours joined."""
    small: List[torch.Tensor] = []
    held = 0
    for t in group:
        size = t.numel() * t.element_size()
        if small and (size >= _LARGE or held >= _WRITE):
            yield torch.cat(small)
            small, held = [], 0
        if size >= _LARGE:
            yield t.cpu().contiguous()
        else:
            small.append(t.cpu().reshape(-1))
            held += size
    if small:
        yield torch.cat(small)


def _groups(layout: Layout, tensors: Sequence[torch.Tensor]) -> Iterator[Tuple[Run, List[torch.Tensor]]]:
    """The runs that have values, each with its tensors that have some."""
    for run in layout.runs():
        if run.count:
            yield run, [t for t, n in zip(tensors[run.lo : run.hi], layout.counts[run.lo : run.hi]) if n]


def _unaligned(source: mmap.mmap, run: Run, group: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    at, item, dtype = run.offset, ITEM[run.dtype], DTYPES[run.dtype]
    for t in group:
        bits = np.ndarray(t.numel(), f"<i{item}", buffer=source, offset=at)
        at += bits.nbytes
        yield torch.from_numpy(bits.astype(f"i{item}")).view(dtype).view(t.shape)


_recent: Dict[bytes, Layout] = {}  # by header; a model keeps its own from round to round


def _layout(source: mmap.mmap, path: str) -> Layout:
    total = len(source)
    length = struct.unpack("<Q", source[:8])[0] if total >= 8 else 0
    if not 0 < length <= total - 8:
        raise StorageError(f"{path} is not a model file: a header of {length} bytes in a file of {total}")
    header = source[: 8 + length]
    layout = _recent.get(header)
    if layout is None:
        layout = _parse(header, path)
        while len(_recent) >= 4:
            del _recent[next(iter(_recent))]
        _recent[header] = layout
    if layout.size != total:
        raise StorageError(f"{path} is not a model file: {total} bytes where {layout.size} are described")
    return layout


def _parse(header: bytes, path: str) -> Layout:
    try:
        table = json.loads(header[8:])
        table.pop("__metadata__", None)
        names, dtypes, shapes, counts, end = [], [], [], [], 0
        for name, entry in sorted(table.items(), key=lambda kv: kv[1]["data_offsets"]):
            dtype, shape, (begin, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if dtype not in ITEM:
                raise ValueError(f"tensor {name!r} has the unsupported type {dtype}")
            count = 1
            for dim in shape:
                count *= dim
            if begin != end or stop - begin != count * ITEM[dtype]:
                raise ValueError(f"tensor {name!r} is not where it belongs")
            end = stop
            names.append(name)
            dtypes.append(dtype)
            shapes.append(shape)
            counts.append(count)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise StorageError(f"{path} is not a model file: {e}") from None
    return Layout(header, names, dtypes, shapes, counts)
