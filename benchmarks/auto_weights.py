"""What automatic weights cost: seconds of a fit with ``weights="auto"`` over those of the same fit with given weights.

    python benchmarks/auto_weights.py [--samples N] [--sentences N] [--repeats K] [--only TEXT]

Both fits have the same model, data, policy, penalty and tolerance; they run in turns and the table has medians. Ratios are
given in seconds on the wall and in processor seconds (the second hold on a busy machine too). The exact form is
left out where there are too many parameters for it. Sentences are those of CoNLL-2000 (FIELDFIT_DATA); without
them the chain has synthetic ones.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import fieldfit as ff
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.sequences import Sequences
from fieldfit.types import FieldfitError


class Case(NamedTuple):
    """One fit; ``forms`` are the forms of J that it is weighted by."""

    name: str
    model: Any
    data: Any
    policy: str
    sigma2: float | None
    forms: tuple[str, ...] = ("diagonal", "exact")


def cases(samples: int, sentences: int) -> Iterator[Case]:
    """Boltzmann machines, a Potts model, and a chain."""
    random = np.random.default_rng(0)
    machine = ff.BoltzmannMachine(9)
    x = machine.sample(np.array([-0.5] * 18 + [0.5] * 18), samples, 1).values
    for policy in ("PL1 + PL2", "PL1 + FL", "PL1 + 0.3*FL", "0.5*PL1 + 0.3*PL2"):
        yield Case("Boltzmann machine, 9 nodes", machine, x, policy, None)
    wide = ff.BoltzmannMachine(30)
    x = wide.sample(random.normal(scale=0.2, size=wide.n_parameters), samples, 1).values
    yield Case("Boltzmann machine, 30 nodes", wide, x, "PL1 + 0.2*PL2", None, ("diagonal",))
    potts = ff.Potts(5, 3)
    x = potts.sample(random.normal(scale=0.4, size=potts.n_parameters), samples, 1).values
    for policy in ("PL1 + PL2", "PL1 + 0.3*FL"):
        yield Case("Potts, 5 sites of 3 states", potts, x, policy, 10.0)
    data = chain(sentences)
    yield Case(
        f"chain CRF, {data.n_sequences:,} sentences",
        ff.ChainCRF(data.n_labels, data.n_features),
        data,
        "PL1@0.5 + FL@0.5",
        10.0,
        ("diagonal",),
    )


def chain(sentences: int) -> Sequences:
    """The first sentences of CoNLL-2000 with the paper's features, or random ones."""
    try:
        text = read_columns(find_data("conll2000/train.txt"))
    except FieldfitError:
        random = np.random.default_rng(1)
        offsets = np.concatenate(([0], np.cumsum(random.integers(5, 40, sentences)))).astype(np.int64)
        labels = random.integers(0, 10, offsets[-1]).astype(np.int32)
        features = (labels + random.integers(0, 3, len(labels))).astype(np.int32)
        return Sequences(offsets, np.arange(len(labels) + 1), features, None, labels, 12, 10)
    if sentences < text.n_sentences:
        stop = int(text.offsets[sentences])
        codes = tuple(column[:stop] for column in text.codes)
        text = ColumnText(text.offsets[: sentences + 1], codes, text.values, text.lines[:stop], text.sources)
    return ColumnEncoder.fit(text, "conll2000")[1]


def timed(case: Case, weights: Any) -> tuple[float, float, Any]:
    """Seconds on the wall, processor seconds, and the fit."""
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ff.fit(case.model, case.data, case.policy, sigma2=case.sigma2, weights=weights)
    return time.perf_counter() - wall, time.process_time() - processor, fit


def race(case: Case, repeats: int) -> None:
    """The line of one case."""
    contestants: dict[str, Any] = {"plain": None} | {form: ff.AutoWeights(form=form) for form in case.forms}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    fits: dict[str, Any] = {}
    for repeat in range(repeats + 1):
        for name, weights in contestants.items():
            wall, processor, fits[name] = timed(case, weights)
            if repeat or repeats == 1:  # the first turn loads what is loaded once
                times[name].append((wall, processor))
        if repeats == 1:
            break
    plain = np.median(times["plain"], axis=0)
    for form in case.forms:
        wall, processor = np.median(times[form], axis=0) / plain
        found = fits[form].weights
        beta = " ".join(f"{b:.3f}" for b in found.beta)
        print(
            f"{case.name:32} {case.policy:20} {fits[form].model.n_parameters:8,} {form:9} {len(found.history):6} "
            f"{1e3 * plain[1]:10.0f} {wall:8.2f} {processor:8.2f}   {beta}{' (pure)' if found.fell_back else ''}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5_000)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name or policy has this text")
    options = parser.parse_args()
    print(
        f"{'model':32} {'policy':20} {'r':>8} {'form':9} {'rounds':>6} {'plain ms':>10} {'auto/plain':>17}   β\n"
        f"{'':32} {'':20} {'':>8} {'':9} {'':>6} {'processor':>10} {'wall':>8} {'proc.':>8}"
    )
    for case in cases(options.samples, options.sentences):
        if options.only in f"{case.name} {case.policy}":
            race(case, options.repeats)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
