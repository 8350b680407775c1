"""Second-order chains on CoNLL-2000: the time of one evaluation against first order, and F1 of chunks.

    python benchmarks/second_order.py [--evaluations] [--taggers FEATURES UNSEEN]

Evaluations (value and gradient, one thread): the paper's features on 2,000 sentences. The triples are those of the train
and test parts together, as the paper counts them; `forbidden` allows no others, `zero` allows all K³ with weight 0 for the
rest. Runs are interleaved and the least CPU time of each counts.

Taggers are fitted by FL with σ² = 1 on the training part and scored on the test part; their triples are those of the
training part. The second-order fit starts from the first-order one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from chain_corpora import TEMPLATE

import fieldfit as ff
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import join_texts, read_columns
from fieldfit.data.locate import find_data
from fieldfit.models.chain_crf import ChainCRF

FILES = ("conll2000/train.txt", "conll2000/test.txt")
REPEATS = 7
FEATURES = {"chunker": "chunker", "template": TEMPLATE}


def least_times(calls: list[Callable[[], object]]) -> list[float]:
    """The least CPU seconds of each call, taken in turn."""
    best = [np.inf] * len(calls)
    for _ in range(REPEATS):
        for k, call in enumerate(calls):
            begin = time.process_time()
            call()
            best[k] = min(best[k], time.process_time() - begin)
    return best


def evaluations() -> None:
    """Print the times of FL, PL1 and PL2 of three models."""
    text = join_texts([read_columns(find_data(file)) for file in FILES])
    _, data = ColumnEncoder.fit(text, "conll2000")
    K, F = data.n_labels, data.n_features
    train = data.subset(np.arange(2_000))
    first = ChainCRF(K, F, end=False).observe(data)
    second = {
        unseen: ChainCRF(K, F, transitions="none", end=False, order=2, unseen_transitions=unseen).observe(data)
        for unseen in ("forbidden", "zero")
    }
    print(f"K = {K}, {train.n} sentences, {train.n_tokens:,} tokens, one thread")
    for unseen, model in second.items():
        arcs = model.layout.arcs
        print(
            f"  {unseen}: {arcs.n_arcs:,} triples are possible, {arcs.n_states} states, {model.n_parameters:,} weights"
        )
    with ff.use_threads(1):
        for policy in ("FL", "PL1", "PL2"):
            calls: list[Callable[[], object]] = []
            for model in (first, *second.values()):
                selection = ff.Policy.parse(policy).bind(model.structure(train)).draw(0, 0, train.n)
                problem = model.compile(train, selection)
                theta = np.random.default_rng(0).normal(scale=0.1, size=model.n_parameters)
                calls.append(partial(problem.value_grad, theta))
            times = least_times(calls)
            print(
                f"  {policy:4} order 1 {1e3 * times[0]:6.1f} ms; order 2 forbidden {1e3 * times[1]:6.1f} ms, ratio "
                f"{times[1] / times[0]:.2f}; zero {1e3 * times[2]:6.1f} ms, ratio {times[2] / times[0]:.1f}",
                flush=True,
            )


def taggers(features: str, unseen: str) -> None:
    """Print F1 of a first-order tagger on the test part, and of the second-order one that starts from it."""
    train, test = (read_columns(find_data(file)) for file in FILES)
    options: dict[str, Any] = {"sigma2": 1.0, "features": FEATURES[features], "metric": "f1", "tol": 1e-3}
    previous = None
    for order in (1, 2):
        more: dict[str, Any] = {"order": 2, "unseen_transitions": unseen} if order == 2 else {}
        begin = time.process_time()
        fitted = ff.CRFTagger(**options, **more).fit(train, start=previous)
        seconds, previous = time.process_time() - begin, fitted
        name = f"order 2, unseen triples {unseen}" if order == 2 else "order 1"
        print(
            f"  {features}, {name}: F1 {100 * fitted.score(test):.2f}, {fitted.model_.n_parameters:,} weights, "
            f"{fitted.n_iter_} iterations, {seconds:.0f} CPU s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--evaluations", action="store_true")
    parser.add_argument("--taggers", nargs=2, metavar=("FEATURES", "UNSEEN"))
    arguments = parser.parse_args()
    if arguments.taggers:
        taggers(*arguments.taggers)
        return
    evaluations()
    if arguments.evaluations:
        return
    taggers("template", "forbidden")


if __name__ == "__main__":
    main()
