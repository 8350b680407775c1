"""CRFTagger against CRFsuite: time to the same objective, memory, test F1, and tagging speed.

    python benchmarks/crf_race.py [--sentences N] [--iterations N] [--only conll|atis|tagging|converged]

CoNLL-2000 with the paper's seven features and 22 labels, and ATIS (121 labels, words and neighbours); full likelihood,
‖w‖²/2 (σ² = 1, which is CRFsuite's c2 = 1/2), CRFsuite's model exactly (no start or end weights), observed pairs and
all pairs. The peer runs ``--iterations`` iterations; its target is the objective where it ends, and both clocks stop when
they are within 1e-4 of it. F1 is compared at the same objective to 1e-4, at the point between our last two iterates that
has it.
``converged`` runs both to the optimum of the first 2,000 CoNLL-2000 sentences, which is one and the same.

Every contestant is a process of its own, and its memory is the peak of that process above what it had when the sentences
were encoded; the peer gets its feature names sentence by sentence. Clocks start when the trainer is called: what it
compiles counts, reading does not. CRFsuite has one thread and reports processor seconds; on one thread so do we, which
holds on a busy machine too, and on two threads ours are seconds on the wall, so that needs a quiet one. Needs
python-crfsuite, FIELDFIT_DATA and Linux.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from chain_corpora import LAYOUTS, SIGMA2, by_sentence, corpus, crfsuite_trainer, items
from measure import child, forget_peak, memory

from fieldfit.data.chunks import chunk_scores
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText
from fieldfit.types import FloatArray, Int32Array

CLOSE = 1e-4
CONVERGED_SENTENCES, CONVERGED_ITERATIONS = 2000, 3000
EPSILON = 1e-4
"""CRFsuite's ‖gradient‖/‖θ‖ at which it has converged; how near the two objectives then are is printed."""


def named(names: list[str], codes: Int32Array, offsets: np.ndarray) -> list[list[str]]:
    """Labels of each sentence by name."""
    sentences: list[list[str]] = by_sentence(np.array(names, dtype=object)[codes].tolist(), offsets)
    return sentences


def score(encoder: ColumnEncoder, test: ColumnText, predicted: list[list[str]]) -> float:
    return 100 * chunk_scores(test.sentences(encoder.label_column), predicted).f1


def run_peer(name: str, layout: str, sentences: int | None, iterations: int, epsilon: float) -> dict[str, Any]:
    """CRFsuite: objective and seconds at each iteration, memory, F1 and tagging speed."""
    import pycrfsuite

    encoder, data, test = corpus(name, sentences)
    before = forget_peak()
    trainer = crfsuite_trainer(data, [str(label) for label in encoder.labels], layout, iterations, epsilon)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        used = memory()[1] - before
        lines = trainer.logparser.iterations
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        encoded = encoder.encode(test)
        given = items(encoded)
        start = time.perf_counter()
        predicted = [tagger.tag(sentence) for sentence in given]
        seconds = time.perf_counter() - start
        tagger.close()
    return {
        "losses": [float(line["loss"]) for line in lines],
        "seconds": np.cumsum([float(line["time"]) for line in lines]).tolist(),
        "memory": used,
        "f1": score(encoder, test, predicted),
        "tagging": encoded.n_tokens / seconds,
    }


def run_own(
    name: str, layout: str, sentences: int | None, iterations: int, threads: int, target: float, tol: float
) -> dict[str, Any]:
    """fieldfit, through `ff.fit`, until the objective is at most ``target`` or the gradient at most ``tol``."""
    import fieldfit as ff
    from fieldfit.types import ConvergenceWarning

    ff.set_threads(threads)
    chain_crf, fit_model = ff.ChainCRF, ff.fit  # names are loaded when first used, and imports are not timed
    encoder, data, test = corpus(name, sentences)
    before = forget_peak()
    losses: list[float] = []
    seconds: list[float] = []
    cpu: list[float] = []
    start, start_cpu = time.perf_counter(), time.process_time()

    def note(state: Any) -> bool:
        losses.append(state.value)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
        return bool(state.value <= target)

    model = chain_crf(data.n_labels, data.n_features, pairs=layout, transitions=layout, start=False, end=False)
    options: dict[str, Any] = {"sigma2": SIGMA2, "tol": tol}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = fit_model(model, data, "FL", max_iter=iterations, progress=note, **options)
        used = memory()[1] - before
        theta = fit.theta
        if np.isfinite(target) and threads > 1 and len(losses) > 1:
            # A fit gives the same bits each time, so this one ends at the point before the last.
            earlier = fit_model(model, data, "FL", max_iter=len(losses) - 2, **options)
            theta = point_between(fit.objective_function, earlier.theta, fit.theta, target / (1 + CLOSE))
    chain = fit.model
    assert isinstance(chain, chain_crf)
    encoded = encoder.encode(test)
    codes = chain.predict(theta, encoded)
    predicted = named([str(label) for label in encoder.labels], codes, encoded.offsets)
    return {
        "losses": losses,
        "seconds": seconds if threads > 1 else cpu,
        "memory": used,
        "loss": fit.objective_function.value_grad(theta)[0],
        "f1": score(encoder, test, predicted),
    }


def point_between(objective: Any, worse: FloatArray, better: FloatArray, target: float) -> FloatArray:
    """The point on the way from ``worse`` to ``better`` whose objective is ``target``, to a tenth of CLOSE.

    One iteration may lower the objective by more than CLOSE; the objective is convex, so it falls along that way until
    it is below the target. Where ``better`` is above it, that is as near as one gets.
    """
    low, high = 0.0, 1.0
    theta = better
    value, _ = objective.value_grad(theta)
    while value < target and abs(value / target - 1) > CLOSE / 10:
        middle = (low + high) / 2
        trial = worse + middle * (better - worse)
        value_there, _ = objective.value_grad(trial)
        if value_there > target:
            low = middle
        else:
            high, theta, value = middle, trial, value_there
    return theta


