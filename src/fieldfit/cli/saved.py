"""What the commands on saved fits share: the fit with the samples that it was made from, and tables of frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, SupportsFloat

import typer

from fieldfit.cli.chains import SeparatorOption
from fieldfit.cli.options import GroupsOption, HeaderOption, KindOfWeight, SampleWeight, WeightKind

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldfit.api.result import Fit
    from fieldfit.data.dataset import Dataset
    from fieldfit.proteins import FamilyFit
    from fieldfit.report.table import PlainTable
    from fieldfit.types import Plain

FittedData = Annotated[Path, typer.Argument(metavar="DATA", help="Data of the fit: a table, or a file of sentences.")]
ParameterOption = Annotated[
    list[str] | None,
    typer.Option("--parameter", metavar="NAME", help="Parameter (may be repeated). Default: all."),
]


@dataclass(frozen=True)
class SampleOptions:
    """How the samples of a saved fit are read."""

    sample_weight: SampleWeight = None
    weight_kind: KindOfWeight = WeightKind.importance
    groups: GroupsOption = None
    header: HeaderOption = None
    separator: SeparatorOption = None
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="COLUMN",
            help="For a fit of `fit graph`: column of DATA with the labels. Default: none.",
        ),
    ] = None


def read_samples(fit: Fit, path: Path, options: SampleOptions) -> Dataset:
    """The samples of a file as the fit's model takes them."""
    if options.label is not None:
        from fieldfit.cli.graphs import read_labels

        return read_labels(fit.model.as_field("--label"), path, options.label)
    family = family_of(fit, path)
    if family is not None:
        return family.fit.needed.dataset
    if fit.encoder is None:
        from fieldfit.types import DataError

        try:
            return fit.model.read_file(
                path,
                sample_weight=options.sample_weight,
                weight_kind=options.weight_kind.value,
                groups=options.groups,
                header=options.header,
            )
        except DataError as error:
            if fit.model.kind != "tied":
                raise
            raise DataError(
                f"{error} For a file of nodes, name the column with the labels: --label COLUMN."
            ) from error
    from fieldfit.cli.chains import read_for
    from fieldfit.estimators.sequence_input import encode_sequences

    return encode_sequences(fit.encoder, read_for(fit.encoder, path, options.separator))


def family_of(fit: Fit, path: Path) -> FamilyFit | None:
    """A fit of a family with its alignment; None for other models, and for a table."""
    if fit.alignment is None:
        return None
    from fieldfit.data.alignments import is_alignment

    if not is_alignment(path):
        return None
    from fieldfit.proteins import load_family

    return load_family(fit, path)


def load_with(path: Path, data: Path, options: SampleOptions) -> Fit:
    """A saved fit with its samples; other samples than those that were fitted are refused."""
    from fieldfit.api.files import load

    return attached(load(path), data, options)


def attached(fit: Fit, data: Path, options: SampleOptions) -> Fit:
    """A fit with the samples of a file; other samples than those that were fitted are refused."""
    from fieldfit.api.refine import attach

    return attach(fit, read_samples(fit, data, options))


def frame_table(
    frame: pd.DataFrame, formats: dict[str, str], *, index: str, rows: int, title: str = "", note: str = ""
) -> PlainTable:
    """The first rows of a frame with its index as the first column; a column without a format is left out."""
    from fieldfit.report.table import PlainTable

    shown = frame.head(rows)
    columns = [name for name in shown.columns if name in formats]
    lines = tuple(
        (str(name), *(_cell(value) for value in line))
        for name, line in zip(shown.index, shown[columns].itertuples(index=False), strict=True)
    )
    more = len(frame) - len(shown)
    notes = [note] if note else []
    if more > 0:
        notes.append(f"… and {more:,} more (--rows, --json).")
    return PlainTable(title, (index, *columns), lines, " ".join(notes), ("", *(formats[name] for name in columns)))


def _cell(value: str | SupportsFloat | None) -> str | int | float | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return "yes" if value else ""
    return float(value)


def records(frame: pd.DataFrame, index: str) -> list[Plain]:
    """The lines of a frame as dictionaries, for JSON."""
    lines = frame.rename_axis(index).reset_index().to_dict(orient="records")
    return [{str(name): value for name, value in line.items()} for line in lines]


def write_picture(drawing: Figure, frame: pd.DataFrame, folder: Path, name: str) -> list[str]:
    """A picture (png and svg) and its data (csv) in a folder, which is made."""
    from fieldfit.data.atomic import atomic_writer
    from fieldfit.report.figures import make_folder, save_figure

    make_folder(folder)
    written: Sequence[Path] = save_figure(drawing, folder, name)
    table = folder / f"{name}.csv"
    with atomic_writer(table) as file:
        file.write(frame.to_csv().encode())
    return [*map(str, written), str(table)]
