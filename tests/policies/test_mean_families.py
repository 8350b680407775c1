"""``Mean(FAMILY)``: a family that counts as the average of its components, in weights, variances and fits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.policies import Policy
from fieldfit.policies.windows import SequenceStructure
from fieldfit.types import PolicyError

THETA = np.repeat([-1.0, 1.0], 5)


def sequences(n: int = 60, seed: int = 0) -> Sequences:
    random = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(random.integers(1, 9, n)))).astype(np.int64)
    labels = random.integers(0, 3, offsets[-1]).astype(np.int32)
    features = np.where(random.random(len(labels)) < 0.5, labels, random.integers(0, 4, len(labels))).astype(np.int32)
    return Sequences(offsets, np.arange(len(labels) + 1), features, None, labels, 4, 3)


def test_the_weight_is_divided_by_the_number_of_components() -> None:
    bound = Policy.parse("Mean(PL1)@0.7 + 0.3*Mean(PL2)@0.3 + FL").bind(ff.BoltzmannMachine(5).structure())
    assert bound.betas == pytest.approx((0.7 / 5, 0.3 / 10, 1.0))
    assert bound.scales == pytest.approx((1 / 5, 1 / 10, 1.0))
    assert str(bound.policy) == "Mean(PL1, 5)@0.7 + 0.3*Mean(PL2, 10)@0.3 + FL"
    assert bound.term_names == ("Mean(PL1)", "Mean(PL2)", "FL")


def test_lengths_of_sequences_are_averaged() -> None:
    lengths = np.array([1, 2, 6, 0])
    bound = Policy.parse("Mean(PL1) + Mean(PL2) + Mean(FL)").bind(SequenceStructure(lengths))
    assert bound.betas == pytest.approx((4 / 9, 4 / 7, 4 / 3))
    assert Policy.parse("Mean(PL1)").bind(SequenceStructure(np.zeros(2, int))).betas == (1.0,)


def test_a_part_of_the_samples_keeps_the_weights_of_the_whole() -> None:
    whole = Policy.parse("Mean(PL1)@2").bind(SequenceStructure(np.array([1, 2, 6])))
    part = whole.policy.bind(SequenceStructure(np.array([1])))
    assert part.betas == whole.betas


@pytest.mark.parametrize(
    "text", ["Multinomial(0.5*Mean(PL1) + 0.5*FL)", "Unless(0.2*FL, Mean(PL1)@3)", "LogLinear(FL + Mean(PL1); 0: 1)"]
)
def test_every_law_of_terms_divides(text: str) -> None:
    structure = ff.BoltzmannMachine(5).structure()
    ours, plain = (Policy.parse(t).bind(structure) for t in (text, text.replace("Mean(PL1)", "PL1")))
    ratio = [np.max(a) / np.max(b) for a, b in zip(plain.betas, ours.betas, strict=True)]
    assert sorted(ratio) == pytest.approx([1.0, 5.0])


def test_an_average_in_figure_1() -> None:
    """The variance that the paper prints, 1.48, is that of averages by its own formula."""
    theory = ff.theory(
        ff.BoltzmannMachine(5), THETA, "0.7*Mean(PL1) + 0.3*Mean(PL2)", formula="published"
    ).efficiency("det")
    by_hand = ff.theory(ff.BoltzmannMachine(5), THETA, "0.7*PL1@0.2 + 0.3*PL2@0.1", formula="published")
    assert theory == pytest.approx(by_hand.efficiency("det"), rel=1e-12)
    assert round(theory, 2) == 1.48


@pytest.mark.parametrize("shards", [None, 3])
def test_a_fit_is_that_of_the_written_weights(shards: int | None) -> None:
    data = sequences()
    model = ff.ChainCRF(3, 4, pairs="all")
    sizes = data.lengths
    one, two = float(sizes.mean()), float(np.maximum(sizes - 1, 1).mean())
    options: dict[str, Any] = {"sigma2": 2.0, "random_state": 3, "tol": 1e-9}
    ours = ff.fit(model, data, "Mean(PL1)@0.6 + 0.5*Mean(PL2)@0.4", shards=shards, **options)
    plain = ff.fit(model, data, f"PL1@{0.6 / one!r} + 0.5*PL2@{0.4 / two!r}", **options)
    assert ours.theta == pytest.approx(plain.theta, abs=1e-7)
    assert ours.standard_errors() == pytest.approx(plain.standard_errors(), rel=1e-6)
    assert Policy.parse(str(ours.policy)) == ours.policy


@pytest.mark.parametrize("formula", ["exact", "published"])
@pytest.mark.parametrize("form", ["exact", "diagonal"])
def test_automatic_weights_are_those_of_the_sums_rescaled(formula: str, form: str) -> None:
    """The variance does not depend on the scale of β, so the best β of averages is that of sums times the sizes."""
    model, theta = ff.BoltzmannMachine(5), THETA
    sums = ff.best_weights(model, theta, "PL1 + 0.3*PL2", formula=formula, form=form, fallback=False)  # type: ignore[arg-type]
    means = ff.best_weights(model, theta, "Mean(PL1) + 0.3*Mean(PL2)", formula=formula, form=form, fallback=False)  # type: ignore[arg-type]
    expected = sums.beta * np.array([5, 10])
    assert means.beta == pytest.approx(expected / expected.sum(), abs=1e-6)
    assert means.J_exact == pytest.approx(sums.J_exact, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["term", "component"])
def test_automatic_weights_of_data(by: str) -> None:
    model = ff.BoltzmannMachine(3)
    x = model.sample([1.0, -1.0, 0.5], 400, random_state=0).values
    sizes = np.array([3.0, 1.0] if by == "term" else [3.0, 3.0, 3.0, 1.0])
    # Started from the same point, so that the alternation stops at the same round.
    sums, means = (
        ff.fit(model, x, policy, weights=ff.AutoWeights(by=by, fallback=False, beta0=start), tol=1e-9).weights  # type: ignore[arg-type]
        for policy, start in (("PL1 + 0.5*FL", np.ones(len(sizes))), ("Mean(PL1) + 0.5*Mean(FL)", sizes))
    )
    assert sums is not None
    assert means is not None
    terms = np.ones(2) if by == "term" else np.array([1 / 3] * 3 + [1.0])
    expected = sums.beta * sizes
    assert means.beta == pytest.approx(expected / (terms @ expected), abs=1e-5)


def test_nested_draws_grow_with_lambda() -> None:
    structure = SequenceStructure(np.random.default_rng(0).integers(0, 30, 200))
    previous: set[tuple[int, int]] = set()
    for lam in (0.1, 0.35, 0.5, 0.9):
        part = Policy.parse(f"{lam}*PL2/nested").bind(structure).draw(5, 0, 200).parts[0]
        assert part.indptr is not None
        assert part.indices is not None
        rows = np.repeat(np.arange(200), np.diff(part.indptr))
        chosen = set(zip(rows.tolist(), part.indices.tolist(), strict=True))
        assert previous < chosen
        previous = chosen


def test_nested_draws_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = SequenceStructure(np.arange(40))
    bound = Policy.parse("0.4*PL1/nested").bind(structure)
    whole = bound.draw(1, 0, 40).parts[0]
    monkeypatch.setattr("fieldfit.policies.selection.NUMBERS_AT_A_TIME", 100)
    pieces = [bound.draw(1, a, b).parts[0] for a, b in pairwise((0, 7, 40))]
    assert whole.indices is not None
    assert np.array_equal(whole.indices, np.concatenate([p.indices for p in pieces if p.indices is not None]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Mean(PL1, 0)", "must be a positive number"),
        ("Mean PL1", "expected '\\('"),
        ("Mean(PL1", "closes Mean"),
        ("0.5*PL1/nest", "'row', 'sentence' or 'nested'"),
        ("Multinomial(PL1/nested)", "cannot be a term of Multinomial"),
    ],
)
def test_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Policy.parse(text)
