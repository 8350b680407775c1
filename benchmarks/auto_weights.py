"""What automatic weights cost: seconds of a fit with ``weights="auto"`` over those of the same fit with given weights.

    python benchmarks/auto_weights.py [--samples N] [--many N] [--sentences N] [--repeats K] [--only TEXT] [--full]

Both fits have the same model, data, policy, penalty and tolerance; they run in turns and the table has medians. Ratios are
given in seconds on the wall and in processor seconds (the second hold on a busy machine too). Beside them are the passes:
evaluations of value and gradient (and Hessian products, where the optimiser takes them) of the plain fit, of the automatic
one on all samples and on the part of them that its first rounds and its statistics use (an evaluation there counts as
the share that the part is), and how often the statistics of J were taken from how many samples. The exact form is left out
where there are too many parameters for it. Sentences are those of CoNLL-2000 (FIELDFIT_DATA); without them the chain has
synthetic ones. ``--full`` adds fits to all of CoNLL-2000, once each (a few minutes).
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


def cases(samples: int, many: int, sentences: int) -> Iterator[Case]:
    """Boltzmann machines, a Potts model, and a chain; then fits of which a pass over the samples is dear."""
    random = np.random.default_rng(0)
    machine = ff.BoltzmannMachine(9)
    x = machine.sample(np.array([-0.5] * 18 + [0.5] * 18), samples, 1).values
    for policy in ("PL1 + PL2", "PL1 + FL", "PL1 + 0.3*FL", "0.5*PL1 + 0.3*PL2"):
        yield Case("Boltzmann machine, 9 nodes", machine, x, policy, None)
    wide = ff.BoltzmannMachine(30)
    theta = random.normal(scale=0.2, size=wide.n_parameters)
    x = wide.sample(theta, samples, 1).values
    yield Case("Boltzmann machine, 30 nodes", wide, x, "PL1 + 0.2*PL2", None, ("diagonal",))
    potts = ff.Potts(5, 3)
    x = potts.sample(random.normal(scale=0.4, size=potts.n_parameters), samples, 1).values
    for policy in ("PL1 + PL2", "PL1 + 0.3*FL"):
        yield Case("Potts, 5 sites of 3 states", potts, x, policy, 10.0)
    yield chain_case(sentences, "PL1@0.5 + FL@0.5")

    middle = ff.BoltzmannMachine(15)
    x = middle.sample(random.normal(scale=0.3, size=middle.n_parameters), many, 1).values
    yield Case("Boltzmann machine, 15 nodes", middle, x, "0.5*PL1 + 0.3*PL2", None)
    yield Case("Boltzmann machine, 15 nodes", middle, x, "PL1 + 0.1*PL3", None)
    x = wide.sample(theta, many, 1).values
    yield Case("Boltzmann machine, 30 nodes", wide, x, "PL1 + 0.2*PL2", None, ("diagonal",))
    widest = ff.BoltzmannMachine(60)
    x = widest.sample(random.normal(scale=0.1, size=widest.n_parameters), many // 5, 1).values
    yield Case("Boltzmann machine, 60 nodes", widest, x, "PL1 + 0.2*PL2", None, ("diagonal",))
    potts = ff.Potts(8, 3)
    x = potts.sample(random.normal(scale=0.3, size=potts.n_parameters), many, 1).values
    yield Case("Potts, 8 sites of 3 states", potts, x, "PL1 + 0.2*PL2", 10.0, ("diagonal",))


def chain_case(sentences: int, policy: str) -> Case:
    """A chain CRF with the pairs of feature and label that its sentences show."""
    data = chain(sentences)
    name = f"chain CRF, {data.n_sequences:,} sentences"
    return Case(name, ff.ChainCRF(data.n_labels, data.n_features), data, policy, 10.0, ("diagonal",))


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
    contestants: dict[str, Any] = {"plain": None} | {form: ff.AutoWeights(form=form) for form in case.forms}  # type: ignore[arg-type]
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
        found, work = fits[form].weights, fits[form].weights.work
        part = work.samples / work.all_samples
        pilot = part * (work.pilot_evaluations + work.pilot_hessian_products)
        beta = " ".join(f"{b:.3f}" for b in found.beta)
        print(
            f"{case.name:28} {case.policy:18} {work.all_samples:7,} {fits[form].model.n_parameters:7,} {form:8} "
            f"{len(found.history):6} {1e3 * plain[1]:8.0f} {wall:6.2f} {processor:6.2f} {_passes(fits['plain']):6} "
            f"{_passes(fits[form]):5}+{pilot:4.1f} {work.statistics:4}×{work.samples:<6,} {beta}"
            f"{' (simple)' if found.fell_back else ''}{'' if found.converged else ' (not settled)'}",
            flush=True,
        )


def _passes(fit: Any) -> int:
    return int(fit.evaluations + fit.hessian_products)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5_000)
    parser.add_argument("--many", type=int, default=100_000, help="samples of the larger fits")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5, help="turns; the larger fits take at most two")
    parser.add_argument("--only", default="", help="cases whose name or policy has this text")
    parser.add_argument("--full", action="store_true", help="all sentences of CoNLL-2000 too")
    options = parser.parse_args()
    print(
        f"{'model':28} {'policy':18} {'n':>7} {'r':>7} {'form':8} {'rounds':>6} {'plain ms':>8} {'auto/plain':>13} "
        f"{'plain':>6} {'auto':>5}+{'part':>4} {'statistics':>11}  β\n"
        f"{'':28} {'':18} {'':>7} {'':>7} {'':8} {'':>6} {'proc.':>8} {'wall':>6} {'proc.':>6} "
        f"{'passes':>6} {'passes':>10} {'×samples':>11}"
    )
    for case in cases(options.samples, options.many, options.sentences):
        if options.only in f"{case.name} {case.policy}":
            large = len(np.asarray(case.data)) > options.samples if isinstance(case.data, np.ndarray) else False
            race(case, min(options.repeats, 2) if large else options.repeats)
    if options.full:
        for policy in ("PL1@0.5 + FL@0.5", "PL1 + 0.3*FL"):
            race(chain_case(1_000_000, policy), 1)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
