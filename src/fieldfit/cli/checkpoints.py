"""The options of fits that keep their state in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.output import InterruptedFitError, note

if TYPE_CHECKING:
    from fieldfit.api.checkpoint import Checkpoint

CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Save the state of the work to this file; --resume continues from it. Default: no checkpoint.",
    ),
]
CheckpointEvery = Annotated[
    float, typer.Option("--checkpoint-every", metavar="SECONDS", min=0, help="Time between two writes of the state.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint, if the file exists.")]


def checkpoint_from_options(path: Path | None, every: float, resume: bool) -> Checkpoint | None:
    """The checkpoint that the options ask for; with ``resume`` a line says where the fit continues."""
    if path is None:
        if resume:
            from fieldfit.types import FieldfitError

            raise FieldfitError("--resume needs --checkpoint FILE, the file to continue from.")
        return None
    from fieldfit.api.checkpoint import Checkpoint
    from fieldfit.data.atomic import check_writable

    check_writable(path)
    checkpoint = Checkpoint(path, every, resume, note)
    if resume and not how_to_continue(checkpoint):
        note(f"{path} does not exist: there is nothing to resume, the work starts from the beginning")
    return checkpoint


def how_to_continue(checkpoint: Checkpoint | None) -> str:
    """What the file of an interrupted fit has, and how to continue; empty if there is no file."""
    if checkpoint is None:
        return ""
    for path in (checkpoint.path, checkpoint.of_folds.path):
        if os.path.exists(path):
            return f"{path} has the state, and the same command with --resume continues from there"
    return ""


@contextmanager
def told_interrupts(
    checkpoint: Checkpoint | None, when: str = "Interrupted before there was an estimate"
) -> Iterator[None]:
    """Name the checkpoint if Ctrl-C leaves no estimate: before the first iteration, or in a second stage."""
    try:
        yield
    except KeyboardInterrupt:
        if not (state := how_to_continue(checkpoint)):
            raise
        raise InterruptedFitError(f"{when}; {state}.") from None
