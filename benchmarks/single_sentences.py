"""Latency of one sentence, as services see it: attributes in, labels out, p50 and p99, beside python-crfsuite.

    python benchmarks/single_sentences.py [--sentences N]

Both were trained on the same CoNLL-2000 sentences and tag the test sentences one by one, in turns of 50. Needs
FIELDFIT_DATA and python-crfsuite.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from chain_corpora import SIGMA2, by_sentence, corpus, crfsuite_trainer, items

import fieldfit as ff

TURN = 50


def main() -> None:
    import pycrfsuite

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000, help="training sentences (2000)")
    options = parser.parse_args()
    encoder, data, test = corpus("conll", options.sentences)
    names = [str(label) for label in encoder.labels]
    X, y = items(data), by_sentence([names[code] for code in data.labels.tolist()], data.offsets)
    given = items(encoder.encode(test))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger = ff.CRFTagger(sigma2=SIGMA2, crfsuite_compatible=True, max_iter=15).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        crfsuite_trainer(data, names, "observed", 15).train(str(Path(folder) / "model"))
        peer = pycrfsuite.Tagger()
        peer.open(str(Path(folder) / "model"))
        dicts = [[dict.fromkeys(token, 1.0) for token in sentence] for sentence in given]
        for kind, sentences in (("lists", given), ("dicts", dicts)):
            ways = {
                "fieldfit": lambda sentence: tagger.predict([sentence])[0],
                "CRFsuite": peer.tag,
            }
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
                f"{theirs[1]:.0f} µs; ratio p50 {theirs[0] / ours[0]:.2f}, p99 {theirs[1] / ours[1]:.2f}"
            )
        peer.close()


if __name__ == "__main__":
    main()
