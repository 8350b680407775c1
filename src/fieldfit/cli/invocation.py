"""The command line that is running, for files and pages that say how they were made."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fieldfit.api.result import Fit

_arguments: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())


def remember(arguments: Sequence[str]) -> None:
    """Keep the arguments of the command that starts now."""
    _arguments.set(tuple(arguments))


def command() -> str:
    """The command as one would type it."""
    return shlex.join(["fieldfit", *_arguments.get()])


def signed(fit: Fit) -> Fit:
    """The fit with the command that made it."""
    return replace(fit, command=command())
