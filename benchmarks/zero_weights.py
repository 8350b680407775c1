"""What weights at zero cost under an elastic net: evaluations against the number of other weights, and whole fits.

    python benchmarks/zero_weights.py [--sentences N] [--only template|ewt|conll] [--c1 C ...]

Evaluations: value and gradient with all state weights, with the share of them that an L1 penalty would take first (those
with the largest derivatives at θ = 0), with none, and of the same chain without any feature, in CPU milliseconds of one
thread, taking turns. Values and gradients with and without the zeros must agree to 1e-10. Whole fits: CPU seconds to the
objective after 60 steps on all weights, on all weights and on the working set of those that may leave zero; making the set
and checking the others are included. Needs FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings

os.environ["FIELDFIT_BENCHMARK_CLOCK"] = "cpu"

from dataclasses import replace

import numpy as np
from chain_corpora import TITLES, corpus, crfsuite_like, plain
from measure import best_times, clock

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.optim import working_set
from fieldfit.optim.solution import Progress
from fieldfit.types import FloatArray

C2, STEPS = 0.1, 60
SHARES = (0.3, 0.1, 0.03, 0.01, 0.0)
#: Corpora with their pairs of features and labels, and their sentences as a multiple of --sentences.
CASES = (("template", "observed", 1.0), ("ewt", "observed", 1.0), ("conll", "all", 1.5))


def evaluations(title: str, data: Sequences, problem: ChainProblem) -> None:
    """Print the milliseconds of evaluations with fewer and fewer weights that are not zero."""
    n_state, random = problem.layout.n_state, np.random.default_rng(0)
    slopes = np.abs(problem.value_grad(np.zeros(problem.n_parameters))[1][:n_state])
    first = np.argsort(-slopes, kind="stable")
    weights = 0.1 * random.normal(size=problem.n_parameters)
    parts, making = [], 0.0
    for share in SHARES:
        zeros = np.ones(problem.n_parameters, dtype=np.bool_)
        zeros[n_state:] = False
        zeros[first[: math.ceil(share * n_state)]] = False
        theta = np.where(zeros, 0.0, weights)
        start = clock()
        part = problem.without(zeros)
        making = max(making, clock() - start)
        assert part is not None
        smaller, places = part
        (value, gradient), (other, few) = problem.value_grad(theta), smaller.value_grad(theta[places])
        np.testing.assert_allclose(other, value, rtol=1e-10)
        np.testing.assert_allclose(few, gradient[places], rtol=1e-10, atol=1e-8)
        parts.append((smaller, theta[places]))
    nothing = replace(data, indptr=np.zeros_like(data.indptr), indices=data.indices[:0], values=None, n_features=1)
    bare = ChainProblem(crfsuite_like(nothing, "all").layout, nothing, plain(0))
    parts.append((bare, np.zeros(bare.n_parameters)))
    whole, *times = best_times(
        lambda: problem.value_grad(weights),
        *(lambda x=x, chain=chain: chain.value_grad(x) for chain, x in parts),
        repeats=7,
    )
    *times, recursions = times
    line = ", ".join(f"{share:.0%} {1e3 * t:.1f}" for share, t in zip(SHARES[:-1], times, strict=False))
    print(
        f"{title}, {n_state:,} state weights, ms: all {1e3 * whole:.1f}; not zero {line}, none {1e3 * times[-1]:.1f}: "
        f"ratio {whole / times[-1]:.2f}; a chain without features {1e3 * recursions:.1f}; making a set {1e3 * making:.1f}",
        flush=True,
    )


def fit(
    problem: tuple[ff.ChainCRF, Sequences], c1: float, target: float, max_iter: int
) -> tuple[float, float, FloatArray]:
    """CPU seconds to the objective ``target``, the objective reached, and θ."""
    values: list[float] = []

    def reached(state: Progress) -> bool:
        values.append(state.value)
        return state.value <= target

    start = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ff.fit(*problem, "FL", sigma2=1 / (2 * C2), l1=c1, max_iter=max_iter, tol=1e-12, progress=reached)
    return clock() - start, values[-1], result.theta


def whole_fits(title: str, model: ff.ChainCRF, data: Sequences, c1: float) -> None:
    """Print the seconds of fits on all weights and on a working set, taking turns."""
    limits = {"all": model.n_parameters + 1, "set": working_set._MANY_COORDINATES}
    seconds = dict.fromkeys(limits, math.inf)
    try:
        working_set._MANY_COORDINATES = limits["all"]
        target = fit((model, data), c1, -math.inf, STEPS)[1]
        for _ in range(3):
            for kind, limit in limits.items():
                working_set._MANY_COORDINATES = limit
                taken, objective, theta = fit((model, data), c1, target, 3 * STEPS)
                seconds[kind] = min(seconds[kind], taken)
                assert objective <= target
    finally:
        working_set._MANY_COORDINATES = limits["set"]
    print(
        f"  c1 = {c1:g}, fit to {target:.1f}: {(theta != 0).mean():.1%} of {model.n_parameters:,} weights not zero; all "
        f"{seconds['all']:.2f} s, working set {seconds['set']:.2f} s: ratio {seconds['all'] / seconds['set']:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1000, help="training sentences (1000)")
    parser.add_argument("--only", choices=[name for name, _, _ in CASES], default=None)
    parser.add_argument("--c1", type=float, nargs="+", default=[0.1, 1.0])
    options = parser.parse_args()
    ff.set_threads(1)
    for name, pairs, share in CASES:
        if options.only not in (None, name):
            continue
        _, data, _ = corpus(name, int(share * options.sentences))
        model, title = crfsuite_like(data, pairs), f"{TITLES[name]}, {pairs} pairs"
        evaluations(title, data, ChainProblem(model.layout, data, plain(0)))
        for c1 in options.c1:
            whole_fits(title, model, data, c1)


if __name__ == "__main__":
    main()
