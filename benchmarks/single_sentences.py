"""Latency of one sentence, as services see it: features in, labels out, p50 and p99, beside python-crfsuite.

    python benchmarks/single_sentences.py [--sentences N]

Both were trained on the same CoNLL-2000 sentences and tag the test sentences one by one, in turns of 50: with the names of
seven attributes for each token, as lists and as dictionaries, and with dictionaries as users write them (words, suffixes,
flags and neighbours, about 20 values for each token). Needs FIELDFIT_DATA and python-crfsuite.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from chain_corpora import SIGMA2, by_sentence, corpus, items, training_text

import fieldfit as ff
from fieldfit.data.columns import ColumnText

TURN = 50
Sentence = list[Any]


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


def trained(X: list[Sentence], y: list[list[str]], file: Path) -> dict[str, Callable[[Sentence], object]]:
    """Both taggers of one sentence, after 15 iterations."""
    import pycrfsuite

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger = ff.CRFTagger(sigma2=SIGMA2, crfsuite_compatible=True, max_iter=15).fit(X, y)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    trainer.set_params({"c2": 1 / (2 * SIGMA2), "max_iterations": 15})
    trainer.train(str(file))
    peer = pycrfsuite.Tagger()
    peer.open(str(file))
    return {"fieldfit": lambda sentence: tagger.predict([sentence])[0], "CRFsuite": peer.tag}


def race(kind: str, ways: dict[str, Callable[[Sentence], object]], sentences: list[Sentence]) -> None:
    """Print the latencies of both."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for first, last in pairwise(range(0, len(sentences) + 1, TURN)):
        for name, tag in ways.items():
            for sentence in sentences[first:last]:
                start = time.perf_counter()
                tag(sentence)
                seconds[name].append(time.perf_counter() - start)
    ours, theirs = (np.percentile(seconds[name], [50, 99]) * 1e6 for name in ways)
    print(
        f"{kind}: fieldfit p50 {ours[0]:.0f} µs, p99 {ours[1]:.0f} µs; CRFsuite p50 {theirs[0]:.0f} µs, p99 "
        f"{theirs[1]:.0f} µs; ratio p50 {theirs[0] / ours[0]:.2f}, p99 {theirs[1] / ours[1]:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000, help="training sentences (2000)")
    options = parser.parse_args()
    encoder, data, test = corpus("conll", options.sentences)
    names = [str(label) for label in encoder.labels]
    y = by_sentence([names[code] for code in data.labels.tolist()], data.offsets)
    given = items(encoder.encode(test))
    with tempfile.TemporaryDirectory() as folder:
        ways = trained(items(data), y, Path(folder) / "names")
        race("lists", ways, given)
        race("dicts", ways, [[dict.fromkeys(token, 1.0) for token in sentence] for sentence in given])
        ways = trained(word_features(training_text("conll", options.sentences)), y, Path(folder) / "words")
        race("dicts of words, suffixes, flags and neighbours", ways, word_features(test))


if __name__ == "__main__":
    main()
