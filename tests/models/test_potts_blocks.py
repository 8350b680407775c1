"""The kernel of Potts blocks against the general engine and differences: PLk, blocks, partitions, sampled components."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.potts_blocks import blocks_support
from fieldfit.models.potts_blocks_problem import PottsBlocksProblem
from fieldfit.models.potts_memory import bytes_of_blocks
from fieldfit.policies import Policy
from fieldfit.threads import use_threads
from fieldfit.types import DataError

MODELS = {
    "complete, 3 states": lambda: ff.Potts(6, 3),
    "complete, 5 states, no fields": lambda: ff.Potts(5, 5, fields=False),
    "grid, 4 states": lambda: ff.Potts.grid(3, 3, 4),
    "tied grid": lambda: ff.Potts.grid(3, 4, 3, tied=True),
    "small tied grid": lambda: ff.Potts.grid(2, 3, 3, tied=True),
    "agreement": lambda: ff.Potts(5, 3, couplings="agree"),
    "sites without edges": lambda: ff.Potts(5, 3, [(0, 1), (2, 0)]),
    "nine states": lambda: ff.Potts(5, 9),
    "no edges at all": lambda: ff.Potts(5, 3, []),
}
POLICIES = [
    "PL2",
    "PL2(connected)@0.7",
    "0.3*PL2",
    "0.4*PL3/row",
    "Blocks({0,1},{2,3,4})@2",
    "0.6*Blocks({1,4},{0},{0,3,2})@[2,0.5,1]",
    "0.2*PL3 + 0.5*PL2/row@2",
]


def compiled(name: str, text: str, n: int = 60) -> tuple[PottsBlocksProblem, FieldProblem, Any]:
    model = MODELS[name]()
    random = np.random.default_rng(sum(map(ord, name)))
    data = model.read(random.integers(0, model.q, (n, model.m)))
    selection = Policy.parse(text).bind(model.structure()).draw(3, 0, n)
    assert all(blocks_support(part, model.q) for part in selection.parts)
    fast = PottsBlocksProblem(data.codes, model.tables, selection.parts)
    return fast, FieldProblem(model.field_arrays, data.codes, selection), random


def near(left: object, right: object) -> None:
    np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (name, text)
        for name in MODELS
        for text in POLICIES
        if (name, text[:13]) != ("no edges at all", "PL2(connected")
    ],
)
def test_agrees_with_the_general_engine(name: str, text: str) -> None:
    fast, slow, random = compiled(name, text)
    theta, v = random.normal(size=(2, fast.n_parameters)) * 0.5
    for weight in (None, random.uniform(0.5, 2.0, fast.n_samples)):
        for left, right in zip(fast.value_grad(theta, weight), slow.value_grad(theta, weight), strict=True):
            near(left, right)
        near(fast.hessian_product(theta, v, weight), slow.hessian_product(theta, v, weight))
    near(fast.row_values(theta), slow.row_values(theta))
    near(fast.row_products(theta, v), slow.row_products(theta, v))
    near(fast.family_scores(theta, 5, 12), slow.family_scores(theta, 5, 12))
    near(fast.betas, slow.betas)
    other = np.linspace(0.0 if fast.n_families > 1 else 0.5, 2.0, fast.n_families)
    near(fast.with_betas(other).value_grad(theta)[1], slow.with_betas(other).value_grad(theta)[1])


@pytest.mark.parametrize(
    "text", ["PL2", "PL4", "0.5*PL3 + PL2@0.3", "0.4*PL3/row", "Blocks({0,1},{2,3,4})@2 + 0.6*PL4/row"]
)
@pytest.mark.parametrize("name", ["complete, 3 states", "small tied grid", "agreement", "sites without edges"])
def test_samples_share_sums_over_the_states_of_a_block(name: str, text: str) -> None:
    fast, slow, random = compiled(name, text, 1300)
    whole = [part for part in fast._parts if part.rows is None or len(part.rows)]
    assert any(part.rests is not None for part in whole)
    theta, v = random.normal(size=(2, fast.n_parameters)) * 0.5
    for weight in (None, random.uniform(0.0, 2.0, 1300)):
        for left, right in zip(fast.value_grad(theta, weight), slow.value_grad(theta, weight), strict=True):
            near(left, right)
        near(fast.hessian_product(theta, v, weight), slow.hessian_product(theta, v, weight))
    near(fast.row_values(theta).sum(), fast.value_grad(theta)[0])
    assert fast.row_products(theta, v).sum() == pytest.approx(fast.value_grad(theta)[1] @ v, rel=1e-9)
    if fast.exact_diagonal:
        place = int(np.argmax(fast.hessian_diagonal(theta)))
        unit = np.eye(1, fast.n_parameters, place)[0]
        near(fast.hessian_diagonal(theta)[place], -fast.hessian_product(theta, unit)[place])
    with use_threads(3):
        again = fast.value_grad(theta)
    assert again[0] == fast.value_grad(theta)[0]
    assert again[1].tobytes() == fast.value_grad(theta)[1].tobytes()


@pytest.mark.parametrize("name", ["complete, 3 states", "grid, 4 states", "sites without edges"])
def test_derivatives_by_differences_and_the_diagonal(name: str) -> None:
    fast, _, random = compiled(name, "0.3*PL2 + PL3(connected)@0.5")
    theta, v = random.normal(size=(2, fast.n_parameters)) * 0.3
    step = 1e-6
    up, down = fast.value_grad(theta + step * v), fast.value_grad(theta - step * v)
    assert (up[0] - down[0]) / (2 * step) == pytest.approx(fast.value_grad(theta)[1] @ v, rel=1e-7)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * step), fast.hessian_product(theta, v), rtol=1e-6, atol=1e-5)
    diagonal = fast.hessian_diagonal(theta)
    for place in random.choice(fast.n_parameters, 12, replace=False):
        unit = np.zeros(fast.n_parameters)
        unit[place] = 1.0
        assert diagonal[place] == pytest.approx(-fast.hessian_product(theta, unit)[place], rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("text", ["PL2", "0.1*PL2"])
def test_one_thread_equals_three_in_several_chunks(text: str) -> None:
    fast, slow, random = compiled("complete, 3 states", text, 5000)
    theta, v = random.normal(size=(2, fast.n_parameters)) * 0.3
    results = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            value, gradient = fast.value_grad(theta)
            products = fast.row_products(theta, v).tobytes()
            results.append((value, gradient.tobytes(), fast.hessian_product(theta, v).tobytes(), products))
    assert results[0] == results[1] == results[2]
    np.testing.assert_allclose(fast.value_grad(theta)[1], slow.value_grad(theta)[1], rtol=1e-10, atol=1e-8)


@pytest.mark.slow
def test_a_fit_by_blocks_uses_the_kernel_and_finds_the_same_optimum() -> None:
    model = ff.Potts(8, 6)
    random = np.random.default_rng(1)
    codes = (random.integers(0, 4, (3000, 8)) + random.integers(0, 3, (3000, 1))).clip(0, 5)
    data = model.read(codes)
    drawn = Policy.parse("0.3*PL2").bind(model.structure()).draw(0, 0, 3000)
    assert isinstance(model.compile(data, drawn), PottsBlocksProblem)
    fit = ff.fit(model, codes, "0.3*PL2", sigma2=0.1)
    assert fit.converged
    slow = FieldProblem(model.field_arrays, data.codes, drawn)
    gradient = slow.value_grad(fit.theta)[1] - fit.theta / 0.1
    assert np.abs(gradient).max() <= 2e-6 * 3000


def test_what_the_kernel_refuses() -> None:
    model = ff.Potts(14, 21)
    bound = Policy.parse("PL3 + PL4(connected)").bind(model.structure())
    parts = bound.draw(0, 0, 2).parts
    assert blocks_support(parts[0], 21)
    assert not blocks_support(parts[1], 21)  # 21^4 entries
    with pytest.raises(DataError, match="missing value"):
        PottsBlocksProblem(np.full((2, 14), -1), model.tables, parts[:1])
    with pytest.raises(ValueError, match="a state that does not exist"):
        PottsBlocksProblem(np.full((2, 14), 21), model.tables, parts[:1])


def test_what_does_not_fit_is_refused_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 300)  # a machine of 90,000 bytes
    with pytest.raises(DataError, match=r"60 samples of 6 sites .* [\d,]+ bytes .* 90,000"):
        compiled("complete, 3 states", "PL2")


def test_the_bytes_of_blocks_are_at_least_those_of_the_arrays() -> None:
    model = ff.Potts(30, 21)
    rows = 2 * len(model.edge_array) * 21 * 24  # couplings, in whole cache lines of doubles, once for each end
    counted = bytes_of_blocks(5000, model.tables, 7)
    assert counted >= 8 * (3 * rows + 3 * 30 * 2048 * 24 + 2 * model.n_parameters) + 5000 * 30
    assert counted < 2 * 8 * (3 * rows + 3 * 30 * 2048 * 24 + 2 * model.n_parameters)
