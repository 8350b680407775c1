"""Where the memory of a chain CRF's fit goes: what each stage adds to the process, and to its peak.

    python benchmarks/fit_memory.py [--sentences N] [--only conll|atis|ewt|fine] [--threads N]

FL, σ² = 1, CRFsuite's model, in a process of its own; megabytes above what the process had after its
imports, before it read anything. Beside that the sizes of the arrays that a fit cannot do without. The peer, in a process
of its own too, gets the sentences from the same codes, one at a time. Needs FIELDFIT_DATA, python-crfsuite and Linux.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings

import numpy as np
from chain_corpora import SIGMA2, TITLES, corpus, crfsuite_like, crfsuite_trainer, learn, plain, training_text
from measure import child, forget_peak, memory

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.optim.memory import Memory
from fieldfit.threads import one_blas_thread
from fieldfit.types import ConvergenceWarning

RUNS = (
    ("conll", "observed", None),
    ("conll", "all", None),
    ("atis", "observed", None),
    ("ewt", "observed", None),
    ("fine", "observed", 2_000),
)


def warm_up(l1: float | None = None) -> None:
    """A fit of two tokens: modules, and the threads' stacks, are not what is measured."""
    data = Sequences(
        np.array([0, 2]), np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32), None, np.array([0, 1]), 2, 2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ff.fit(crfsuite_like(data, "observed"), data, "FL", sigma2=SIGMA2, l1=l1, max_iter=2)
    with one_blas_thread():
        np.ones((64, 64)) @ np.ones((64, 64))


def own(name: str, layout: str, sentences: int | None) -> dict[str, object]:
    warm_up()
    base = forget_peak()
    stages: list[tuple[str, float, float]] = []

    def stage(title: str) -> None:
        peak = memory()[1] - base
        stages.append((title, forget_peak() - base, peak))

    text = training_text(name, sentences)
    stage("the text, read")
    encoder, data = learn(name, text)
    stage("the sentences, encoded")
    del text, encoder
    stage("the same without text and encoder")
    model = crfsuite_like(data, layout)
    stage("the pairs seen")
    problem = ChainProblem(model.layout, data, plain(0))
    problem.tokens  # noqa: B018, compiled now
    stage("compiled: features by token")
    problem.value_grad(np.zeros(model.n_parameters))
    stage("after one evaluation")
    del problem
    stage("without them again")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = ff.fit(model, data, "FL", sigma2=SIGMA2, tol=1e-12, max_iter=15)
    stage("after a fit")
    # Six pairs, and five vectors: two points, their gradients and the direction.
    pairs = Memory(model.n_parameters, 6, None)
    vectors = (pairs.steps.nbytes + pairs.changes.nbytes) / 2**20 + 5 * 8 * model.n_parameters / 2**20
    return {
        "stages": stages,
        "vectors": vectors,
        "tokens": data.n_tokens,
        "labels": data.n_labels,
        "weights": fit.model.n_parameters,
    }


def peer(name: str, layout: str, sentences: int | None) -> dict[str, object]:
    import pycrfsuite  # noqa: F401

    encoder, data, _ = corpus(name, sentences)
    before = forget_peak()
    trainer = crfsuite_trainer(data, [str(label) for label in encoder.labels], layout, 10)
    appended = forget_peak() - before
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
    return {"appended": appended, "peak": memory()[1] - before}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        who, name, layout, sentences, threads = sys.argv[2:]
        ff.set_threads(int(threads))
        print(json.dumps((peer if who == "peer" else own)(name, layout, int(sentences) or None)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    parser.add_argument("--only", choices=list(TITLES), default=None)
    parser.add_argument("--threads", type=int, default=1, help="threads of fieldfit; CRFsuite has one (1)")
    options = parser.parse_args()
    for name, layout, some in RUNS:
        if options.only not in (None, name):
            continue
        arguments = name, layout, str(options.sentences or some or 0), str(options.threads)
        ours, theirs = child(__file__, "own", *arguments), child(__file__, "peer", *arguments)
        print(
            f"{TITLES[name]}, {layout} pairs: {ours['tokens']:,} tokens, {ours['labels']} labels, {ours['weights']:,} "
            "weights"
        )
        for title, now, peak in ours["stages"]:
            print(f"  {title:48s} {now:6.1f} MB, peak until then {peak:6.1f} MB")
        print(f"  of it vectors of the optimiser: {ours['vectors']:.1f} MB")
        # The pairs seen and what follows them.
        encoded, above = ours["stages"][2][1], max(peak for _, _, peak in ours["stages"][3:])
        beyond = theirs["peak"] - theirs["appended"]
        print(
            f"  peak above its own sentences: fieldfit {above - encoded:.1f} MB (sentences {encoded:.1f} MB); CRFsuite "
            f"{beyond:.1f} MB (sentences {theirs['appended']:.1f} MB): ratio {beyond / (above - encoded):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
