"""What the commands for chains share: reading files of sentences, and the tagger in a saved fit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fieldfit.data.attributes import AttributeText
    from fieldfit.data.columns import ColumnText
    from fieldfit.data.encoders import Encoder
    from fieldfit.estimators.crf_tagger import CRFTagger


class Format(StrEnum):
    """Formats of files of sentences."""

    columns = "columns"
    crfsuite = "crfsuite"


SentenceFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="One token a line, a blank line between sentences (gzip too).")
]
SavedTagger = Annotated[Path, typer.Argument(metavar="MODEL.ff", help="A tagger saved by fit crf.")]
SeparatorOption = Annotated[
    str | None, typer.Option("--separator", metavar="TEXT", help="Between columns (any run of spaces and tabs).")
]


def read_sentences(path: Path, kind: Format, separator: str | None) -> ColumnText | AttributeText:
    """A file of sentences; a line that does not fit is refused with its number."""
    from fieldfit.data.columns import read_columns
    from fieldfit.data.crfsuite_text import read_crfsuite

    if kind is Format.crfsuite:
        return read_crfsuite(path)
    return read_columns(path, separator=None if separator is None else separator.replace("\\t", "\t"))


def read_for(encoder: Encoder, path: Path, separator: str | None) -> ColumnText | AttributeText:
    """A file in the format that a saved tagger was trained on."""
    from fieldfit.data.attribute_encoder import AttributeEncoder

    kind = Format.crfsuite if isinstance(encoder, AttributeEncoder) else Format.columns
    return read_sentences(path, kind, separator)


def load_tagger(path: Path) -> CRFTagger:
    """The tagger in a file."""
    from fieldfit.estimators.crf_tagger import CRFTagger

    return CRFTagger.load(path)


def sentence_lines(text: Any) -> list[list[list[str]]]:
    """The columns of each token, sentence by sentence, to be printed beside its prediction."""
    from itertools import pairwise

    from fieldfit.data.columns import ColumnText

    if isinstance(text, ColumnText):
        columns = [text.column(column) for column in range(text.n_columns)]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return [rows[a:b] for a, b in pairwise(text.offsets.tolist())]
    bounds = text.rows.offsets.tolist()
    return [[[label or "-"] for label in text.labels[a:b]] for a, b in pairwise(bounds)]
