"""Warnings that point at the user's line, and who hears them.

`warnings.catch_warnings` changes the filters of the whole process: two threads that use it may leave them changed for good.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

#: How the names of the package's own files begin.
_PACKAGE = str(Path(__file__).parent / "_")[:-1]

#: The category and the text of a warning.
Warned = tuple[type[Warning], str]
#: The warnings that this thread leaves out, and the lists that hear the others.
_left_out: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())
_hearing: ContextVar[tuple[list[Warned], ...]] = ContextVar("hearing", default=())


def warn_caller(warning: Warning | str, category: type[Warning] | None = None) -> None:
    """Warn of something, at the innermost line outside of fieldfit.

    `warnings.warn` does this with ``skip_file_prefixes`` from Python 3.12 on.
    """
    kind = type(warning) if isinstance(warning, Warning) else category or UserWarning
    if issubclass(kind, _left_out.get()):
        return
    for said in _hearing.get():
        said.append((kind, str(warning)))
    frame, level = sys._getframe(1), 2
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, category, stacklevel=level)


@contextmanager
def without_warnings(*categories: type[Warning]) -> Iterator[None]:
    """Leave out fieldfit's warnings of these categories in the block, in this thread only."""
    token = _left_out.set((*_left_out.get(), *categories))
    try:
        yield
    finally:
        _left_out.reset(token)


@contextmanager
def heard() -> Iterator[list[Warned]]:
    """Yield a list that gets fieldfit's warnings in the block, in this thread only. They are given as usual, too."""
    said: list[Warned] = []
    token = _hearing.set((*_hearing.get(), said))
    try:
        yield said
    finally:
        _hearing.reset(token)
