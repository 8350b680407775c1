"""Lists of text as two arrays, UTF-8 bytes and where each text ends; alphabets likewise. Files need no pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fieldfit.data.alphabet import Alphabet
from fieldfit.types import Array, Arrays, FileFormatError


def pack_text(arrays: Arrays, name: str, texts: Sequence[str]) -> None:
    """Add ``texts`` to ``arrays`` as ``name.bytes`` (uint8) and ``name.ends`` (int64)."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    arrays[f"{name}.bytes"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    arrays[f"{name}.ends"] = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))


def unpack_text(arrays: Mapping[str, Array], name: str) -> list[str]:
    """The texts that `pack_text` added under ``name``."""
    try:
        content = np.asarray(arrays[f"{name}.bytes"], dtype=np.uint8).tobytes()
        ends = [0, *np.asarray(arrays[f"{name}.ends"], dtype=np.int64).tolist()]
    except KeyError as error:
        raise FileFormatError(f"The file has no entry {error}; it is damaged or of another kind.") from error
    if ends != sorted(ends) or ends[-1] != len(content):
        raise FileFormatError(f"The texts {name!r:.80} do not fit their lengths; the file is damaged.")
    try:
        return [content[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise FileFormatError(f"The texts {name!r:.80} are not UTF-8; the file is damaged.") from error


def pack_names(arrays: Arrays, name: str, alphabet: Alphabet) -> None:
    """Add the names of ``alphabet`` to ``arrays``, as text or as integers."""
    if alphabet.names and not isinstance(alphabet.names[0], str):
        arrays[f"{name}.numbers"] = np.asarray(alphabet.names, dtype=np.int64)
    else:
        pack_text(arrays, name, [str(text) for text in alphabet])


def unpack_names(arrays: Mapping[str, Array], name: str) -> Alphabet:
    """The alphabet that `pack_names` added under ``name``."""
    if f"{name}.numbers" in arrays:
        return Alphabet(np.asarray(arrays[f"{name}.numbers"], dtype=np.int64).tolist())
    return Alphabet(unpack_text(arrays, name))
