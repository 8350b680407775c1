"""What the gradient of a chain costs block by block, against residuals of all tokens held at once.

    python benchmarks/gradient_blocks.py [--tokens N] [--labels K ...] [--turns N]

One FL evaluation (value and gradient), one thread, CPU seconds, both ways in turns: synthetic sentences with K labels,
where every feature–label pair has a weight, and CoNLL-2000 with the pairs observed and with all (FIELDFIT_DATA). The second
way is the same kernel with one block for all tokens, which holds tokens × K doubles. The ratio is its time over that of
the blocks: below 1 where blocks cost time. Megabytes are what the first evaluation adds to the process.
"""

from __future__ import annotations

import argparse
import os

os.environ["FIELDFIT_BENCHMARK_CLOCK"] = "cpu"

import numpy as np
from chain_corpora import TITLES, corpus, crfsuite_like, plain
from label_counts import sentences
from measure import clock, forget_peak, memory

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models import chain_problem
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem

LABELS = (10, 22, 45, 121, 263)
#: Both ways are compiled this many times: where their arrays happen to lie changes a time by up to a tenth.
COMPILATIONS = 5


def compiled(model: ChainCRF, data: Sequences, block_tokens: int) -> tuple[ChainProblem, float]:
    """The chain with blocks of this many tokens (0: the default), and the megabytes of its first evaluation."""
    chain_problem.BLOCK_TOKENS = block_tokens
    problem = ChainProblem(model.layout, data, plain(0))
    chain_problem.BLOCK_TOKENS = 0
    theta, gradient = np.zeros(model.n_parameters), np.ones(model.n_parameters)
    before = forget_peak()
    problem.value_grad(theta, out=gradient)
    return problem, memory()[1] - before


def race(title: str, model: ChainCRF, data: Sequences, turns: int) -> None:
    """Print the times and the memory of both ways."""
    theta = np.random.default_rng(1).normal(size=model.n_parameters) * 0.1
    seconds, difference = np.empty((turns, 2)), 0.0
    for some in np.array_split(seconds, COMPILATIONS):
        ways = [compiled(model, data, size) for size in (0, data.n_tokens)]
        results = [problem.value_grad(theta)[1] for problem, _ in ways]
        difference = max(difference, float(np.abs(results[0] - results[1]).max()))
        for number, turn in enumerate(some):
            for way in (0, 1) if number % 2 else (1, 0):
                start = clock()
                ways[way][0].value_grad(theta, out=results[way])
                turn[way] = clock() - start
    (blocks, whole), ratios = np.median(seconds, axis=0), seconds[:, 1] / seconds[:, 0]
    low, high = np.percentile(ratios, [25, 75])
    print(
        f"{title:27s} blocks {1e3 * blocks:6.1f} ms, {ways[0][1]:5.1f} MB; all at once {1e3 * whole:6.1f} ms, "
        f"{ways[1][1]:5.1f} MB: ratio {np.median(ratios):.2f} ({low:.2f} to {high:.2f}); gradients differ by "
        f"{difference:.0e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--labels", type=int, nargs="+", default=list(LABELS))
    parser.add_argument("--turns", type=int, default=21)
    options = parser.parse_args()
    ff.set_threads(1)
    print(f"median ratio (middle half of {options.turns} turns)")
    for labels in options.labels:
        data = sentences(options.tokens, labels)
        model = ChainCRF(data.n_labels, data.n_features, pairs="all", start=False, end=False)
        race(f"{data.n_tokens:,} tokens, K = {labels}:", model, data, options.turns)
    _, data, _ = corpus("conll", 4000)
    for layout in ("observed", "all"):
        race(f"{TITLES['conll']}, {layout} pairs:", crfsuite_like(data, layout), data, options.turns)


if __name__ == "__main__":
    main()
