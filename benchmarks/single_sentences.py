"""Latency of one sentence, as services see it: p50 and p99, beside python-crfsuite.

    python benchmarks/single_sentences.py [--sentences N] [--test N]

Both were trained on the same CoNLL-2000 sentences and tag test sentences one by one, in turns of 50. The time of a sentence
is the shortest of three passes over all of them, so that other programs on the machine hardly count. Tokens are lists of
seven names of attributes, dictionaries of them, or dictionaries as users write them (words, suffixes, flags and neighbours,
about 20 values for each token). With presets and templates, fieldfit has rows of words and tags, and CRFsuite has the same
features: first made in Python within its time ("rows"), then ready before it. Needs FIELDFIT_DATA and python-crfsuite.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from chain_corpora import SIGMA2, TEMPLATE, by_sentence, corpus, items, training_text

import fieldfit as ff
from fieldfit.data.columns import ColumnText
from fieldfit.data.templates import FeatureSpec
from fieldfit.estimators.sequence_input import feature_spec

TURN = 50
PASSES = 3
TEMPLATES = {"columns": "columns", "tagger": "tagger", "chunker": "chunker", "CRF++ template": TEMPLATE}
Sentence = list[Any]
Ways = dict[str, Callable[[Sentence], object]]


def word_features(text: ColumnText) -> list[Sentence]:
    """Dictionaries of each token's word, its parts and flags, its tag, and the same of its neighbours."""
    words, tags = (
        by_sentence([text.values[column][code] for code in text.codes[column].tolist()], text.offsets)
        for column in (0, 1)
    )
    return [
        [_of_token(line, marks, place) for place in range(len(line))] for line, marks in zip(words, tags, strict=True)
    ]


def _of_token(words: list[str], tags: list[str], place: int) -> dict[str, str | bool | float]:
    word = words[place]
    found: dict[str, str | bool | float] = {
        "bias": 1.0,
        "word.lower": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word[:3]": word[:3],
        "word.isupper": word.isupper(),
        "word.istitle": word.istitle(),
        "word.isdigit": word.isdigit(),
        "tag": tags[place],
        "tag[:2]": tags[place][:2],
    }
    for offset in (-1, 1):
        other = place + offset
        if 0 <= other < len(words):
            found |= {
                f"{offset:+d}:word.lower": words[other].lower(),
                f"{offset:+d}:word.istitle": words[other].istitle(),
                f"{offset:+d}:word.isupper": words[other].isupper(),
                f"{offset:+d}:tag": tags[other],
                f"{offset:+d}:tag[:2]": tags[other][:2],
            }
        else:
            found["BOS" if offset < 0 else "EOS"] = True
    return found


def rows_of(text: ColumnText, width: int) -> list[Sentence]:
    """Sentences of words (one column) or of tuples of columns."""
    columns = [text.sentences(column) for column in range(width)]
    if width == 1:
        return list(columns[0])
    return [list(zip(*parts, strict=True)) for parts in zip(*columns, strict=True)]


def shape(word: str) -> str:
    """The shape of a word as fieldfit defines it."""
    marks = ["d" if c.isdigit() else ("X" if c.isupper() else "x") if c.isalpha() else c for c in word]
    return "".join(mark for i, mark in enumerate(marks) if i < 2 or not mark == marks[i - 1] == marks[i - 2])


def expander(spec: FeatureSpec) -> Callable[[Sentence], Sentence]:
    """A function that makes the features of the templates in Python, as users of CRFsuite do."""
    sources = sorted({(cell.column, cell.derivation) for template in spec.states for cell in template.cells})
    made: list[Callable[[str], str | None]] = []
    for _, derivation in sources:
        length = int(derivation[6:]) if derivation[:6] in ("prefix", "suffix") else 0
        if derivation == "lower":
            made.append(str.lower)
        elif derivation == "shape":
            made.append(shape)
        elif derivation.startswith("prefix"):
            made.append(lambda word, n=length: word[:n] if len(word) >= n else None)  # type: ignore[misc]
        elif derivation.startswith("suffix"):
            made.append(lambda word, n=length: word[-n:] if len(word) >= n else None)  # type: ignore[misc]
        else:
            made.append(str)
    reach = spec.reach
    before = [f"_B-{step}" for step in range(reach, 0, -1)]
    after = [f"_B+{step}" for step in range(1, reach + 1)]
    plans = [
        (
            template.pieces,
            [(sources.index((cell.column, cell.derivation)), cell.row + reach) for cell in template.cells],
        )
        for template in spec.states
    ]

    def expand(sentence: Sentence) -> Sentence:
        rows = [(token,) for token in sentence] if isinstance(sentence[0], str) else sentence
        read = [
            [*before, *(make(row[column]) for row in rows), *after]
            for (column, _), make in zip(sources, made, strict=True)
        ]
        tokens = []
        for place in range(len(rows)):
            names = []
            for pieces, cells in plans:
                name = pieces[0]
                for (source, step), piece in zip(cells, pieces[1:], strict=True):
                    value = read[source][place + step]
                    if value is None:
                        break
                    name += value + piece
                else:
                    names.append(name)
            tokens.append(names)
        return tokens

    return expand


