"""What the commands for chains share: reading files of sentences, and the tagger in a saved fit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fieldfit.data.attributes import AttributeText
    from fieldfit.data.columns import ColumnText
    from fieldfit.data.encoders import Encoder
    from fieldfit.estimators.crf_tagger import CRFTagger
    from fieldfit.estimators.fitted_tagger import FittedTagger
    from fieldfit.estimators.symbol_tagger import SymbolTagger


class Format(StrEnum):
    """Formats of files of sentences."""

    columns = "columns"
    crfsuite = "crfsuite"


SentenceFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="One token per line and a blank line between sentences; plain or gzip.")
]
LabelledFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="One token per line with its label last, and a blank line between sentences."
    ),
]
SavedTagger = Annotated[
    Path, typer.Argument(metavar="MODEL.ff", help="A tagger saved by fit crf or fit boltzmann-chain.")
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="TEXT", help="Separator of the columns of sentences. Default: spaces and tabs."
    ),
]


def read_sentences(path: Path, kind: Format, separator: str | None) -> ColumnText | AttributeText:
    """A file of sentences; a line that does not fit is refused with its number."""
    from fieldfit.data.columns import read_columns
    from fieldfit.data.crfsuite_text import read_crfsuite

    if kind is Format.crfsuite:
        return read_crfsuite(path)
    return read_columns(path, separator=as_separator(separator))


def as_separator(text: str | None) -> str | None:
    """--separator, with a tab for its escape sequence."""
    return None if text is None else text.replace("\\t", "\t")


def read_for(encoder: Encoder, path: Path, separator: str | None) -> ColumnText | AttributeText:
    """A file in the format that a saved tagger was trained on; one without tokens is refused."""
    from fieldfit.data.attribute_encoder import AttributeEncoder
    from fieldfit.types import DataError

    kind = Format.crfsuite if isinstance(encoder, AttributeEncoder) else Format.columns
    text = read_sentences(path, kind, separator)
    if not len(text.lines):
        raise DataError(f"{path} is empty: it has no tokens. Give a file with one token per line.")
    return text


def load_tagger(path: Path) -> CRFTagger:
    """The CRF in a file."""
    from fieldfit.estimators.crf_tagger import CRFTagger

    return CRFTagger.load(path)


def load_labeller(path: Path) -> FittedTagger | SymbolTagger:
    """What labels sentences in a file: a CRF, or a Boltzmann chain that was trained on columns."""
    from fieldfit.steps import waiting

    with waiting(f"loading {path.name}"):
        from fieldfit.api.files import load
        from fieldfit.estimators.fitted_tagger import FittedTagger
        from fieldfit.estimators.symbol_tagger import SymbolTagger
        from fieldfit.types import ModelError

        fitted = load(path)
    if fitted.model.symbol_chain is not None:
        return SymbolTagger(fitted)
    if fitted.encoder is None:
        raise ModelError(
            f"{path} is a fit of the kind {fitted.model.kind!r:.80}, which cannot label sentences. Give a file saved by "
            f"fieldfit fit crf or fieldfit fit boltzmann-chain."
        )
    return FittedTagger(fitted, fitted.encoder)


def as_sigma2(text: str) -> str | float | list[float] | None:
    """--sigma2: None for none, "cv", a number, or a list of numbers to choose from."""
    from fieldfit.cli.values import numbers_from_text

    if text in ("none", "cv"):
        return None if text == "none" else text
    numbers = numbers_from_text(text, "--sigma2")
    return numbers if len(numbers) > 1 else numbers[0]


def sentence_lines(text: ColumnText | AttributeText) -> list[list[list[str]]]:
    """The columns of each token, sentence by sentence, to be printed beside its prediction."""
    from itertools import pairwise

    from fieldfit.data.columns import ColumnText

    if isinstance(text, ColumnText):
        columns = [text.column(column) for column in range(text.n_columns)]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return [rows[a:b] for a, b in pairwise(text.offsets.tolist())]
    bounds = text.rows.offsets.tolist()
    return [[[label or "-"] for label in text.labels[a:b]] for a, b in pairwise(bounds)]
