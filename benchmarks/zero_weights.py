"""What weights at zero cost under an elastic net: evaluations over all weights and over those that are not zero.

    python benchmarks/zero_weights.py [--sentences N] [--only template|ewt] [--c1 C ...]

At six points of 60 steps the chain is compiled again for the weights that are not zero, features without any left out.
Value and gradient of both, taking turns, in CPU seconds of one thread: the ratio is what skipping zero weights can save at
most, since choosing them, listing them and checking the others are not counted. The two values and gradients must agree
to 1e-10. Then whole fits of 60 steps with all pairs of features and labels: the optimiser's pairs on all weights, and on
those that move, and how much of an evaluation gathers weights of features that have none left. Needs FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ["FIELDFIT_BENCHMARK_CLOCK"] = "cpu"

from dataclasses import replace

import numpy as np
from chain_corpora import TITLES, corpus, crfsuite_like, plain
from measure import best_times, clock

import fieldfit as ff
from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.optim import orthant
from fieldfit.optim.proximal import minimise_proximal
from fieldfit.optim.solution import Progress
from fieldfit.types import BoolArray, FloatArray

C2 = 0.1
POINTS = (5, 15, 25, 35, 45, 55)


def points(problem: ChainProblem, c1: float) -> list[FloatArray]:
    """The weights after some of the steps of an elastic net."""
    kept = []

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = problem.value_grad(x)
        return C2 * float(x @ x) - value, 2 * C2 * x - gradient

    def keep(state: Progress, x: FloatArray) -> None:
        if state.iteration in POINTS:
            kept.append(x.copy())

    minimise_proximal(objective, np.zeros(problem.n_parameters), c1, gtol=1e-9, max_iter=POINTS[-1], callback=keep)
    return kept


def without_zeros(problem: ChainProblem, data: Sequences, keep: BoolArray) -> ChainProblem:
    """The chain with the state weights ``keep`` and all transitions."""
    layout = problem.layout
    counts = np.diff(np.concatenate(([0], np.cumsum(keep)))[layout.pair_ptr])
    used = counts > 0
    entries = used[data.indices]
    fewer = replace(
        data,
        indptr=np.concatenate(([0], np.cumsum(entries)))[data.indptr],
        indices=(np.cumsum(used) - 1)[data.indices[entries]].astype(np.int32),
        values=None if data.values is None else data.values[entries],
        n_features=int(used.sum()),
    )
    smaller = replace(
        layout,
        n_features=fewer.n_features,
        pair_ptr=np.concatenate(([0], np.cumsum(counts[used]))),
        pair_labels=np.ascontiguousarray(layout.pair_labels[keep]),
    )
    return ChainProblem(smaller, fewer, plain(0))


def compare(name: str, sentences: int | None, c1: float) -> None:
    """Print the seconds at each point together, and those at the last one."""
    _, data, _ = corpus(name, sentences)
    problem = ChainProblem(crfsuite_like(data, "observed").layout, data, plain(0))
    n_state, seconds, shares, compiling = problem.layout.n_state, [], [], 0.0
    for theta in points(problem, c1):
        keep = theta != 0
        keep[n_state:] = True
        start = clock()
        short = without_zeros(problem, data, keep[:n_state])
        compiling += clock() - start
        (value, gradient), (other, part) = problem.value_grad(theta), short.value_grad(theta[keep])
        np.testing.assert_allclose(other, value, rtol=1e-10)
        np.testing.assert_allclose(part, gradient[keep], rtol=1e-10, atol=1e-8)
        rest = theta[keep]
        seconds.append(
            best_times(
                lambda x=theta: problem.value_grad(x),
                lambda x=rest, chain=short: chain.value_grad(x),
                lambda x=theta: problem.row_values(x),
                lambda x=rest, chain=short: chain.row_values(x),
                repeats=5,
            )
        )
        shares.append(keep[:n_state].mean())
    total, last = np.sum(seconds, axis=0), seconds[-1]
    print(
        f"{TITLES[name]}, c1 = {c1:g}: {shares[-1]:.0%} of {n_state} state weights not zero after {POINTS[-1]} steps; "
        f"all weights {1e3 * last[0]:.0f} ms, those {1e3 * last[1]:.0f} ms: ratio {last[0] / last[1]:.2f} "
        f"(values alone {last[2] / last[3]:.2f}); over the steps, mean {np.mean(shares):.0%} not zero: ratio "
        f"{total[0] / total[1]:.2f}; compiling again takes {compiling / total[0]:.1f} evaluations",
        flush=True,
    )


def whole_fits(name: str, sentences: int, c1: float) -> None:
    """Print the seconds of fits whose optimiser keeps pairs on all weights and on those that move, in turns."""
    _, data, _ = corpus(name, sentences)
    model = crfsuite_like(data, "all")
    limits = {"all": model.n_parameters + 1, "moving": orthant._MANY_COORDINATES}
    seconds, objective = dict.fromkeys(limits, float("inf")), dict.fromkeys(limits, 0.0)
    try:
        for _ in range(3):
            for kind, limit in limits.items():
                orthant._MANY_COORDINATES = limit
                start = clock()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit = ff.fit(model, data, "FL", sigma2=1 / (2 * C2), l1=c1, max_iter=60, tol=1e-12)
                seconds[kind], objective[kind] = min(seconds[kind], clock() - start), -fit.objective
    finally:
        orthant._MANY_COORDINATES = limits["moving"]
    print(
        f"{TITLES[name]}, {sentences:,} sentences, all pairs, c1 = {c1:g}: {(fit.theta != 0).mean():.1%} of "
        f"{model.n_parameters:,} weights not zero after 60 steps; pairs on all weights {seconds['all']:.1f} s to "
        f"{objective['all']:.1f}, on those that move {seconds['moving']:.1f} s to {objective['moving']:.1f}: ratio "
        f"{seconds['all'] / seconds['moving']:.2f}",
        flush=True,
    )
    problem, theta = ChainProblem(model.layout, data, plain(0)), fit.theta
    rows = theta[: problem.layout.n_state].reshape(-1, data.n_labels)
    empty = ~(rows != 0).any(axis=1)
    scores, weights = np.empty((data.n_tokens, problem.layout.padded)), problem.layout.unpack(theta)
    whole, scoring = best_times(
        lambda: problem.value_grad(theta),
        lambda: _kernels.chain_scores(problem.tokens, weights, scores=scores, n_threads=1),
    )
    print(
        f"  {empty.mean():.0%} of the features have no weight left, {empty[data.indices].mean():.0%} of the gathers are "
        f"theirs, and gathering is {scoring / whole:.0%} of an evaluation",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    parser.add_argument("--only", choices=["template", "ewt"], default=None)
    parser.add_argument("--c1", type=float, nargs="+", default=[0.1, 1.0])
    options = parser.parse_args()
    ff.set_threads(1)
    for name in ("template", "ewt") if options.only is None else (options.only,):
        for c1 in options.c1:
            compare(name, options.sentences, c1)
    for c1 in options.c1:
        whole_fits("conll", 1500, c1)


if __name__ == "__main__":
    main()
