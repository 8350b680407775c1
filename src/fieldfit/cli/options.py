"""Options that several commands share, and groups of them.

A group is a frozen dataclass whose fields are typer options. `with_options` lets a command take a group as one parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, get_type_hints

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Output file. Default: the standard output.")
]
SaveTo = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="File for the fit. Default: the fit is not saved.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed. The same seed gives the same result.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Number of threads. Default: one for each processor.")
]


class WideRows(StrEnum):
    """What to do with samples whose missing values are too wide to sum out."""

    refuse = "refuse"
    drop = "drop"


WideRowsOption = Annotated[
    WideRows,
    typer.Option("--wide-rows", help="What to do with samples that have too many missing values to sum out."),
]
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", metavar="A,B,…", help="Columns to use as variables. Default: all.")
]
LeaveOutOption = Annotated[
    str | None, typer.Option("--leave-out", metavar="A,B,…", help="Columns to leave out. Default: none.")
]
SampleWeight = Annotated[
    str | None,
    typer.Option(
        "--sample-weight", metavar="COLUMN", help="Column with the weights of the samples. Default: equal weights."
    ),
]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="COLUMN",
        help="Column with the group of each sample (patient, document, …), for cluster-robust standard errors of fits. "
        "Default: independent samples.",
    ),
]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether line 1 has names. Default: auto-detect.")
]
SavedFit = Annotated[Path, typer.Argument(metavar="MODEL.ff", help="A saved fit.")]


class WeightKind(StrEnum):
    """What sample weights mean."""

    counts = "counts"
    importance = "importance"


KindOfWeight = Annotated[WeightKind, typer.Option("--weight-kind", help="Meaning of the sample weights.")]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: a parameter that is a dataclass becomes its fields, each an option of its own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            options |= _options(hints[name])
        else:
            options[name] = parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)

    def run(**values: object) -> None:
        built = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **built)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    return run


def _options(group: type) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    }


def limit_threads(count: int | None) -> None:
    """Set the number of threads if one was given."""
    if count is not None:
        from fieldfit.threads import set_threads

        set_threads(count)
