"""The command line that is running: for files and pages that say how they were made, and its options, for messages."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fieldfit.api.result import Fit

_arguments: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())
_options: ContextVar[frozenset[str] | None] = ContextVar("options", default=None)


class _Parameter(Protocol):
    @property
    def opts(self) -> Sequence[str]: ...


class _Command(Protocol):
    @property
    def params(self) -> Sequence[_Parameter]: ...


def remember(arguments: Sequence[str], command: _Command) -> None:
    """Keep the arguments of the command that starts now, and the options that it has.

    ``command`` is the application, as typer makes it; typer carries click along under another name in some versions.
    """
    _arguments.set(tuple(arguments))
    for argument in arguments:
        commands = getattr(command, "commands", {})
        command = commands.get(argument) or commands.get(getattr(command, "default", None)) or command
    _options.set(frozenset(name for parameter in command.params for name in parameter.opts))


def options() -> frozenset[str] | None:
    """The options of the running command; None if no command is running."""
    return _options.get()


def command() -> str:
    """The command as one would type it."""
    return shlex.join(["fieldfit", *_arguments.get()])


def signed(fit: Fit) -> Fit:
    """The fit with the command that made it."""
    return replace(fit, command=command())
