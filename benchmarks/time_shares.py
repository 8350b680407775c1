"""How the time of a fit goes: reading, encoding, compiling, scoring, recursions, gradient, optimiser.

    python benchmarks/time_shares.py [--sentences N] [--iterations N]

A chain CRF (FL, σ² = 1, CRFsuite's model with observed pairs) from the text file to θ. Reading, encoding, compiling, the
evaluations and the whole fit are on the clock as they happen; the time of the evaluations is divided in the proportion of
their parts, measured at the final θ by calls that stop after each part. The gradient of the most frequent features is
summed while their sentence is in the cache, so it is part of the backward pass. Needs FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from chain_corpora import SIGMA2, TITLES, learn, plain, training_text
from chains import evaluation_parts
from measure import clock

import fieldfit as ff
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.threads import get_threads
from fieldfit.types import ConvergenceWarning


class Stopwatch:
    """Counts the calls and the seconds of a method of a class while it is in use."""

    def __init__(self, owner: type, name: str) -> None:
        self.seconds, self.calls = 0.0, 0
        self._owner, self._name, self._method = owner, name, getattr(owner, name)

    def __enter__(self) -> Stopwatch:
        method = self._method

        def timed(*arguments: Any, **named: Any) -> Any:
            start = clock()
            try:
                return method(*arguments, **named)
            finally:
                self.seconds += clock() - start
                self.calls += 1

        setattr(self._owner, self._name, timed)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self._owner, self._name, self._method)


def shares(name: str, sentences: int | None, iterations: int) -> None:
    start = clock()
    text = training_text(name, sentences)
    reading = clock() - start
    start = clock()
    _, data = learn(name, text)
    encoding = clock() - start
    with (
        Stopwatch(ff.ChainCRF, "complete") as observing,
        Stopwatch(ff.ChainCRF, "compile") as compiling,
        Stopwatch(ChainProblem, "value_grad") as evaluating,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = clock()
        model = ff.ChainCRF(data.n_labels, data.n_features, transitions="observed", start=False, end=False)
        fit = ff.fit(model, data, "FL", sigma2=SIGMA2, tol=1e-12, max_iter=iterations)
        fitting = clock() - start
    assert isinstance(fit.model, ff.ChainCRF)
    parts = evaluation_parts(ChainProblem(fit.model.layout, data, plain(0)), fit.theta)
    scoring, forward, backward, gradient = (evaluating.seconds * part / sum(parts) for part in parts)
    rows = [
        ("reading the file", reading),
        ("encoding features", encoding),
        ("compiling (pairs seen, features by token)", observing.seconds + compiling.seconds),
        ("scoring tokens (gather)", scoring),
        ("recursion: forward, with exponentials", forward),
        ("recursion: backward, edges, frequent features", backward),
        ("gradient of the rarer features (scatter)", gradient),
        ("optimiser and penalty", fitting - observing.seconds - compiling.seconds - evaluating.seconds),
    ]
    total = reading + encoding + fitting
    print(
        f"{TITLES[name]}: {data.n_tokens:,} tokens, {data.n_labels} labels, {fit.model.n_parameters:,} weights; "
        f"{fit.iterations} iterations, {evaluating.calls} evaluations of "
        f"{1e3 * evaluating.seconds / evaluating.calls:.1f} ms; threads: {get_threads()}"
    )
    for title, seconds in rows:
        print(f"  {title:45s} {seconds:8.3f} s {seconds / total:6.1%}")
    print(f"  {'from the file to θ':45s} {total:8.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    parser.add_argument("--iterations", type=int, default=100)
    options = parser.parse_args()
    for name in ("conll", "atis"):
        shares(name, options.sentences, options.iterations)


if __name__ == "__main__":
    main()
