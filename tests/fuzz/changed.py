"""Saved fits and checkpoints with changed headers and arrays, in archives that are valid.

The bytes of archives are fuzzed by targets of their own. Here most cases skip the archive, whose reading takes most of the
time: the readers get what `read_container` makes of it. One case in twenty reads an archive.
"""

import contextlib
import functools
import io
import json
import zipfile
from unittest import mock

import numpy as np

from fieldfit.api import checkpoint, files, finished_parts
from fieldfit.data import container

#: The share of cases that read an archive.
ARCHIVES = 0.05
_real = container.read_container


@contextlib.contextmanager
def changed_file(path, content, source):
    """A file at the path, for the time of a case: the content with changes that the random source chooses."""
    header, arrays = _changed(content, source)
    if source.random() < ARCHIVES:
        path.write_bytes(_archive(header, arrays))
        yield
        return
    path.write_bytes(_MARK)
    text = json.dumps(header)

    def read(where, *, kind=None, max_bytes=container.MAX_TOTAL_BYTES):
        with open(where, "rb") as file:  # a fit may have written its own checkpoint there
            if file.read(len(_MARK)) != _MARK:
                return _real(where, kind=kind, max_bytes=max_bytes)
        document = json.loads(text) | {"arrays": {}}  # the arrays are as the header declares them
        content, _ = container._Reader(where, max_bytes, kind).check_document(document, kind)
        return content, {name: array.copy() for name, array in arrays.items()}

    with contextlib.ExitStack() as patches:
        for module in (files, checkpoint, finished_parts):
            patches.enter_context(mock.patch.object(module, "read_container", read))
        yield


_MARK = b"changed"


@functools.lru_cache(maxsize=8)
def _unpacked(content):
    """The header, as text, and the arrays of a file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = archive.read("header.json")
        names = json.loads(header)["arrays"]
        return header, {name: np.load(io.BytesIO(archive.read(f"arrays/{name}.npy"))) for name in names}


def _changed(content, source):
    """Change one to three values of the header or arrays."""
    text, arrays = _unpacked(content)
    header, arrays = json.loads(text), dict(arrays)
    for _ in range(source.choice((1, 1, 2, 3))):
        if source.random() < 0.5:
            _change(header["content"], source)
        else:
            name = source.choice(sorted(arrays))
            arrays[name] = _changed_array(arrays[name], source)
            header["arrays"][name]["shape"] = list(arrays[name].shape)
    return header, arrays


def _changed_array(array, source):
    """An array with one element replaced, or with a row more or less."""
    extremes = (
        [0, 1, -1, 2**31 - 1, -(2**31), np.iinfo(np.int64).max]
        if array.dtype.kind in "iu"
        else [np.nan, np.inf, -1e308, 0]
    )
    if array.size and source.random() < 0.7:
        array = array.copy()
        with np.errstate(all="ignore"):
            array.flat[source.randrange(array.size)] = np.array(source.choice(extremes)).astype(array.dtype)
    elif array.ndim and array.shape[0]:
        array = array[:-1] if source.random() < 0.5 else np.concatenate([array, array[:1]])
    return array


def _change(value, source):
    """Replace one value somewhere in a document."""
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not places:
        return
    place = source.choice(places)
    if isinstance(value[place], dict | list) and value[place] and source.random() < 0.7:
        _change(value[place], source)
    elif isinstance(value, dict) and source.random() < 0.2:
        del value[place]
    else:
        value[place] = source.choice(
            [None, True, 0, -1, 1.5, 2**70, float("nan"), "", "PL1", [], {}, [1, "a"], 10**9]
        )


def _archive(header, arrays):
    """A zip archive as `write_container` makes it, without compression."""
    members = {"header.json": json.dumps(header).encode()}
    members |= {
        f"arrays/{name}.npy": container._npy_preamble(array.dtype, array.shape) + array.tobytes()
        for name, array in arrays.items()
    }
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return result.getvalue()
