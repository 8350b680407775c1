"""One FL, PL1 and PL2 evaluation of a linear-chain CRF on CoNLL-2000, and where its time goes.

    python benchmarks/chains.py

The paper's seven features, CRFsuite's model with observed pairs and with all pairs. Needs FIELDFIT_DATA. `crf_race.py` has
the race against CRFsuite, `label_counts.py` the time against the number of labels.
"""

from __future__ import annotations

import numpy as np
from chain_corpora import LAYOUTS, corpus, crfsuite_like, plain
from measure import best_times, clock

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.threads import get_threads, set_threads
from fieldfit.types import FloatArray


def evaluation_parts(problem: ChainProblem, theta: FloatArray, repeats: int = 7) -> tuple[float, float, float, float]:
    """Seconds of scoring, of the forward pass, of the backward pass (with edges) and of the gradient by feature.

    Differences between calls that stop after each part; they add up to the time of one value and gradient.
    """
    layout, data = problem.layout, problem.dataset
    weights, families = layout.unpack(theta), list(problem.families)
    scores, residuals = np.empty((data.n_tokens, layout.padded)), np.empty((data.n_tokens, layout.padded))
    values, gradient = np.empty(data.n_sequences), np.empty_like(theta)
    scoring, forward, backward, whole = best_times(
        lambda: _kernels.chain_scores(problem.tokens, weights, scores=scores, n_threads=get_threads()),
        lambda: problem.row_values(theta),
        lambda: _kernels.chain_evaluate(
            problem.tokens,
            weights,
            direction=None,
            families=families,
            row_weight=None,
            observed=True,
            squares=False,
            values=values,
            tangents=None,
            residuals=residuals,
            gradient=None,
            n_threads=get_threads(),
        ),
        lambda: problem.value_grad(theta, out=gradient),
        repeats=repeats,
    )
    return scoring, forward - scoring, backward - forward, whole - backward


def show(model: ChainCRF, layout: str, data: Sequences) -> None:
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.1
    for threads in (1, 2):
        set_threads(threads)
        for name, width in (("FL", 0), ("PL1", 1), ("PL2", 2)):
            start = clock()
            problem = ChainProblem(model.layout, data, plain(width))
            problem.tokens  # noqa: B018, compiled now
            compiled = clock() - start
            parts = evaluation_parts(problem, theta)
            scoring, forward, backward, gradient = (1e3 * part for part in parts)
            print(
                f"{layout:9s} {name:4s} {threads} threads  {1e3 * sum(parts):6.1f} ms = scoring {scoring:5.1f} + "
                f"forward {forward:5.1f} + backward {backward:5.1f} + gradient by feature {gradient:5.1f}   "
                f"(compile {1e3 * compiled:.0f} ms)"
            )
    set_threads(None)


def main() -> None:
    _, data, _ = corpus("conll")
    print(f"{data.n_sequences} sentences, {data.n_tokens} tokens, {data.n_labels} labels, {data.n_features} features")
    for layout in LAYOUTS:
        show(crfsuite_like(data, layout), layout, data)


if __name__ == "__main__":
    main()
