"""`fieldfit shard`: a table or a file of sentences in pieces, for fits on workers or with little memory."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.options import (
    ColumnsOption,
    HeaderOption,
    Json,
    KindOfWeight,
    LeaveOutOption,
    SampleWeight,
    WeightKind,
)
from fieldfit.cli.output import print_json, say
from fieldfit.words import counted


def shard(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="CSV, TSV or Parquet file with one sample per line, a pattern 'DATA/*.csv' of such files, or sentences.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="New folder for the shards.")],
    rows: Annotated[int, typer.Option("--rows", min=1, help="Largest number of rows in a shard.")] = 100_000,
    states: Annotated[
        str | None,
        typer.Option("--states", metavar="S0,S1,…", help="Values of the columns. Default: all values in the file."),
    ] = None,
    columns: ColumnsOption = None,
    leave_out: LeaveOutOption = None,
    sentences: Annotated[
        int | None,
        typer.Option(
            "--sentences",
            min=1,
            metavar="N",
            help="Read sentences (one token per line, a blank line after each), N for each shard. Default: a table.",
        ),
    ] = None,
    header: HeaderOption = None,
    sample_weight: SampleWeight = None,
    weight_kind: KindOfWeight = WeightKind.importance,
    json: Json = False,
) -> None:
    """Divide a table or sentences into shards for fits."""
    if sentences is not None:
        from fieldfit.shards.making_sentences import divide_sentences
        from fieldfit.types import DataError

        if has_magic(str(data)) and not data.exists():
            raise DataError(
                f"{data} is a pattern, and --sentences divides one file. Files of sentences need not be divided: give the "
                "pattern to `fieldfit fit crf`, each file is a shard."
            )
        count, files = divide_sentences(data, out, sentences)
        if json:
            print_json({"folder": str(out), "shards": files, "samples": count})
        else:
            say(f"{counted(count, 'sentences')} in {counted(files, 'files')}: {out}")
        return
    from fieldfit.cli.values import as_list, as_states
    from fieldfit.shards.making import make_shards, table_files

    source = table_files(
        _files(data),
        states=None if states is None else as_states(states),
        columns=as_list(columns),
        leave_out=as_list(leave_out) or (),
        header=header,
        sample_weight=sample_weight,
        weight_kind=weight_kind.value,
    )
    folder = make_shards(source, out, rows)
    if json:
        print_json({"folder": str(out), "shards": len(folder.files), "samples": folder.n, "columns": folder.m})
    else:
        size = f"{counted(folder.n, 'samples')} of {counted(folder.m, 'columns')}"
        say(f"{size} in {counted(len(folder.files), 'shards')}: {out}")


def _files(data: Path) -> list[str]:
    """The file, or those that a pattern matches."""
    from fieldfit.shards.pieces import matching, pattern_of
    from fieldfit.types import DataError

    if data.is_dir():
        raise DataError(f"{data} is a folder. {pattern_of(str(data))}.")
    return matching(str(data)) if has_magic(str(data)) and not data.exists() else [str(data)]
