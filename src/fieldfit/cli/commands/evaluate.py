"""`fieldfit evaluate MODEL.ff FILE`: accuracy, and precision, recall and F1 of chunks, against the labels of a file."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.chains import SavedTagger, SentenceFile, SeparatorOption, load_labeller, read_for
from fieldfit.cli.options import Json, Threads, limit_threads

if TYPE_CHECKING:
    from fieldfit.data.scores import Scores
    from fieldfit.types import Plain


class Unit(StrEnum):
    """What is counted."""

    auto = "auto"
    chunk = "chunk"
    label = "label"


def evaluate(
    path: SavedTagger,
    file: SentenceFile,
    by: Annotated[
        Unit,
        typer.Option(
            "--by", help="Score chunks as conlleval does, or labels. auto: chunks if labels start with B- or I-."
        ),
    ] = Unit.auto,
    separator: SeparatorOption = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Score a saved tagger on a labelled file. Labels that do not occur in training count as wrong."""
    from fieldfit.cli.output import note, print_json, say
    from fieldfit.data.chunks import chunk_scores
    from fieldfit.data.label_scores import label_scores
    from fieldfit.estimators.sequence_input import gold_labels
    from fieldfit.types import DataError

    limit_threads(threads)
    tagger = load_labeller(path)
    text = read_for(tagger.encoder_, file, separator)
    gold = gold_labels(tagger.encoder_, text, None)
    if any(label is None for labels in gold for label in labels):
        raise DataError(f"{file} has tokens without a label, so there is nothing to compare their predictions with.")
    predicted = tagger.predict(text)
    unknown = sorted({str(label) for labels in gold for label in labels if label not in tagger.encoder_.labels})
    chunks = any(str(label).startswith(("B-", "I-")) for labels in gold for label in labels)
    counted_by_chunk = by is Unit.chunk or (by is Unit.auto and chunks)
    scores = chunk_scores(gold, predicted) if counted_by_chunk else label_scores(gold, predicted)
    if json:
        print_json(_document(scores, unknown))
        return
    say(scores.table())
    if unknown:
        shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
        note(f"labels that do not occur in training, which count as wrong: {shown}")


def _document(scores: Scores, unknown: list[str]) -> Plain:
    total = {name: getattr(scores, name) for name in ("accuracy", "precision", "recall", "f1")}
    frame = scores.to_frame()
    return {
        "unit": scores.unit,
        "tokens": scores.n_tokens,
        **total,
        "each": {str(name): row for name, row in frame.iloc[:-1].to_dict("index").items()},
        "unknown_labels": unknown,
    }
