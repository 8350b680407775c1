"""`fieldfit predict MODEL.ff FILE`: the labels of sentences, as one more column."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.chains import SavedTagger, SentenceFile, SeparatorOption, load_labeller, read_for, sentence_lines
from fieldfit.cli.options import Json, Out, Threads, limit_threads
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.estimators.fitted_tagger import FittedTagger
    from fieldfit.estimators.symbol_tagger import SymbolTagger
    from fieldfit.types import Plain


class Decoding(StrEnum):
    """How labels are chosen."""

    viterbi = "viterbi"
    posterior = "posterior"


def predict(
    path: SavedTagger,
    file: SentenceFile,
    decoding: Annotated[
        Decoding, typer.Option("--decoding", help="Find the best sequence, or the best label of each token.")
    ] = Decoding.viterbi,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Also write the probability of each predicted label.")
    ] = False,
    nbest: Annotated[
        int | None,
        typer.Option(
            "--nbest", min=1, metavar="K", help="Write the K best sequences with log p(y | x). Default: the best one."
        ),
    ] = None,
    separator: SeparatorOption = None,
    threads: Threads = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Tag sentences: the predicted label becomes the last column."""
    from fieldfit.cli.output import note, print_json
    from fieldfit.cli.saving import check_target
    from fieldfit.data.atomic import atomic_writer
    from fieldfit.types import FieldfitError

    limit_threads(threads)
    check_target(out, path, file)
    if nbest is not None and (marginals or decoding is Decoding.posterior):
        raise FieldfitError("--nbest gives whole sequences: it cannot go with --marginals or --decoding posterior.")
    tagger = load_labeller(path)
    text = read_for(tagger.encoder_, file, separator)
    sentences = (
        _nbest(tagger, text, nbest) if nbest is not None else _tagged(tagger, text, decoding.value, marginals, json)
    )
    if out is not None:
        with atomic_writer(out) as target:
            target.write(_columns(sentence_lines(text), sentences).encode())
    if json:
        document: Plain = {"labels": tagger.classes_, "sentences": sentences}
        print_json(document | {"file": None if out is None else str(out)})
    elif out is None:
        typer.echo(_columns(sentence_lines(text), sentences), nl=False)
    else:
        note(f"{counted(len(sentences), 'sentences')}; written to {out}")


def _tagged(
    tagger: FittedTagger | SymbolTagger, text: object, decoding: str, marginals: bool, all_of_them: bool
) -> list[Plain]:
    predicted = tagger.predict(text, decoding=decoding)
    if not marginals:
        return [{"predicted": labels} for labels in predicted]
    code = {label: place for place, label in enumerate(tagger.classes_)}
    sentences = []
    for labels, table in zip(predicted, tagger.predict_proba(text), strict=True):
        chosen = [float(row[code[label]]) for row, label in zip(table, labels, strict=True)]
        sentence: Plain = {"predicted": labels, "probability": chosen}
        sentences.append(sentence | {"marginals": table} if all_of_them else sentence)
    return sentences


def _nbest(tagger: FittedTagger | SymbolTagger, text: object, count: int) -> list[Plain]:
    return [
        {"paths": [{"predicted": labels, "log_probability": value} for labels, value in paths]}
        for paths in tagger.predict_nbest(text, count)
    ]


def _columns(lines: list[list[list[str]]], sentences: list[Plain]) -> str:
    """CoNLL-style columns, a blank line after each sentence; n best paths are one column each, best first."""
    parts = []
    for tokens, sentence in zip(lines, sentences, strict=True):
        paths = sentence.get("paths", [sentence])
        if "paths" in sentence:
            values = " ".join(f"{path['log_probability']:.6f}" for path in paths)
            parts.append(f"# log p: {values}\n")
        for place, columns in enumerate(tokens):
            labels = [str(path["predicted"][place]) for path in paths]
            chance = [f"{sentence['probability'][place]:.6f}"] if "probability" in sentence else []
            parts.append("\t".join([*columns, *labels, *chance]) + "\n")
        parts.append("\n")
    return "".join(parts)
