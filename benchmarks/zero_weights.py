"""What weights at zero cost under an elastic net: whole fits that evaluate all weights, and fits that leave zeros out.

    python benchmarks/zero_weights.py [--sentences N] [--only template|ewt|conll] [--c1 C ...] [--turns N]

Fits by full likelihood (c2 = 0.1, one thread) take turns, to the same tolerance; CPU seconds of the fastest turn. Then one
evaluation at the optimum: of all weights, of those that are not left out there, and the selection of these, which costs no
new compilation. Observed pairs for the CRF++ template and EWT, all pairs for the paper's features of CoNLL-2000. Needs
FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ["FIELDFIT_BENCHMARK_CLOCK"] = "cpu"

import numpy as np
from chain_corpora import TITLES, corpus, crfsuite_like, plain
from measure import best_times, clock

import fieldfit as ff
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.optim import zeros
from fieldfit.types import FloatArray

C2, TOLERANCE = 0.1, 1e-5
LAYOUTS = {"template": "observed", "ewt": "observed", "conll": "all"}
#: From how many weights on zeros are left out: never, and as usual.
WAYS = {"all": 1 << 60, "few": zeros._MANY}


def race(name: str, sentences: int, c1: float, turns: int) -> None:
    """Print the seconds of both kinds of fits."""
    _, data, _ = corpus(name, sentences or None)
    model = crfsuite_like(data, LAYOUTS[name])
    seconds, fits = dict.fromkeys(WAYS, float("inf")), {}
    try:
        for _ in range(turns):
            for way, limit in WAYS.items():
                zeros._MANY = limit
                start = clock()
                fits[way] = ff.fit(model, data, "FL", sigma2=1 / (2 * C2), l1=c1, max_iter=1000, tol=TOLERANCE)
                seconds[way] = min(seconds[way], clock() - start)
    finally:
        zeros._MANY = WAYS["few"]
    whole, few = fits["all"], fits["few"]
    print(
        f"{TITLES[name]}, {data.n_sequences:,} sentences, {LAYOUTS[name]} pairs, c1 = {c1:g}: "
        f"{np.mean(few.theta != 0):.1%} of {model.n_parameters:,} weights not zero\n"
        f"  fit: all weights {seconds['all']:.2f} s ({whole.evaluations} evaluations), without zeros "
        f"{seconds['few']:.2f} s ({few.evaluations}): ratio {seconds['all'] / seconds['few']:.2f}; objectives differ by "
        f"{abs(whole.objective - few.objective) / abs(whole.objective):.0e}",
        flush=True,
    )
    evaluation(ChainProblem(model.layout, data, plain(0)), few.theta, c1)


def evaluation(problem: ChainProblem, theta: FloatArray, c1: float) -> None:
    """Print the time of one evaluation at θ, with and without zeros."""
    gradient = problem.value_grad(theta)[1]
    at_zero = (theta == 0) & (np.abs(gradient) <= zeros._SAFE * c1)
    part = problem.without(at_zero)
    assert part is not None
    smaller, places = part
    some = theta[places]
    whole, few, selection = best_times(
        lambda: problem.value_grad(theta),
        lambda: smaller.value_grad(some),
        lambda: problem.without(at_zero),
    )
    print(
        f"  evaluation: all weights {1e3 * whole:.1f} ms, {len(places):,} of them {1e3 * few:.1f} ms: ratio "
        f"{whole / few:.2f}; their selection takes {selection / whole:.2f} evaluations",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000, help="use the first N training sentences (0: all)")
    parser.add_argument("--only", choices=list(LAYOUTS), default=None)
    parser.add_argument("--c1", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    ff.set_threads(1)
    warnings.simplefilter("ignore")
    for name in LAYOUTS if options.only is None else (options.only,):
        for c1 in options.c1:
            race(name, options.sentences, c1, options.turns)


if __name__ == "__main__":
    main()
