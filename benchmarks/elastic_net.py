"""Elastic net on chains (c1 = c2 = 0.1) against CRFsuite's OWL-QN, to its objective after 60 iterations, one thread.

    python benchmarks/elastic_net.py [--sentences N] [--only conll|template|ewt]

CPU seconds of training alone; both in processes of their own. Memory is the peak above each program's own sentences. Needs
FIELDFIT_DATA and python-crfsuite.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

from chain_corpora import TITLES, corpus, crfsuite_like, crfsuite_trainer, learn, training_text
from fit_memory import warm_up
from measure import child, forget_peak, memory

import fieldfit as ff
from fieldfit.optim.solution import Progress

C1, C2, ITERATIONS = 0.1, 0.1, 60
RUNS = ("template", "ewt")


def peer(name: str, sentences: int | None) -> dict[str, float]:
    encoder, data, _ = corpus(name, sentences)
    before = forget_peak()
    trainer = crfsuite_trainer(data, [str(label) for label in encoder.labels], "observed", ITERATIONS)
    trainer.set_params({"c1": C1, "c2": C2})
    appended = forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        trainer.train(str(Path(folder) / "model"))
        seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "loss": float(trainer.logparser.iterations[-1]["loss"]),
        "sentences": appended - before,
        "memory": memory()[1] - appended,
    }


def own(name: str, sentences: int | None, target: float) -> dict[str, float]:
    ff.set_threads(1)
    warm_up(l1=C1)
    empty = forget_peak()
    data = learn(name, training_text(name, sentences))[1]
    before = forget_peak()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = crfsuite_like(data, "observed")
        start, values = time.process_time(), []

        def reached(state: Progress) -> bool:
            values.append(state.value)
            return state.value <= target

        ff.fit(model, data, "FL", sigma2=1 / (2 * C2), l1=C1, max_iter=10 * ITERATIONS, tol=1e-9, progress=reached)
    return {
        "seconds": time.process_time() - start,
        "loss": values[-1],
        "steps": len(values) - 1,
        "sentences": before - empty,
        "memory": memory()[1] - before,
    }


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        who, name, sentences, *rest = sys.argv[2:]
        count = int(sentences) or None
        print(json.dumps(peer(name, count) if who == "peer" else own(name, count, float(rest[0]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    parser.add_argument("--only", choices=["conll", *RUNS], default=None)
    options = parser.parse_args()
    for name in RUNS if options.only is None else (options.only,):
        theirs = child(__file__, "peer", name, str(options.sentences or 0))
        ours = child(__file__, "own", name, str(options.sentences or 0), repr(theirs["loss"]))
        print(
            f"{TITLES[name]}: CRFsuite {theirs['seconds']:.1f} s to {theirs['loss']:.1f}, {theirs['memory']:.1f} MB above "
            f"{theirs['sentences']:.1f} MB of sentences; fieldfit {ours['seconds']:.1f} s to {ours['loss']:.1f} "
            f"({ours['steps']} steps), {ours['memory']:.1f} MB above {ours['sentences']:.1f} MB: "
            f"ratio {theirs['seconds'] / ours['seconds']:.2f}, of memory ratio {theirs['memory'] / ours['memory']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