def train_peer(X: list[Sentence], y: list[list[str]], file: Path) -> Callable[[Sentence], object]:
    """CRFsuite's tagger of one sentence, after 15 iterations."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    trainer.set_params({"c2": 1 / (2 * SIGMA2), "max_iterations": 15})
    trainer.train(str(file))
    peer = pycrfsuite.Tagger()
    peer.open(str(file))
    tag: Callable[[Sentence], object] = peer.tag
    return tag


def train_ours(X: list[Sentence], y: list[list[str]], features: str | None = None) -> ff.CRFTagger:
    """fieldfit's tagger, after 15 iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ff.CRFTagger(sigma2=SIGMA2, crfsuite_compatible=True, features=features, max_iter=15).fit(X, y)


def race(
    kind: str,
    ways: dict[str, Callable[[Sentence], object]],
    ours: list[Sentence],
    theirs: list[Sentence] | None = None,
) -> None:
    """Print the latencies of fieldfit and CRFsuite, with the same sentences or with sentences of their own."""
    given = dict(zip(ways, (ours, ours if theirs is None else theirs), strict=True))
    seconds = {name: np.full(len(ours), np.inf) for name in ways}
    for _ in range(PASSES):
        for first in range(0, len(ours), TURN):
            for name, tag in ways.items():
                for place, sentence in enumerate(given[name][first : first + TURN], start=first):
                    start = time.perf_counter()
                    tag(sentence)
                    seconds[name][place] = min(seconds[name][place], time.perf_counter() - start)
    (p50, p99), (peer50, peer99) = (np.percentile(seconds[name], [50, 99]) * 1e6 for name in ways)
    print(
        f"{kind}: fieldfit p50 {p50:.0f} µs, p99 {p99:.0f} µs; CRFsuite p50 {peer50:.0f} µs, p99 {peer99:.0f} µs; "
        f"ratio p50 {peer50 / p50:.2f}, p99 {peer99 / p99:.2f}",
        flush=True,
    )


def race_templates(
    kind: str, features: str, train: ColumnText, test: ColumnText, count: int, y: list[list[str]], file: Path
) -> None:
    """Rows against the same features made in Python, and against ready features."""
    spec = feature_spec(features, train.n_columns)
    width = max(spec.columns) + 1
    rows, test_rows = rows_of(train, width), rows_of(test, width)[:count]
    ours = train_ours(rows, y, features)
    expand = expander(spec)
    expanded = [expand(sentence) for sentence in rows]
    if set(ours.encoder_.feature_names()) != {name for sentence in expanded for token in sentence for name in token}:
        raise AssertionError(f"{kind}: the features made in Python are not those of fieldfit")
    tag = train_peer(expanded, y, file)
    ways: Ways = {"fieldfit": ours.predict_single, "CRFsuite": lambda sentence: tag(expand(sentence))}
    race(f"{kind}, rows", ways, test_rows)
    race(f"{kind}, CRFsuite has ready features", ways | {"CRFsuite": tag}, test_rows, [expand(s) for s in test_rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000, help="training sentences (2000)")
    parser.add_argument("--test", type=int, default=1000, help="test sentences (1000)")
    options = parser.parse_args()
    encoder, data, test = corpus("conll", options.sentences)
    names = [str(label) for label in encoder.labels]
    y = by_sentence([names[code] for code in data.labels.tolist()], data.offsets)
    given = items(encoder.encode(test))[: options.test]
    with tempfile.TemporaryDirectory() as folder:
        X = items(data)
        ways: Ways = {
            "fieldfit": train_ours(X, y).predict_single,
            "CRFsuite": train_peer(X, y, Path(folder) / "names"),
        }
        race("lists", ways, given)
        race("dicts", ways, [[dict.fromkeys(token, 1.0) for token in sentence] for sentence in given])
        train = training_text("conll", options.sentences)
        X = word_features(train)
        ways = {"fieldfit": train_ours(X, y).predict_single, "CRFsuite": train_peer(X, y, Path(folder) / "words")}
        race("dicts of words, suffixes, flags and neighbours", ways, word_features(test)[: options.test])
        for kind, features in TEMPLATES.items():
            race_templates(kind, features, train, test, options.test, y, Path(folder) / "templates")


if __name__ == "__main__":
    main()