def run_tagging(sentences: int | None) -> None:
    """Tokens a second from Python: the same feature lists and dicts in, lists of labels out."""
    import pycrfsuite

    import fieldfit as ff

    encoder, data, test = corpus("conll", sentences)
    names = [str(label) for label in encoder.labels]
    X = items(data)
    y = named(names, data.labels, data.offsets)
    given = items(encoder.encode(test)) * 3
    tokens = sum(map(len, given))
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, own in zip(X, y, strict=True):
        trainer.append(sentence, own)
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": 15})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger = ff.CRFTagger(sigma2=SIGMA2, crfsuite_compatible=True, max_iter=15).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
        peer = pycrfsuite.Tagger()
        peer.open(str(Path(folder) / "model"))
        as_dicts = [[dict.fromkeys(token, 1.0) for token in sentence] for sentence in given]
        for kind, sentences_in in (("lists", given), ("dicts", as_dicts)):
            theirs, ours = [], []
            for _ in range(3):
                start = time.perf_counter()
                for sentence in sentences_in:
                    peer.tag(sentence)
                theirs.append(time.perf_counter() - start)
                start = time.perf_counter()
                tagger.predict(sentences_in)
                ours.append(time.perf_counter() - start)
            print(
                f"tagging {kind}: CRFsuite {tokens / min(theirs):,.0f} tokens/s, fieldfit {tokens / min(ours):,.0f}: "
                f"{min(theirs) / min(ours):.2f} times"
            )
        peer.close()


def race(name: str, layout: str, sentences: int | None, iterations: int) -> None:
    shared = [name, layout, str(sentences or 0)]
    peer = child(__file__, "peer", *shared, str(iterations), "0")
    # The peer's last line is where its θ and so its F1 are; its clock stops as soon as it is as close as ours must be.
    target = peer["losses"][-1] * (1 + CLOSE)
    count = next(place for place, loss in enumerate(peer["losses"]) if loss <= target)
    theirs = peer["seconds"][count]
    print(
        f"{name} {layout:9s} CRFsuite            {theirs:7.2f} s to {peer['losses'][-1]:.1f} ({count + 1} iterations), "
        f"{peer['memory']:5.0f} MB, F1 {peer['f1']:.2f}, tags {peer['tagging']:,.0f} tokens/s"
    )
    for threads in (1, 2):
        own = child(__file__, "own", *shared, str(3 * iterations), str(threads), repr(target), "1e-12")
        reached, ours = own["losses"][-1], own["seconds"][-1]
        if reached > target:
            print(f"{name} {layout:9s} fieldfit {threads} threads: stopped at {reached:.1f}")
            continue
        print(
            f"{name} {layout:9s} fieldfit, {threads} thread{'s' if threads > 1 else ' '} {ours:7.2f} s to {reached:.1f} "
            f"({len(own['losses']) - 1} iterations), {own['memory']:5.0f} MB: "
            f"{theirs / ours:.2f} times faster, {own['memory'] / max(peer['memory'], 1e-9):.2f} of the memory"
        )
        if threads > 1:
            print(
                f"{name} {layout:9s} fieldfit at {own['loss']:.1f}, {own['loss'] / peer['losses'][-1] - 1:+.0e} from "
                f"CRFsuite's objective: F1 {own['f1']:.2f}, {own['f1'] - peer['f1']:+.2f} from CRFsuite's"
            )


def converged(sentences: int | None) -> None:
    """Both at the optimum: the problem is strictly convex, so objective and F1 must agree."""
    chosen = str(min(sentences or CONVERGED_SENTENCES, CONVERGED_SENTENCES))
    for layout in LAYOUTS:
        shared = ["conll", layout, chosen, str(CONVERGED_ITERATIONS)]
        peer = child(__file__, "peer", *shared, str(EPSILON))
        own = child(__file__, "own", *shared, "2", "-inf", "1e-6")
        theirs, ours = peer["losses"][-1], own["losses"][-1]
        print(
            f"conll {layout:9s} {chosen} sentences to the optimum: CRFsuite {theirs:.4f} ({len(peer['losses'])} "
            f"iterations) F1 {peer['f1']:.2f}, fieldfit {ours:.4f} ({len(own['losses']) - 1} iterations) F1 "
            f"{own['f1']:.2f}; objective differs by {ours / theirs - 1:+.1e}, F1 by {own['f1'] - peer['f1']:+.2f}"
        )


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        who, name, layout, sentences, iterations, *numbers = sys.argv[2:]
        shared = (name, layout, int(sentences) or None, int(iterations))
        if who == "peer":
            result = run_peer(*shared, float(numbers[0]))
        else:
            result = run_own(*shared, int(numbers[0]), float(numbers[1]), float(numbers[2]))
        print(json.dumps(result))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    parser.add_argument("--iterations", type=int, default=100, help="iterations of the peer")
    parser.add_argument("--only", choices=["conll", "atis", "tagging", "converged"], default=None)
    options = parser.parse_args()
    if options.only in (None, "conll"):
        for layout in LAYOUTS:
            race("conll", layout, options.sentences, options.iterations)
    if options.only in (None, "converged"):
        converged(options.sentences)
    if options.only in (None, "atis"):
        race("atis", "observed", options.sentences, options.iterations)
    if options.only in (None, "tagging"):
        run_tagging(options.sentences)


if __name__ == "__main__":
    main()
