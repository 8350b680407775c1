"""Automatic weights on the command line: the option, the history as a table, the trajectory as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fieldfit.api.result import Fit
    from fieldfit.report.table import PlainTable
    from fieldfit.weights import WeightsResult

_FILES = ("weights.png", "weights.svg", "weights.csv")
#: Weights beyond which the history has columns for the largest ones only: it must fit a terminal.
_MOST_WEIGHT_COLUMNS = 4


def weights_option(text: str | None) -> list[float] | Literal["auto"] | None:
    """``--weights``: nothing, "auto", or one β for each term."""
    from fieldfit.cli.values import numbers_from_text

    if text is None:
        return None
    return "auto" if text == "auto" else numbers_from_text(text, "--weights")


def print_weights(result: WeightsResult) -> None:
    """How β was chosen, and the rounds."""
    from fieldfit.cli.output import print_table, say, tell

    say("")
    for line in str(result).splitlines():
        tell(line, indent="  ")
    if result.history:
        say("")
        print_table(history_table(result))


def history_table(result: WeightsResult) -> PlainTable:
    """A line for each round: β, J, and what that β loses against the best at the round's θ."""
    from fieldfit.report.table import PlainTable

    order = sorted(range(len(result.names)), key=lambda place: -result.beta[place])[:_MOST_WEIGHT_COLUMNS]
    shown = sorted(order)
    columns = ("round", *(f"β[{result.names[place]}]" for place in shown), "J", "loss", "objective")
    rows = tuple(
        (line.round, *(float(line.beta[place]) for place in shown), line.J, line.loss, line.objective)
        for line in result.history
    )
    formats = ("", *(".4f" for _ in shown), ".4f", ".2g", ".4f")
    hidden = len(result.names) - len(shown)
    note = f"and {hidden} smaller weights" if hidden else ""
    return PlainTable("", columns, rows, note, formats)


def write_weights(fit: Fit, folder: Path) -> list[str]:
    """Picture and table of the trajectory; FieldfitError for a fit without automatic weights."""
    from fieldfit.data.atomic import atomic_writer
    from fieldfit.report.figures import make_folder, save_figure
    from fieldfit.types import FieldfitError

    if fit.weights is None or not fit.weights.history:
        raise FieldfitError("This fit has no automatic weights to draw: fit it with --weights auto.")
    make_folder(folder)
    save_figure(fit.weights.plot(), folder, "weights")
    with atomic_writer(folder / "weights.csv") as file:
        file.write(fit.weights.table().to_csv(index=False).encode())
    return [str(folder / name) for name in _FILES]
