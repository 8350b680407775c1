"""Seconds from text to a tagger with a given F1: CRF++'s template on CoNLL-2000, σ² = 1, features that occur three times.

    python benchmarks/time_to_score.py [--sentences N] [--layout all|observed] [--skip-peer]

fieldfit by stochastic gradients and by L-BFGS, CRFsuite by each of its algorithms (with its default settings, and c2 = 1/2
where there is one), each in a process of its own. Seconds begin with reading the file and include encoding (or appending
the sentences) and training. F1 is that of the test sentences; no algorithm sees them, and tagging is outside the clock.
fieldfit is scored after each iteration of one fit. CRFsuite has no such hook: it is trained anew for each number of
iterations, and the seconds of a line are those of that run. The last line of each algorithm is the run to its own end, or
to the largest number of iterations given here. Needs FIELDFIT_DATA and, for the peer, python-crfsuite.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

from chain_corpora import SIGMA2, corpus, crfsuite_like, each_sentence, items, learn, training_text
from measure import child

import fieldfit as ff
from fieldfit.data.chunks import chunk_scores
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText
from fieldfit.estimators.sequence_input import split_sentences
from fieldfit.types import FloatArray

NAME = "template"
#: F1 below the last one at which a tagger counts as good.
NEAR = 0.1
#: Iterations (epochs) of CRFsuite's algorithms, each a run of its own.
PEER_RUNS = {"lbfgs": (80, 100), "l2sgd": (20, 40), "ap": (5, 20), "arow": (10, 20)}
OWN_ITERATIONS = {"sgd": 100, "lbfgs": 140}


def f1_of(encoder: ColumnEncoder, test: ColumnText, predicted: list[list[str]]) -> float:
    return 100 * chunk_scores(test.sentences(encoder.label_column), predicted).f1


def run_own(method: str, layout: str, sentences: int | None, threads: int) -> dict[str, Any]:
    """fieldfit: wall and CPU seconds and F1 after each iteration."""
    ff.set_threads(threads)
    encoder, _, test = corpus(NAME, sentences)  # also loads modules
    fit_model, stop_by = ff.fit, ff.EarlyStopping
    wall, cpu = time.perf_counter(), time.process_time()
    encoder, data = learn(NAME, training_text(NAME, sentences))
    model = crfsuite_like(data, layout)
    encoded, names = encoder.encode(test), [str(label) for label in encoder.labels]
    lines: list[tuple[int, float, float, float]] = []

    def score(theta: FloatArray) -> float:
        nonlocal wall, cpu
        at_wall, at_cpu = time.perf_counter(), time.process_time()
        codes = model.predict(theta, encoded).tolist()
        f1 = f1_of(encoder, test, split_sentences([names[code] for code in codes], encoded.offsets))
        lines.append((len(lines), at_wall - wall, at_cpu - cpu, f1))
        wall += time.perf_counter() - at_wall
        cpu += time.process_time() - at_cpu
        return f1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_model(
            model,
            data,
            "FL",
            sigma2=SIGMA2,
            method=method,  # type: ignore[arg-type]
            max_iter=OWN_ITERATIONS[method],
            tol=1e-4,
            stopping=stop_by(score, patience=10_000),
        )
    return {"lines": lines}


def run_peer(algorithm: str, layout: str, sentences: int | None, iterations: int) -> dict[str, Any]:
    """CRFsuite: CPU and wall seconds and F1 after a number of iterations."""
    import pycrfsuite

    encoder, _, test = corpus(NAME, sentences)
    wall, cpu = time.perf_counter(), time.process_time()
    encoder, data = learn(NAME, training_text(NAME, sentences))
    labels = [str(label) for label in encoder.labels]
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for sentence, (first, last) in zip(each_sentence(data), pairwise(data.offsets.tolist()), strict=True):
        trainer.append(sentence, [labels[y] for y in data.labels[first:last].tolist()])
    every = layout == "all"
    trainer.set_params(
        {"max_iterations": iterations, "feature.possible_states": every, "feature.possible_transitions": every}
    )
    if "c2" in trainer.params():
        trainer.set("c2", 1 / (2 * SIGMA2))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        predicted = [tagger.tag(sentence) for sentence in items(encoder.encode(test))]
        tagger.close()
    return {"line": (len(trainer.logparser.iterations), wall, cpu, f1_of(encoder, test, predicted))}


def told(who: str, lines: list[tuple[int, float, float, float]], unit: str) -> None:
    """The first line that is near the last one and stays there, the first with F1 93.7, and the last."""
    final = lines[-1][3]
    stays = next(i for i in range(len(lines)) if all(f1 >= final - NEAR for *_, f1 in lines[i:]))
    good = next((i for i, line in enumerate(lines) if line[3] >= 93.7), None)
    for title, place in ((f"within {NEAR} of its end", stays), ("F1 of 93.7", good), ("its end", len(lines) - 1)):
        if place is None:
            print(f"{who:24s} {title:22s} not reached")
            continue
        count, wall, cpu, f1 = lines[place]
        print(f"{who:24s} {title:22s} {wall:6.1f} s (CPU {cpu:6.1f} s), F1 {f1:.2f}, {count} {unit}")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        who, method, layout, sentences, number = sys.argv[2:]
        run = run_own if who == "own" else run_peer
        print(json.dumps(run(method, layout, int(sentences) or None, int(number))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=0, help="use the first N training sentences (all)")
    parser.add_argument("--layout", choices=["all", "observed"], default="all", help="pairs of feature and label")
    parser.add_argument("--skip-peer", action="store_true", help="fieldfit only")
    options = parser.parse_args()
    common = options.layout, str(options.sentences)
    for method, unit in (("sgd", "epochs"), ("lbfgs", "iterations")):
        for threads in (1, 2):
            ours = child(__file__, "own", method, *common, str(threads))
            told(f"fieldfit {method}, {threads} thread{'s' * (threads > 1)}", ours["lines"], unit)
    for algorithm, runs in PEER_RUNS.items():
        if options.skip_peer:
            break
        lines = [child(__file__, "peer", algorithm, *common, str(count))["line"] for count in runs]
        told(f"CRFsuite {algorithm}", lines, "iterations" if algorithm == "lbfgs" else "epochs")


if __name__ == "__main__":
    main()
