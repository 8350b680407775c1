"""Standard errors of a tagger with a quarter of a million parameters, by conjugate gradients, and against matrices.

    python benchmarks/standard_errors.py [--sentences N] [--policy FL] [--small N] [--dense-only]

CoNLL-2000 with the paper's seven features, σ² = 10. Five parameters from frequent to rare, a difference of two transitions
and the probability of a label (delta method), robust and model-based: seconds and Hessian products of each. Then the same
on the first ``--small`` sentences with the features reduced to words' tags, where the dense matrices fit (r ≤ 2,000): the
largest relative difference of the two calculations. Last a dense pairwise field, 50 neurons in 40,000 samples (1,275
parameters), which ``--dense-only`` measures alone: CPU seconds of the fit and of all standard errors. Under 5 minutes on 2
quiet cores. Needs FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import numpy as np
from crf_race import corpus

import fieldfit as ff
from fieldfit.api import accuracies
from fieldfit.api.result import Fit, Kind
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.sequences import Sequences
from fieldfit.data.templates import parse_templates
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_gradients import marginal_gradient
from fieldfit.threads import get_threads

SIGMA2 = 10.0
KINDS: tuple[Kind, ...] = ("robust", "model")
DENSE = ("PL1", "PL2", "PL1 + 0.2*PL2@0.1")
TAGS = "U:tag=%x[0,1]\nU:tag-1=%x[-1,1]\nB\n"


def model_of(encoder: ColumnEncoder, data: Sequences) -> ChainCRF:
    return ChainCRF(data.n_labels, data.n_features, labels=[str(label) for label in encoder.labels])


def functionals(fit: Fit, data: Sequences) -> list[tuple[str, np.ndarray]]:
    """Name and gradient: five state weights of falling curvature, a difference of transitions, a label's probability."""
    names, theta = fit.model.parameter_names, fit.theta
    curvature = fit.problem.hessian_diagonal(theta)
    assert curvature is not None
    state = fit.model.layout.n_state  # type: ignore[attr-defined]
    order = np.argsort(-curvature[:state])
    found = []
    for rank in (0, 10, 100, 1_000, 10_000):
        place = int(order[min(rank, state - 1)])
        gradient = np.zeros(len(theta))
        gradient[place] = 1.0
        found.append((f"{names[place]} (curvature {curvature[place]:.3g})", gradient))
    gradient = np.zeros(len(theta))
    transitions = state + np.argsort(-curvature[state : state + 400])[:2]
    gradient[transitions] = 1.0, -1.0
    found.append((f"{names[int(transitions[0])]} minus {names[int(transitions[1])]}", gradient))
    # The least certain label among the first sentences.
    some = data.subset(np.arange(min(200, data.n)))
    marginals = fit.model.marginals(theta, some)  # type: ignore[attr-defined]
    flat = int(np.argmin(np.abs(marginals - 0.5)))
    token, label = divmod(flat, marginals.shape[1])
    sequence = int(np.searchsorted(some.offsets, token, side="right")) - 1
    position = token - int(some.offsets[sequence])
    p, slope = marginal_gradient(fit.model, theta, some, sequence, position, label)  # type: ignore[arg-type]
    found.append((f"p = {p:.3f} of a label of sentence {sequence}", slope))
    return found


def measure(fit: Fit, data: Sequences) -> None:
    print(f"{'function':44s} {'robust':>9s} {'model':>9s} {'products':>9s} {'seconds':>8s}")
    whole, everything = time.perf_counter(), 0
    for name, gradient in functionals(fit, data):
        start = time.perf_counter()
        errors, products = [], 0
        for kind in KINDS:
            bread = fit.accuracy(kind).bread  # type: ignore[attr-defined]
            before = bread.products
            errors.append(np.sqrt(fit.accuracy(kind).covariance_of(gradient[None])[0, 0]))
            products += bread.products - before
        everything += products
        seconds = time.perf_counter() - start
        print(f"{name:44s} {errors[0]:9.5f} {errors[1]:9.5f} {products:9d} {seconds:8.1f}", flush=True)
    print(f"all of them: {everything} Hessian products, {time.perf_counter() - whole:.1f} s")


def agreement(sentences: int, policy: str) -> None:
    """The same code with and without matrices on a model small enough for both."""
    train = read_columns(find_data("conll2000/train.txt"))
    stop = int(train.offsets[sentences])
    codes = tuple(column[:stop] for column in train.codes)
    text = ColumnText(train.offsets[: sentences + 1], codes, train.values, train.lines[:stop], train.sources)
    encoder, data = ColumnEncoder.fit(text, parse_templates(TAGS))
    fit = ff.fit(model_of(encoder, data), data, policy, sigma2=SIGMA2)
    r = fit.model.n_parameters
    gradients = np.stack([gradient for _, gradient in functionals(fit, data)])

    def errors() -> tuple[float, list[np.ndarray]]:
        fresh, start = replace(fit), time.perf_counter()
        found = [np.sqrt(np.diag(fresh.accuracy(kind).covariance_of(gradients))) for kind in KINDS]
        return time.perf_counter() - start, found

    matrices, dense = errors()
    with mock.patch.object(accuracies, "MOST_COVARIANCE_PARAMETERS", 0):
        products, implicit = errors()  # without matrices: the same fit goes by products
    print(f"\n{sentences} sentences, tags only, r = {r}: matrices {matrices:.1f} s, products {products:.1f} s")
    for kind, one, other in zip(KINDS, dense, implicit, strict=True):
        print(
            f"largest relative difference of {len(one)} standard errors ({kind}): {np.abs(other / one - 1).max():.1e}"
        )


def dense_field(policies: Sequence[str]) -> None:
    """CPU seconds of the fit and of the standard errors of all couplings and biases of 50 neurons."""
    samples = np.loadtxt(find_data("spikes/neurons50.csv.gz"), delimiter=",", skiprows=1, max_rows=40_000, dtype=int)
    print(f"\n{samples.shape[1]} neurons, {len(samples):,} samples: CPU seconds")
    print(f"{'policy':20s} {'parameters':>10s} {'fit':>6s} {'standard errors':>16s}")
    for policy in policies:
        start = time.process_time()
        fit = ff.fit(ff.BoltzmannMachine(samples.shape[1], biases=True), samples, policy)
        fitted = time.process_time()
        assert np.isfinite(fit.standard_errors()).all()
        ended = time.process_time()
        print(f"{policy:20s} {len(fit.theta):10,d} {fitted - start:6.1f} {ended - fitted:16.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None)
    parser.add_argument("--policy", default="FL")
    parser.add_argument("--small", type=int, default=100)
    parser.add_argument("--dense-only", action="store_true")
    chosen = parser.parse_args()
    if chosen.dense_only:
        dense_field(DENSE)
        return
    encoder, data, _ = corpus("conll", chosen.sentences)
    start = time.perf_counter()
    # 1e-5 for each sentence: θ̂ is then far closer to the optimum than a standard error.
    fit = ff.fit(model_of(encoder, data), data, chosen.policy, sigma2=SIGMA2, tol=1e-5)
    r, threads = fit.model.n_parameters, get_threads()
    print(f"{data.n} sentences, r = {r:,}, {chosen.policy}, σ² = {SIGMA2:g}, {threads} threads")
    print(f"fit: {fit.message}, {fit.evaluations} evaluations, {time.perf_counter() - start:.1f} s\n")
    measure(fit, data)
    agreement(chosen.small, chosen.policy)
    dense_field(DENSE)


if __name__ == "__main__":
    main()
