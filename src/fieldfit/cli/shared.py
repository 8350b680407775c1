"""Options that several commands share: a function lists them once, and `takes` adds them to a command's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the result to this file.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed; the same one gives the same result.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to use (all processors).")]
SampleWeight = Annotated[
    str | None,
    typer.Option("--sample-weight", metavar="COLUMN", help="The column that has the samples' weights."),
]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether line 1 has names (looked at).")
]
SavedFit = Annotated[Path, typer.Argument(metavar="MODEL.ff", help="A saved fit.")]


class WeightKind(StrEnum):
    """What sample weights mean."""

    counts = "counts"
    importance = "importance"


KindOfWeight = Annotated[WeightKind, typer.Option("--weight-kind", help="What they mean.")]


def takes(common: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of ``common`` after its own; it gets what ``common`` returns as ``common``."""
    shared = _parameters(common)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = {name: parameter for name, parameter in _parameters(command).items() if name != "common"}

        def run(**values: Any) -> None:
            rest = {name: values.pop(name) for name in shared}
            command(**values, common=common(**rest))

        everything = {**own, **shared}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {name: parameter.annotation for name, parameter in everything.items()}
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in everything.values()]
        )
        return run

    return decorate


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters
    return {name: parameter.replace(annotation=hints[name]) for name, parameter in found.items()}


def use_threads(count: int | None) -> None:
    """Set the number of threads if one was given."""
    if count is not None:
        from fieldfit.threads import set_threads

        set_threads(count)
