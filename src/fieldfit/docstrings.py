"""Text that many docstrings share, written once.

A line ``%(name)s`` in a docstring stands for the block of that name; `filled` puts the blocks in when the class is made,
so that ``help()`` shows the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import TypeVar

T = TypeVar("T")

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def filled(blocks: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """A decorator that puts ``blocks`` in the docstrings of the methods of a class."""

    def fill(cls: type[T]) -> type[T]:
        for member in vars(cls).values():
            function = getattr(member, "__func__", member)
            text = getattr(function, "__doc__", None)
            if callable(function) and isinstance(text, str) and "%(" in text:
                function.__doc__ = _PLACE.sub(lambda match: indent(blocks[match[2]], match[1]), text)
        return cls

    return fill
