"""Shards on disk: a folder with an index and one file of codes for each shard, mapped into memory when it is read.

    folder/shards.json    format name and version, names and states of the columns, and the list of files: rows, checksum
    folder/00000.shard    a header of 64 bytes (magic, rows, columns, bytes of a code, whether there are weights, checksum),
                          the codes (rows × columns, −1 is missing), then the weights (rows doubles), if there are any

Nothing in a file is trusted: sizes are checked against the file before anything is allocated, the checksum when a shard is
first read in a process, and codes against the states of their columns.
"""

from __future__ import annotations

import errno
import json
import os
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from fieldfit.data.atomic import atomic_folder, atomic_writer
from fieldfit.data.labels import States, checked_states
from fieldfit.data.regular import checked_file
from fieldfit.data.samples import Table
from fieldfit.types import Array, DataError, FileAccessError, FileFormatError, FloatArray

INDEX = "shards.json"
_FORMAT, _VERSION = "fieldfit-shards", 1
_MAGIC = b"FFSHARD1"
_HEADER = struct.Struct("<8sQIHH32s8x")
_MOST_INDEX_BYTES = 256 << 20
_FILE_NAME = re.compile(r"[0-9]+\.shard", re.ASCII)
_DTYPES: dict[int, np.dtype[np.signedinteger]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}

#: Files whose checksum was found right in this process: path, size and time of the last change.
_verified: set[tuple[str, int, int]] = set()


