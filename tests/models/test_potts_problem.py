"""The Potts kernel against the general engine, enumeration and differences, on complete and sparse graphs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.potts_blocks_problem import PottsBlocksProblem
from fieldfit.models.potts_problem import PottsProblem, potts_supports, worth_a_kernel
from fieldfit.policies import Policy
from fieldfit.threads import use_threads
from fieldfit.types import DataError, ModelError

MODELS = {
    "complete, 3 states": lambda: ff.Potts(6, 3),
    "complete, 5 states, no fields": lambda: ff.Potts(5, 5, fields=False),
    "grid, 4 states": lambda: ff.Potts.grid(3, 3, 4),
    "tied grid": lambda: ff.Potts.grid(3, 4, 3, tied=True),
    "agreement": lambda: ff.Potts(5, 3, couplings="agree"),
    "tied agreement": lambda: ff.Potts.grid(3, 3, 3, tied=True, couplings="agree"),
    "a site without edges": lambda: ff.Potts(4, 3, [(0, 1), (2, 0)]),
    "wide rows": lambda: ff.Potts(3, 40),
    "two states": lambda: ff.Potts(7, 2),
    "many sites": lambda: ff.Potts(18, 21),
    "joined sites, 2 states": lambda: ff.Potts(53, 2),
    "joined sites, 5 states": lambda: ff.Potts(67, 5),
    "joined sites, 21 states": lambda: ff.Potts(33, 21),
}
POLICIES = ["PL1", "PL1@0.7", "0.5*PL1", "0.4*PL1/row", "PL1@0.5 + 0.3*Blocks({2},{0})@2", "0.6*PL1[1:3]@[2,0.5]"]


def compiled(name: str, text: str, n: int = 300) -> tuple[PottsProblem, FieldProblem, Any]:
    model = MODELS[name]()
    random = np.random.default_rng(sum(map(ord, name)))
    codes = random.integers(0, model.q, (n, model.m))
    data = model.read(codes)
    selection = Policy.parse(text).bind(model.structure()).draw(3, 0, n)
    fast = PottsProblem(data.codes, model.tables, selection.parts)
    return fast, FieldProblem(model.field_arrays, data.codes, selection), random


@pytest.mark.parametrize("text", POLICIES)
@pytest.mark.parametrize("name", list(MODELS))
def test_agrees_with_the_general_engine(name: str, text: str) -> None:
    large = MODELS[name]().n_parameters > 20_000
    fast, slow, random = compiled(name, text, 60 if large else 300)
    r = fast.n_parameters
    assert (fast.n_samples, r, fast.n_families) == (slow.n_samples, slow.n_parameters, slow.n_families)
    theta, v = random.normal(size=(2, r)) * 0.5
    for weight in (None, random.uniform(0.5, 2.0, fast.n_samples)):
        for left, right in zip(fast.value_grad(theta, weight), slow.value_grad(theta, weight), strict=True):
            np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(
            fast.hessian_product(theta, v, weight), slow.hessian_product(theta, v, weight), rtol=1e-10, atol=1e-10
        )
    np.testing.assert_allclose(fast.row_values(theta), slow.row_values(theta), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fast.row_products(theta, v), slow.row_products(theta, v), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fast.betas, slow.betas)
    if not large:
        np.testing.assert_allclose(
            fast.family_scores(theta, 5, 30), slow.family_scores(theta, 5, 30), rtol=1e-10, atol=1e-10
        )
    other = np.linspace(0.3, 2.0, fast.n_families)
    left, right = fast.with_betas(other), slow.with_betas(other)
    np.testing.assert_allclose(left.value_grad(theta)[1], right.value_grad(theta)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", list(MODELS))
def test_diagonal_is_that_of_the_hessian_products(name: str) -> None:
    fast, _, random = compiled(name, "PL1", 40)
    theta = random.normal(size=fast.n_parameters) * 0.5
    diagonal = fast.hessian_diagonal(theta)
    for place in random.choice(fast.n_parameters, min(12, fast.n_parameters), replace=False):
        unit = np.zeros(fast.n_parameters)
        unit[place] = 1.0
        exact = -fast.hessian_product(theta, unit)[place]
        if fast.exact_diagonal:
            assert diagonal[place] == pytest.approx(exact, rel=1e-9, abs=1e-10)
        else:
            assert diagonal[place] >= 0


def test_agrees_with_enumeration() -> None:
    model = ff.Potts(4, 3)
    random = np.random.default_rng(2)
    theta = random.normal(size=model.n_parameters)
    codes = random.integers(0, 3, (20, 4))
    problem = PottsProblem(
        model.read(codes).codes, model.tables, Policy.parse("PL1").bind(model.structure()).draw(0, 0, 20).parts
    )
    names = {name: place for place, name in enumerate(model.parameter_names)}

    def energy(x: tuple[int, ...]) -> float:
        pairs = sum(theta[names[f"x{j}={x[j]}:x{k}={x[k]}"]] for j in range(4) for k in range(j + 1, 4))
        return float(pairs + sum(theta[names[f"x{j}={x[j]}"]] for j in range(4)))

    joint = {x: np.exp(energy(x)) for x in product(range(3), repeat=4)}
    expected = []
    for row in codes.tolist():
        total = 0.0
        for j in range(4):
            others = sum(joint[(*row[:j], a, *row[j + 1 :])] for a in range(3))
            total += np.log(joint[tuple(row)] / others)
        expected.append(total)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-10)


def plain_softmax(model: ff.Potts, codes: Any, theta: Any) -> tuple[float, Any]:
    """Value and gradient of PL1, by one-hot rows of each site."""
    (n, m), q = codes.shape, model.q
    couplings = theta[: model.n_couplings].reshape(-1, q, q)
    fields = theta[model.n_couplings :].reshape(m, q)
    field = np.repeat(fields[:, None, :], n, axis=1)  # (m, n, q)
    for table, (a, b) in zip(couplings, model.tables.edges, strict=True):
        field[a] += table[:, codes[:, b]].T
        field[b] += table[codes[:, a]]
    p = np.exp(field - field.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    observed = np.eye(q)[codes.T]
    residual, by_table = observed - p, np.zeros_like(couplings)
    for table, (a, b) in zip(by_table, model.tables.edges, strict=True):
        np.add.at(table.T, codes[:, b], residual[a])
        np.add.at(table, codes[:, a], residual[b])
    return np.log((p * observed).sum(axis=2)).sum(), np.concatenate([by_table.ravel(), residual.sum(axis=1).ravel()])


def check_against_softmax(model: ff.Potts, n: int, single: bool) -> None:
    random = np.random.default_rng(model.q)
    codes = random.integers(0, model.q, (n, model.m))
    codes[:2] = [[model.q - 1], [0]]
    theta = random.normal(size=model.n_parameters)
    parts = Policy.parse("PL1").bind(model.structure()).draw(0, 0, n).parts
    value, gradient = plain_softmax(model, codes, theta)
    found, found_gradient = PottsProblem(codes, model.tables, parts, single=single).value_grad(theta)
    tolerance = 1e-4 if single else 1e-10  # of sums over n samples
    assert found == pytest.approx(value, rel=tolerance)
    np.testing.assert_allclose(found_gradient, gradient, atol=tolerance)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("q", [2, 4, 5, 8, 9, 13, 17, 20, 21, 25, 29, 32, 33, 34, 37, 61, 65, 97, 255, 256])
def test_every_width_of_a_row_agrees_with_a_plain_softmax(q: int, single: bool) -> None:
    check_against_softmax(ff.Potts(4, q, [(0, 1), (1, 2), (0, 2), (3, 1)]), 70, single)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("q", [2, 3, 4, 6, 9, 12, 21, 33])
def test_rows_of_joined_sites_agree_with_a_plain_softmax(q: int, single: bool) -> None:
    # Up to four sites of a complete graph are joined, and the last task has fewer. Edges have either direction.
    edges = [(a, b) if (a * b) % 3 else (b, a) for a in range(67) for b in range(a + 1, 67)]
    check_against_softmax(ff.Potts(67, q, edges), 75, single)


def test_gradient_and_hessian_by_differences() -> None:
    fast, _, random = compiled("grid, 4 states", "PL1 + 0.5*Blocks({1},{0})@2")
    theta, v = random.normal(size=(2, fast.n_parameters)) * 0.3
    step = 1e-6
    up, down = fast.value_grad(theta + step * v), fast.value_grad(theta - step * v)
    assert (up[0] - down[0]) / (2 * step) == pytest.approx(fast.value_grad(theta)[1] @ v, rel=1e-7)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * step), fast.hessian_product(theta, v), rtol=1e-6, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["many sites", "complete, 3 states", "a site without edges"])
def test_one_thread_equals_two(name: str) -> None:
    fast, _, random = compiled(name, "PL1", 2000 if name == "many sites" else 9000)
    theta, v = random.normal(size=(2, fast.n_parameters)) * 0.3
    results = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            value, gradient = fast.value_grad(theta)
            results.append((value, gradient.tobytes(), fast.hessian_product(theta, v).tobytes()))
    assert results[0] == results[1] == results[2]


def test_not_a_number_is_not_hidden() -> None:
    fast, _, _ = compiled("complete, 3 states", "PL1")
    theta = np.zeros(fast.n_parameters)
    theta[3] = np.nan
    assert np.isnan(fast.value_grad(theta)[0])
    theta[3] = 2000.0
    value, gradient = fast.value_grad(theta)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_which_problems_use_the_kernel() -> None:
    complete = ff.Potts(100, 21)
    assert worth_a_kernel(5000, 100, 21, complete.edge_array)
    assert not worth_a_kernel(5000, 16, 3, ff.Potts.grid(4, 4, 3).edge_array)
    model = ff.Potts(12, 9)
    codes = np.random.default_rng(0).integers(0, 9, (3000, 12))
    data = model.read(codes)
    bound = Policy.parse("PL1 + 0.01*PL2").bind(model.structure())
    problem: Any = model.compile(data, bound.draw(0, 0, 3000))
    assert [type(part) for part in problem.parts] == [PottsProblem, PottsBlocksProblem]
    assert not potts_supports(bound.draw(0, 0, 3000).parts[1])
    wide = Policy.parse("PL1 + 0.001*PL6").bind(model.structure())  # 9^6 entries
    problem = model.compile(data, wide.draw(0, 0, 3000))
    assert [type(part) for part in problem.parts] == [PottsProblem, FieldProblem]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["FL", "PL7", "PL4"])
def test_samples_with_the_same_rest_share_one_sum(policy: str) -> None:
    """3^8, 3^7 or 3^4 states once for each configuration of the rest, not once for each of the 3,000 samples."""
    model = ff.Potts(8, 3)
    assert worth_a_kernel(3000, 8, 3, model.edge_array)
    data = model.read(np.random.default_rng(0).integers(0, 3, (3000, 8)))
    problem = model.compile(data, Policy.parse(policy).bind(model.structure()).draw(0, 0, 3000))
    assert isinstance(problem, FieldProblem)


def test_shared_sums_take_no_gigabytes() -> None:
    """495 components × 5,000 samples would take 3 GB in the general engine, for an evaluation that is 20 times as fast."""
    model = ff.Potts(12, 2)
    data = model.read(np.random.default_rng(0).integers(0, 2, (5000, 12)))
    problem = model.compile(data, Policy.parse("PL4").bind(model.structure()).draw(0, 0, 5000))
    assert isinstance(problem, PottsBlocksProblem)


@pytest.mark.slow
def test_a_fit_by_the_kernel_is_that_of_the_general_engine() -> None:
    model = ff.Potts(10, 6, couplings="agree")
    random = np.random.default_rng(4)
    truth = random.normal(scale=0.3, size=model.n_parameters)
    data = model.sample(truth, 2500, 1, method="gibbs").values
    fit = ff.fit(model, data, "PL1", sigma2=5.0, tol=1e-9)
    assert isinstance(fit.objective_function.problem, PottsProblem)
    table = model.read(data)
    selection = Policy.parse("PL1").bind(model.structure()).draw(0, 0, 2500)
    slow = FieldProblem(model.field_arrays, table.codes, selection)
    gradient = slow.value_grad(fit.theta)[1] - fit.theta / 5.0
    assert np.abs(gradient).max() < 1e-9 * 2500 * 2
    assert np.isfinite(fit.standard_errors()).all()


@pytest.mark.parametrize("tol", [1e-5, 2e-6])
@pytest.mark.parametrize("seed", [1, 2, 6, 8, 10])
def test_fits_in_single_precision_converge(seed: int, tol: float) -> None:
    # The values are too rough for these: line searches that rely on them stop early.
    random = np.random.default_rng(seed)
    codes = (random.poisson(1.0, (400, 20)) + random.poisson(1.0, (400, 1))).clip(0, 20)
    model = ff.Potts(20, 21, precision="single")
    fit = ff.fit(model, codes, "PL1", sigma2=0.1, tol=tol, check_drift=False)
    assert fit.converged
    parts = Policy.parse("PL1").bind(model.structure()).draw(0, 0, 400).parts
    gradient = PottsProblem(codes, model.tables, parts).value_grad(fit.theta)[1] - fit.theta / 0.1
    assert np.abs(gradient).max() <= 400 * (tol + 2e-6)


def test_what_does_not_fit_is_refused_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1000)  # a machine of a million bytes
    with pytest.raises(DataError, match=r"60 samples of 18 sites .* [\d,]+ bytes .* 1,000,000"):
        compiled("many sites", "PL1", 60)


def test_what_is_refused() -> None:
    fast, _, _ = compiled("complete, 3 states", "PL1")
    with pytest.raises(ModelError, match="shape"):
        fast.value_grad(np.zeros(3))
    with pytest.raises(DataError, match="row_weight"):
        fast.value_grad(np.zeros(fast.n_parameters), np.ones(3))
    model = ff.Potts(3, 3)
    parts = Policy.parse("PL1").bind(model.structure()).draw(0, 0, 2).parts
    with pytest.raises(DataError, match="missing"):
        PottsProblem(np.array([[0, 1, -1], [0, 0, 0]]), model.tables, parts)
    with pytest.raises(ValueError, match="state that does not exist"):
        PottsProblem(np.array([[0, 1, 3], [0, 0, 0]]), model.tables, parts)


def rounded(name: str, n: int, text: str = "PL1") -> tuple[PottsProblem, PottsProblem, Any]:
    """The same components in double and in single precision."""
    double, _, random = compiled(name, text, n)
    parts = [part.selected for part in double._parts]
    return double, PottsProblem(double._columns.T, double.tables, parts, single=True), random


@pytest.mark.parametrize("text", ["PL1", "0.5*PL1"])
@pytest.mark.parametrize("name", ["complete, 3 states", "wide rows", "many sites", "grid, 4 states", "tied grid"])
def test_single_precision_rounds_and_no_more(name: str, text: str) -> None:
    double, single, random = rounded(name, 40_000 if name == "complete, 3 states" else 400, text)
    theta, v = random.normal(size=(2, double.n_parameters)) * 0.3
    weight = random.uniform(0.5, 2.0, double.n_samples)
    (value, gradient), (rough, near) = double.value_grad(theta, weight), single.value_grad(theta, weight)
    assert rough != value  # the numbers do come from another precision
    assert rough == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(near, gradient, atol=3e-6 * weight.sum())
    product = double.hessian_product(theta, v, weight)
    np.testing.assert_allclose(
        single.hessian_product(theta, v, weight), product, atol=1e-5 * weight.sum() * np.abs(v).max()
    )
    np.testing.assert_allclose(single.row_values(theta), double.row_values(theta), atol=1e-4)
    with use_threads(3):
        again = single.value_grad(theta, weight)
    assert again[0] == rough
    assert again[1].tobytes() == near.tobytes()


def test_a_fit_in_single_precision_has_nearly_the_same_parameters() -> None:
    random = np.random.default_rng(5)
    codes = (random.poisson(1.0, (3000, 10)) + random.poisson(1.0, (3000, 1))).clip(0, 7)
    fits = {
        precision: ff.fit(ff.Potts(10, 8, precision=precision), codes, sigma2=0.01, tol=1e-5)
        for precision in ("double", "single")
    }
    assert fits["single"].converged
    difference = np.abs(fits["single"].theta - fits["double"].theta).max()
    assert 0 < difference < 1e-4 * np.abs(fits["double"].theta).max()
    assert fits["single"].objective == pytest.approx(fits["double"].objective, rel=1e-6)
    with pytest.raises(ModelError, match="precision is 'half'"):
        ff.Potts(3, 2, precision="half")


def test_what_does_not_fit_is_refused_before_any_array_of_parameters_is_made(monkeypatch):
    monkeypatch.setattr("fieldfit.data.memory.os.sysconf", lambda name: 1024)
    monkeypatch.setattr("fieldfit.api.estimation.Penalties.of", lambda *given: pytest.fail("an array as long as θ"))
    with pytest.raises(
        DataError, match=r"need [\d,]+ bytes for one evaluation, and there are 1,048,576 bytes of memory"
    ):
        ff.fit(ff.Potts(60, 5), np.zeros((10, 60), dtype=int), "PL1", sigma2=1.0)