@dataclass(frozen=True)
class ShardFile:
    """One file: its name in the folder, its rows, and the checksum of all that follows the header."""

    name: str
    rows: int
    digest: str


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards; ``names`` and ``states`` are those of the columns.

    ``weight_kind`` is None where the samples have no weights.
    """

    path: Path
    names: tuple[str, ...]
    states: tuple[States, ...]
    files: tuple[ShardFile, ...]
    weight_kind: str | None = None
    total_weight: float = field(default=0.0)

    @property
    def n(self) -> int:
        """The number of samples."""
        return sum(file.rows for file in self.files)

    @property
    def m(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def common_states(self) -> States:
        """The states that any column has: numbers before text."""
        distinct: set[object] = {state for states in self.states for state in states}
        return tuple(sorted(distinct, key=lambda state: (isinstance(state, str), state)))

    def read(self, number: int) -> Table:
        """The samples of one shard; FileFormatError if its file is damaged."""
        file = self.files[number]
        codes, weight = _mapped(self.path / file.name, file, self.m, self.weight_kind is not None)
        highest = np.array([len(states) for states in self.states])
        if codes.size and (int(codes.min()) < -1 or bool((codes.max(axis=0) >= highest).any())):
            raise FileFormatError(f"{self.path / file.name} has codes that are not states. {_AGAIN}")
        return Table(
            np.ascontiguousarray(codes, dtype=np.int32),
            self.names,
            self.states,
            sample_weight=weight,
            weight_kind=self.weight_kind or "importance",
        )


_AGAIN = "Make the shards again with `fieldfit shard`."


def write_folder(path: str | os.PathLike[str], tables: Iterable[Table], states: Sequence[States]) -> ShardFolder:
    """Write one shard for each table, and the index: a new folder with all of them, or none.

    The tables have the same columns, with codes of ``states``, and weights of one kind or none.
    """
    dtype = (
        _DTYPES[1] if max(map(len, states)) < 128 else _DTYPES[2] if max(map(len, states)) < 1 << 15 else _DTYPES[4]
    )
    files: list[ShardFile] = []
    names: tuple[str, ...] = ()
    kind: str | None = None
    total = 0.0
    with atomic_folder(path) as folder:
        for number, table in enumerate(tables):
            names = table.names
            kind = None if table.sample_weight is None else table.weight_kind
            total += table.total_weight
            files.append(_write(folder / f"{number:05d}.shard", table.codes.astype(dtype), table.sample_weight, path))
        index = {
            "format": _FORMAT,
            "version": _VERSION,
            "names": list(names),
            "states": [list(labels) for labels in states],
            "weight_kind": kind,
            "total_weight": total,
            "files": [{"name": file.name, "rows": file.rows, "digest": file.digest} for file in files],
        }
        with atomic_writer(folder / INDEX, path) as file:
            file.write(json.dumps(index, indent=1).encode())
    return ShardFolder(Path(path), names, tuple(states), tuple(files), kind, total)


def open_folder(path: str | os.PathLike[str]) -> ShardFolder:
    """The folder that `write_folder` made; FileFormatError where its index is not one."""
    folder = Path(path)
    checked_file(folder / INDEX)
    try:
        if (folder / INDEX).stat().st_size > _MOST_INDEX_BYTES:
            raise FileFormatError(f"{folder / INDEX} is larger than any index of shards.")
        text = (folder / INDEX).read_bytes()
    except OSError as error:
        raise FileAccessError(
            f"{folder} is not a folder of shards: {INDEX} cannot be read ({error.strerror}). `fieldfit shard` makes one."
        ) from error
    try:
        index = json.loads(text)
        if index["format"] != _FORMAT or index["version"] != _VERSION:
            raise ValueError("another format or version")
        names = tuple(index["names"])
        files = tuple(ShardFile(str(f["name"]), _count(f["rows"]), str(f["digest"])) for f in index["files"])
        states = tuple(checked_states(labels, "a column") for labels in index["states"])
        kind = index["weight_kind"]
        if kind not in (None, "counts", "importance") or not all(isinstance(name, str) for name in names):
            raise ValueError("names or weights")
        if len(states) != len(names) or len(set(names)) < len(names) or not names or not files:
            raise ValueError("columns or files")
        distinct = {file.name for file in files}
        if len(distinct) < len(files) or not all(_FILE_NAME.fullmatch(name) for name in distinct):
            raise ValueError("names of files")
        total = float(index["total_weight"])
        if not 0 < total < np.inf or (kind is None and total != sum(file.rows for file in files)):
            raise ValueError("weights")
        return ShardFolder(folder, names, states, files, kind, total)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, DataError) as error:
        raise FileFormatError(
            f"{folder / INDEX} is not an index of shards ({type(error).__name__}: {str(error)[:100]}). {_AGAIN}"
        ) from error


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 48:
        raise ValueError("rows")
    return value


def _write(path: Path, codes: Array, weight: FloatArray | None, part_of: str | os.PathLike[str]) -> ShardFile:
    """Write one file of a folder; the header has the checksum of what follows it."""
    parts = [np.ascontiguousarray(codes).view(np.uint8).reshape(-1).data]
    if weight is not None:
        parts.append(np.ascontiguousarray(weight, dtype="<f8").view(np.uint8).reshape(-1).data)
    digest = blake2b(digest_size=32)
    for part in parts:
        digest.update(part)
    rows, m = codes.shape
    with atomic_writer(path, part_of) as file:
        file.write(_HEADER.pack(_MAGIC, rows, m, codes.dtype.itemsize, weight is not None, digest.digest()))
        for part in parts:
            file.write(part)
    return ShardFile(path.name, rows, digest.hexdigest())


def _mapped(path: Path, file: ShardFile, m: int, weighted: bool) -> tuple[Array, FloatArray | None]:
    """The codes, mapped into memory, and the weights of one file."""
    checked_file(path)
    try:
        with open(path, "rb") as opened:
            status = os.fstat(opened.fileno())
            start = opened.read(_HEADER.size)
    except OSError as error:
        raise FileAccessError(
            f"The shard {path} cannot be read ({error.strerror}). If the file is gone: {_AGAIN}"
        ) from error
    if len(start) < _HEADER.size:
        raise FileFormatError(f"The shard {path} is truncated. {_AGAIN}")
    magic, rows, columns, itemsize, has_weight, digest = _HEADER.unpack(start)
    expected = (_MAGIC, file.rows, m, weighted, file.digest)
    if (magic, rows, columns, bool(has_weight), digest.hex()) != expected or itemsize not in _DTYPES:
        raise FileFormatError(f"The shard {path} is not the one that the index {INDEX} lists. {_AGAIN}")
    size = rows * m * itemsize
    if status.st_size != _HEADER.size + size + 8 * rows * weighted:
        raise FileFormatError(f"The shard {path} has {status.st_size} bytes, not those of {rows} rows. {_AGAIN}")
    try:
        mapped = np.memmap(path, dtype=np.uint8, mode="r", offset=0)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError from error
        raise FileAccessError(f"The shard {path} cannot be mapped into memory ({error.strerror}).") from error
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _verified:
        checksum = blake2b(digest_size=32)
        for at in range(_HEADER.size, len(mapped), 1 << 22):
            checksum.update(mapped[at : at + (1 << 22)].data)
        if checksum.hexdigest() != file.digest:
            raise FileFormatError(f"The shard {path} is damaged: its checksum is wrong. {_AGAIN}")
        _verified.add(key)
    codes = mapped[_HEADER.size : _HEADER.size + size].view(_DTYPES[itemsize]).reshape(rows, m)
    weight = None
    if weighted:
        weight = np.frombuffer(mapped[_HEADER.size + size :].tobytes(), dtype="<f8")
    return codes, weight
