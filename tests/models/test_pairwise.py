"""Binary pairwise fields against enumeration of each block's states, in plain NumPy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fieldfit import _kernels
from fieldfit.models.pairwise import PairwiseProblem, pairwise_supports
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import Component
from fieldfit.threads import set_threads
from fieldfit.types import DataError, ModelError


class ListOfBlocks:
    """Blocks given all the rest, as a policy would bind them."""

    def __init__(self, m, blocks, conditions_on_rest=True):
        self.name = "Blocks"
        self.m = m
        self.list = [tuple(block) for block in blocks]
        self.size = len(self.list)
        self.conditions_on_rest = conditions_on_rest

    def sizes(self, start, stop):
        return np.full(stop - start, self.size)

    def blocks(self, indices):
        chosen = [self.list[i] for i in indices]
        return np.cumsum([0] + [len(b) for b in chosen]), np.array([v for b in chosen for v in b], dtype=np.int64)

    def component(self, index, row=0):
        block = self.list[index]
        return Component(block, tuple(v for v in range(self.m) if v not in block))


def subsets(m, k):
    return ListOfBlocks(m, itertools.combinations(range(m), k))


@dataclass
class Field:
    """A field, its samples and the slow way to its numbers."""

    codes: np.ndarray
    states: tuple[float, float]
    edges: np.ndarray
    edge_parameter: np.ndarray
    bias_parameter: np.ndarray | None
    r: int
    parts: tuple[Any, ...]

    def problem(self, rows=slice(None), parts=None):
        m = self.codes.shape[1]
        field = PairwiseParameters(m, self.states, self.edges, self.edge_parameter, self.bias_parameter, self.r)
        return PairwiseProblem(self.codes[rows], field, self.parts if parts is None else parts)

    def features(self, x):
        f = np.zeros(self.r)
        np.add.at(f, self.edge_parameter, x[self.edges[:, 0]] * x[self.edges[:, 1]])
        if self.bias_parameter is not None:
            np.add.at(f, self.bias_parameter, x)
        return f

    def component(self, theta, x, block):
        """log p(x_A | rest), its gradient and its Hessian."""
        rows = []
        for values in itertools.product(self.states, repeat=len(block)):
            y = x.copy()
            y[list(block)] = values
            rows.append(self.features(y))
        table = np.array(rows)
        energy = table @ theta
        top = energy.max()
        p = np.exp(energy - top)
        log_z = top + np.log(p.sum())
        p /= p.sum()
        mean = p @ table
        observed = self.features(x)
        return observed @ theta - log_z, observed - mean, -(table - mean).T @ ((table - mean) * p[:, None])

    def selected(self, part, i):
        if part.indices is not None:
            return part.indices[part.indptr[i] : part.indptr[i + 1]].tolist()
        return range(part.family.size) if part.rows is None or part.rows[i] else []

    def oracle(self, theta):
        """Values (n, F), scores (n, F, r) and Hessians (n, r, r), β in the values, Hessians, and own weights only."""
        n, families = len(self.codes), len(self.parts)
        values, scores, hessians = (
            np.zeros((n, families)),
            np.zeros((n, families, self.r)),
            np.zeros((n, self.r, self.r)),
        )
        x = np.asarray(self.states, dtype=float)[self.codes]
        cache = {}
        for f, part in enumerate(self.parts):
            for i in range(n):
                for j in self.selected(part, i):
                    block = part.family.list[j]
                    key = (block, self.codes[i].tobytes())
                    if key not in cache:
                        cache[key] = self.component(theta, x[i], block)
                    value, score, hessian = cache[key]
                    beta = part.beta[j] if np.ndim(part.beta) else part.beta
                    values[i, f] += beta * value
                    scores[i, f] += score * (beta if np.ndim(part.beta) else 1.0)
                    hessians[i] += beta * hessian
        return values, scores, hessians


def sparse_part(rng, family, n, fraction, beta):
    chosen = rng.random((n, family.size)) < fraction
    indptr = np.concatenate(([0], np.cumsum(chosen.sum(axis=1))))
    return FamilySelection(family, beta, indptr=indptr, indices=np.nonzero(chosen)[1].astype(np.int64))


def make(seed, *, n=70, m=6, density=1.0, states=(0, 1), biases=True, tied=False, kinds=("PL1",), scale=1.0):
    rng = np.random.default_rng(seed)
    edges = np.array([e for e in itertools.combinations(range(m), 2) if rng.random() < density], dtype=np.int64)
    edges = edges.reshape(-1, 2)
    edges = rng.permutation(edges)
    flip = rng.random(len(edges)) < 0.5
    edges[flip] = edges[flip][:, ::-1]
    count = max(1, len(edges) // 3) if tied else len(edges)
    edge_parameter = rng.integers(count, size=len(edges)) if tied else rng.permutation(count)
    bias_parameter = None
    r = count
    if biases:
        bias_parameter = np.full(m, r) if tied else r + np.arange(m)
        r += 1 if tied else m
    ragged = ListOfBlocks(m, [(0,), (3, 1), (2,), (0, 4, 2), (1, 2, 3, 5), (1, 3)])
    parts = []
    for kind in kinds:
        name, _, form = kind.partition("/")
        family = ragged if name == "ragged" else subsets(m, int(name[2:]))
        beta: float | np.ndarray = rng.random() + 0.5
        if form.endswith("beta"):
            beta = rng.random(family.size) + 0.5
        if form.startswith("rows"):
            mask = rng.random(n) < (0.3 if "few" in form else 0.8)
            parts.append(FamilySelection(family, beta, rows=mask))  # type: ignore[arg-type]
        elif form.startswith("sparse"):
            parts.append(sparse_part(rng, family, n, 0.3, beta))
        else:
            parts.append(FamilySelection(family, beta))  # type: ignore[arg-type]
    codes = rng.integers(2, size=(n, m))
    field = Field(codes, states, edges, edge_parameter, bias_parameter, r, tuple(parts))
    return field, scale * rng.normal(size=r), rng


CASES = {
    "PL1 dense": {},
    "PL1 without biases": {"biases": False, "states": (-1, 1)},
    "PL2 dense": {"kinds": ("PL2",)},
    "PL2 spins": {"kinds": ("PL2",), "states": (-1, 1)},
    "PL3 odd states": {"kinds": ("PL3",), "states": (0.5, -2.0)},
    "PL4": {"kinds": ("PL4",), "states": (-1, 1), "biases": False},
    "PL5 and PL6": {"kinds": ("PL5", "PL6")},
    "ragged": {"kinds": ("ragged",), "states": (-1, 1)},
    "PL1 + PL2 + PL3": {"kinds": ("PL1", "PL2", "PL3")},
    "own weights": {"kinds": ("PL1/beta", "PL2/beta", "ragged/beta")},
    "rows": {"kinds": ("PL1/rows", "PL2/rows", "PL3/rows few", "PL2/rows few beta")},
    "sparse": {"kinds": ("PL1/sparse", "PL2/sparse beta", "PL3/sparse", "ragged/sparse"), "states": (-1, 1)},
    "mixed forms": {"kinds": ("PL1", "PL2/sparse", "ragged/rows few", "ragged/sparse beta")},
    "tied": {"kinds": ("PL1", "PL2", "ragged/sparse"), "tied": True, "states": (-1, 1)},
    "sparse graph": {"kinds": ("PL1", "PL2", "PL3/sparse"), "m": 9, "density": 0.12, "n": 90},
    "sparse graph of spins": {"kinds": ("PL1/rows", "PL3"), "m": 9, "density": 0.1, "states": (-1, 1)},
    "no edges": {"kinds": ("PL1", "PL2"), "density": 0.0},
    "more than one panel": {"kinds": ("PL1", "PL2/sparse", "ragged"), "m": 37, "n": 20, "density": 0.08},
    "few distinct samples": {"kinds": ("PL1", "PL2/rows", "PL2/sparse", "ragged/sparse beta"), "n": 300, "m": 6},
    "few distinct samples, long keys": {"kinds": ("PL1", "PL2/sparse"), "n": 400, "m": 8, "density": 0.5},
    "large weights": {"kinds": ("PL1", "PL2", "PL3/sparse", "ragged"), "scale": 1000.0},
}


#: Those with many states to enumerate.
LARGE = ("sparse graph of spins", "more than one panel", "sparse graph")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in CASES])
def case(request):
    options: Any = CASES[request.param]
    return make(list(CASES).index(request.param), **options)


def close(actual, expected, scale=1.0):
    expected = np.asarray(expected)
    size = max(scale, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10 * size)


def test_everything_agrees_with_enumeration(case):
    field, theta, rng = case
    problem = field.problem()
    values, scores, hessians = field.oracle(theta)
    betas = np.array([1.0 if np.ndim(p.beta) else p.beta for p in field.parts])
    psi = np.einsum("ifr,f->ir", scores, betas)
    v = rng.normal(size=field.r)
    np.testing.assert_array_equal(problem.betas, betas)
    for weight in (None, rng.normal(size=len(field.codes))):
        w = np.ones(len(field.codes)) if weight is None else weight
        value, gradient = problem.value_grad(theta, weight)
        close(value, w @ values.sum(axis=1))
        close(gradient, w @ psi)
        close(problem.hessian_product(theta, v, weight), np.einsum("i,irs,s->r", w, hessians, v))
        close(problem.score_product(theta, v, weight), psi.T @ (w * (psi @ v)))
    close(problem.row_values(theta), values.sum(axis=1))
    close(problem.row_products(theta, v), psi @ v)
    close(problem.family_scores(theta, 0, len(field.codes)), scores)
    close(problem.family_scores(theta, 5, 30), scores[5:30])
    close(problem.scores(theta, 3, 9), psi[3:9])
    w = rng.random(len(field.codes))
    close(problem.hessian_diagonal(theta, w), -np.einsum("i,irr->r", w, hessians))
    close(problem.information_diagonal(theta, w), -np.einsum("i,irr->r", w, hessians))
    for weight in (None, rng.normal(size=len(field.codes))):
        full = np.ones(len(field.codes)) if weight is None else weight
        close(problem.hessian_matrix(theta, weight), np.einsum("i,irs->rs", full, hessians))
    for _ in range(2):  # the second time with what the first has kept
        close(problem.family_statistics(theta, w), np.einsum("i,ifr,igr->fgr", w, scores, scores))
        close(problem.family_statistics(theta), np.einsum("ifr,igr->fgr", scores, scores))


def test_derivatives_by_central_differences(case):
    field, theta, rng = case
    theta = theta / max(1.0, np.abs(theta).max())
    problem = field.problem()
    v = rng.normal(size=field.r)
    h = 1e-5
    (up, gradient_up), (down, gradient_down) = (problem.value_grad(theta + s * h * v) for s in (1, -1))
    _, gradient = problem.value_grad(theta)
    np.testing.assert_allclose(gradient @ v, (up - down) / (2 * h), rtol=1e-6, atol=1e-4)
    product = problem.hessian_product(theta, v)
    np.testing.assert_allclose(product, (gradient_up - gradient_down) / (2 * h), rtol=1e-5, atol=1e-4)


def test_many_shared_parameters_have_a_diagonal_without_cross_terms():
    field, theta, _ = make(3, m=20, tied=True, n=30)
    shared = np.arange(95).repeat(2)
    field = Field(field.codes, field.states, field.edges, shared, None, 95, field.parts)
    free = Field(field.codes, field.states, field.edges, np.arange(190), None, 190, field.parts)
    theta = np.resize(theta, 95)
    diagonal = field.problem().hessian_diagonal(theta)
    apart = free.problem().hessian_diagonal(theta[shared])
    assert len(field.edges) == 190
    close(diagonal[32:], np.bincount(shared, apart)[32:])


@pytest.mark.slow
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("states", [(0, 1), (-1, 1), (0.5, 2.0)])
def test_preconditioner_inverts_the_hessian_where_all_variances_are_equal(biases, states):
    """At θ = 0 the conditional variances are the same for all samples; the full graph lacks the diagonal of W only."""
    field, _, _ = make(4, n=4000, m=12, biases=biases, states=states)
    problem = field.problem()
    inverse = problem.preconditioner(np.zeros(field.r), np.zeros(field.r))
    units = np.eye(field.r)
    applied = np.array([inverse(u) for u in units])
    hessian = -np.array([problem.hessian_product(np.zeros(field.r), u) for u in units])
    np.testing.assert_allclose(applied, applied.T, rtol=0, atol=1e-12 * np.abs(applied).max())
    assert np.linalg.eigvalsh(applied).min() > 0
    spectrum = np.sort(np.linalg.eigvals(applied @ hessian).real)
    assert spectrum[0] > 0.2
    # Without biases a mean far from 0 makes the missing diagonal of W count for more.
    assert spectrum[-1] < (1.3 if biases or sum(states) == 0 else 4.0)


def test_preconditioner_is_for_dense_graphs_without_shared_parameters():
    tied, _, _ = make(4, tied=True)
    assert tied.problem().preconditioner(np.zeros(tied.r), np.zeros(tied.r)) is None
    field, _, _ = make(4, m=20, density=0.1)
    assert field.problem().preconditioner(np.zeros(field.r), np.zeros(field.r)) is None


@pytest.mark.slow
@pytest.mark.parametrize("density", [1.0, 0.05])
def test_one_thread_equals_two(density):
    kinds = ("PL1", "PL2/rows few", "PL1/sparse", "PL2/sparse beta")
    field, theta, rng = make(1, n=3000, m=24, density=density, kinds=kinds, scale=0.5)
    v, w = rng.normal(size=field.r), rng.random(3000)
    results = []
    for threads in (1, 2):
        set_threads(threads)
        try:
            problem = field.problem()
            value, gradient = problem.value_grad(theta, w)
            results.append(
                (
                    *(value, gradient, problem.hessian_product(theta, v), problem.row_values(theta)),
                    *(problem.row_products(theta, v), problem.hessian_diagonal(theta)),
                    *(problem.family_statistics(theta, w), problem.hessian_matrix(theta, w)),
                )
            )
        finally:
            set_threads(None)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_shards_add_up():
    kinds = ("PL1", "PL2/rows", "PL2/sparse", "PL3/sparse")
    field, theta, rng = make(2, n=1500, m=12, kinds=kinds)
    v = rng.normal(size=field.r)
    whole = field.problem()
    total = [0.0, 0.0, 0.0]
    for start, stop in ((0, 100), (100, 1041), (1041, 1500)):
        parts = []
        for part in field.parts:
            if part.indices is not None:
                pointer = part.indptr[start : stop + 1]
                chosen = part.indices[pointer[0] : pointer[-1]]
                parts.append(FamilySelection(part.family, part.beta, indptr=pointer - pointer[0], indices=chosen))
            else:
                rows = None if part.rows is None else part.rows[start:stop]
                parts.append(FamilySelection(part.family, part.beta, rows=rows))
        shard = field.problem(slice(start, stop), tuple(parts))
        value, gradient = shard.value_grad(theta)
        total = [total[0] + value, total[1] + gradient, total[2] + shard.hessian_product(theta, v)]
    value, gradient = whole.value_grad(theta)
    close(total[0], value)
    close(total[1], gradient)
    close(total[2], whole.hessian_product(theta, v))


def test_statistics_do_not_depend_on_weights_of_families():
    field, theta, rng = make(3, n=90, kinds=("PL1", "PL2/rows", "PL2/sparse"))
    problem = field.problem()
    before = problem.family_statistics(theta)
    np.testing.assert_array_equal(problem.with_betas(rng.random(3)).family_statistics(theta), before)
    # Lists of weights are a part of the scores, and with_betas multiplies them.
    field, theta, rng = make(4, n=90, kinds=("PL1/beta", "PL2/sparse"))
    problem = field.problem()
    before = problem.family_statistics(theta)
    after = problem.with_betas(np.array([2.0, 3.0])).family_statistics(theta)
    close(after[0, 0], 4 * before[0, 0])
    close(after[0, 1], 2 * before[0, 1])
    close(after[1, 1], before[1, 1])


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("edges", lambda a: a + 4),
        ("edges", lambda a: a[:, :1].copy()),
        ("edges", lambda a: a - 1),
        ("residual", lambda a: a[1:]),
        ("pair_terms", lambda a: a[1:]),
        ("weight", lambda a: a[1:]),
        ("families", lambda a: 0),
        ("out", lambda a: a[1:]),
        ("n_threads", lambda a: 0),
    ],
)
def test_moments_refuse_what_does_not_fit(name, spoil):
    arguments: dict[str, Any] = {
        "edges": np.array([[0, 1], [1, 2]], dtype=np.int32),
        "codes": np.zeros((5, 3), dtype=np.uint8),
        "residual": np.zeros(2 * 5 * 3),
        "pair_terms": np.zeros(2 * 5 * 2),
        "weight": np.ones(5),
        "state0": 0.0,
        "gap": 1.0,
        "families": 2,
        "out": np.zeros(2 * 2 * 2),
        "n_threads": 1,
    }
    _kernels.pairwise_moments(**arguments)
    with pytest.raises(ValueError, match="pairwise_moments"):
        _kernels.pairwise_moments(**(arguments | {name: spoil(arguments[name])}))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("edge_number", lambda a: a + 2),
        ("edge_number", lambda a: a[1:]),
        ("edge_number", lambda a: a - 1),
        ("matrix", lambda a: a[:, 1:].copy()),
        ("bias", lambda a: a[1:]),
        ("targets", lambda a: a + 2),
        ("targets", lambda a: a - 1),
        ("targets", lambda a: a[:, :0].copy()),
        ("beta", lambda a: a[1:]),
        ("row_weight", lambda a: a[1:]),
        ("indptr", lambda a: a[1:]),
        ("indptr", lambda a: a + 1),
        ("indptr", lambda a: a[::-1].copy()),
        ("component", lambda a: a + 1),
        ("component", lambda a: a - 1),
        ("entry_weight", lambda a: a[1:]),
        ("out", lambda a: a[:, 1:].copy()),
        ("out", lambda a: a[:2, :2].copy()),
        ("n_threads", lambda a: 0),
    ],
)
def test_information_refuses_what_does_not_fit(name, spoil):
    arguments: dict[str, Any] = {
        "codes": np.zeros((4, 3), dtype=np.uint8),
        "edge_number": np.array([[-1, 0, -1], [0, -1, 1], [-1, 1, -1]], dtype=np.int32),
        "matrix": np.zeros((3, 3)),
        "bias": np.zeros(3),
        "targets": np.array([[0, 1], [1, 2]], dtype=np.int32),
        "beta": np.ones(2),
        "row_weight": np.ones(4),
        "indptr": np.array([0, 1, 2, 2, 3]),
        "component": np.array([0, 1, 0], dtype=np.int32),
        "entry_weight": np.ones(3),
        "out": np.zeros((5, 5)),
        "n_threads": 1,
    }
    _kernels.pairwise_information(**arguments)
    with pytest.raises(ValueError, match="pairwise_information"):
        _kernels.pairwise_information(**(arguments | {name: spoil(arguments[name])}))


def test_many_samples_and_variables_agree_with_formula():
    """PL1 = m logistic regressions, over several chunks, panels and words of bits."""
    field, theta, _ = make(5, n=2100, m=70, scale=0.3)
    x = field.codes.astype(float)
    W = np.zeros((70, 70))
    W[field.edges[:, 0], field.edges[:, 1]] = theta[field.edge_parameter]
    W += W.T
    fields = x @ W + theta[field.bias_parameter]
    beta = field.parts[0].beta
    value, gradient = field.problem().value_grad(theta)
    close(value, beta * np.sum(x * fields - np.logaddexp(0, fields)))
    residual = beta * (x - 1 / (1 + np.exp(-fields)))
    expected = np.zeros(field.r)
    outer = residual.T @ x
    expected[field.edge_parameter] = (outer + outer.T)[field.edges[:, 0], field.edges[:, 1]]
    expected[field.bias_parameter] = residual.sum(axis=0)
    close(gradient, expected)


@pytest.mark.parametrize("kinds", [("PL1",), ("PL2",), ("PL3",), ("PL1/sparse", "PL2/sparse")])
def test_extreme_weights_stay_finite(kinds):
    field, theta, rng = make(6, kinds=kinds, states=(-1, 1))
    theta = 1e6 * np.sign(theta)
    problem = field.problem()
    value, gradient = problem.value_grad(theta)
    values, scores, _ = field.oracle(theta)
    assert np.isfinite(value)
    close(value, values.sum())
    close(gradient, np.einsum("ifr,f->r", scores, problem.betas))
    assert np.isfinite(problem.hessian_product(theta, rng.normal(size=field.r))).all()


@pytest.mark.slow
def test_values_between_the_two_routes_join():
    """Energies just below and above the bound of the route without exponentials give the same curve."""
    field, theta, _ = make(7, kinds=("PL2",), n=20)
    problem = field.problem()
    for scale in np.linspace(1, 600, 40):
        values, scores, _ = field.oracle(scale * theta)
        value, gradient = problem.value_grad(scale * theta)
        close(value, values.sum())
        close(gradient, np.einsum("ifr,f->r", scores, problem.betas))


def test_not_a_number_is_not_hidden():
    field, theta, _ = make(8, kinds=("PL1", "PL2"))
    theta[0] = np.nan
    value, gradient = field.problem().value_grad(theta)
    assert np.isnan(value)
    assert np.isnan(gradient).any()


def test_routing():
    assert pairwise_supports(FamilySelection(subsets(13, 12), 1.0))
    assert not pairwise_supports(FamilySelection(subsets(13, 13), 1.0))
    assert not pairwise_supports(FamilySelection(ListOfBlocks(4, [(0,), (1, 2)], conditions_on_rest=False), 1.0))  # type: ignore[arg-type]


def test_bad_input_is_a_sentence():
    field, theta, _ = make(0)
    good: Any = (
        field.codes,
        field.states,
        field.edges,
        field.edge_parameter,
        field.bias_parameter,
        field.r,
        field.parts,
    )

    def changed(position, value):
        given = [*good[:position], value, *good[position + 1 :]]
        return PairwiseProblem(given[0], PairwiseParameters(6, *given[1:-1]), given[-1])

    codes = field.codes.copy()
    codes[4, 2] = 2
    with pytest.raises(DataError, match="Row 4, variable 2 has the code 2"):
        changed(0, codes)
    with pytest.raises(DataError, match="rows and 6 columns"):
        changed(0, field.codes[:0])
    with pytest.raises(ModelError, match="two different finite states"):
        changed(1, (1, 1))
    edges = field.edges.copy()
    edges[1] = (3, 3)
    with pytest.raises(ModelError, match=r"\(3, 3\) must join two different"):
        changed(2, edges)
    edges[1] = edges[0][::-1]
    with pytest.raises(ModelError, match="given twice"):
        changed(2, edges)
    with pytest.raises(ModelError, match="edge_parameter needs"):
        changed(3, field.edge_parameter + field.r)
    with pytest.raises(ModelError, match="bias_parameter needs"):
        changed(4, field.bias_parameter[1:])
    with pytest.raises(ModelError, match="given all the rest"):
        changed(6, (FamilySelection(ListOfBlocks(6, [(0,)], conditions_on_rest=False), 1.0),))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="weights β"):
        changed(6, (FamilySelection(subsets(6, 1), np.ones(5)),))
    problem = field.problem()
    with pytest.raises(ModelError, match="θ must have the shape"):
        problem.value_grad(theta[1:])
    with pytest.raises(DataError, match="row_weight must have the shape"):
        problem.value_grad(theta, np.ones(3))


def kernel_arguments(problem):
    """What the kernel's constructor takes, and what `gradient` takes."""
    layout = problem._layout
    pointer, adjacent, adjacent_edge = layout.edge_number.adjacency
    q, bias = problem.field.to_field(np.zeros(problem.n_parameters))
    compiled = {
        "n": layout.n, "columns": layout.columns, "rows": layout.rows, "edges": problem.field.edges,
        "adjacent_pointer": pointer, "adjacent": adjacent, "adjacent_edge": adjacent_edge, "meta": layout.meta,
        "meta_weighted": layout.meta_weighted, "targets": layout.targets, "pairs": layout.pairs, "beta": layout.beta,
        "indptr": layout.indptr, "entry_component": layout.entry_component, "row_weight": layout.row_weight,
        "entry_weight": layout.entry_weight,
    }  # fmt: skip
    point = {
        "q": q, "bias": bias, "edges_out": np.empty(len(q)), "biases_out": np.empty(len(bias)), "n_threads": 1,
    }  # fmt: skip
    return compiled, point


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("n", lambda n: n + 64),
        ("n_threads", lambda n: 0),
        ("rows", lambda a: a[1:]),
        ("edges", lambda a: a + 6),
        ("q", lambda a: a[1:]),
        ("bias", lambda a: a[1:]),
        ("meta", lambda a: a[:, 1:].copy()),
        ("meta", lambda a: a + 1),
        ("meta_weighted", lambda a: a + 1),
        ("meta_weighted", lambda a: a[1:]),
        ("targets", lambda a: a[:-1]),
        ("targets", lambda a: a + 6),
        ("pairs", lambda a: a[:-1]),
        ("pairs", lambda a: a - 2),
        ("beta", lambda a: a[:-1]),
        ("indptr", lambda a: a[:-1]),
        ("indptr", lambda a: a[::-1].copy()),
        ("entry_component", lambda a: a[:-1]),
        ("entry_component", lambda a: a + 10_000),
        ("edges_out", lambda a: a[1:]),
        ("biases_out", lambda a: a[1:]),
    ],
)
def test_kernel_refuses_what_does_not_fit(name, spoil):
    field, _, _ = make(9, kinds=("PL2", "PL2/sparse"))
    compiled, point = kernel_arguments(field.problem())
    _kernels.PairwiseBlocks(**compiled).gradient(**point)
    given = compiled if name in compiled else point
    given[name] = spoil(given[name])
    with pytest.raises(ValueError, match="pairwise: "):
        _kernels.PairwiseBlocks(**compiled).gradient(**point)


def test_kernel_refuses_outputs_and_directions_that_do_not_fit():
    field, _, _ = make(9, kinds=("PL2", "PL2/sparse"))
    problem = field.problem()
    layout = problem._layout
    compiled, point = kernel_arguments(problem)
    blocks, (q, bias) = _kernels.PairwiseBlocks(**compiled), (point["q"], point["bias"])
    rows, entries = np.empty((len(layout.used), layout.n)), np.empty(len(layout.entry_component))
    residual, pair_terms = np.empty((layout.n, len(bias))), np.empty((layout.n, len(q)))
    with pytest.raises(ValueError, match="pairwise: dq"):
        blocks.hessian_product(**point, dq=q[1:], dbias=bias)
    with pytest.raises(ValueError, match="pairwise: dbias"):
        blocks.products(q, bias, q, bias[1:], row_out=rows, entry_out=entries, n_threads=1)
    with pytest.raises(ValueError, match="pairwise: row_out"):
        blocks.values(q, bias, row_out=rows[1:], entry_out=entries, n_threads=1)
    with pytest.raises(ValueError, match="pairwise: entry_out"):
        blocks.values(q, bias, row_out=rows, entry_out=entries[1:], n_threads=1)
    with pytest.raises(ValueError, match="pairwise: residual"):
        blocks.scores(q, bias, residual=residual[1:], pair_terms=pair_terms, n_threads=1)
    with pytest.raises(ValueError, match="pairwise: row_weight needs"):
        blocks.gradient(**point, row_weight=np.ones(layout.n))
    with pytest.raises(ValueError, match="pairwise: row_weight is too short"):
        blocks.gradient(**point, row_weight=np.ones(1), entry_weight=entries)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("adjacent_pointer", lambda a: a[:-1]),
        ("adjacent_pointer", lambda a: a[::-1].copy()),
        ("adjacent", lambda a: a + 100),
        ("adjacent_edge", lambda a: a + 100),
    ],
)
def test_kernel_refuses_a_wrong_adjacency(name, spoil):
    field, _, _ = make(9, m=20, density=0.1)
    compiled, _ = kernel_arguments(field.problem())
    assert compiled["rows"].size == 0
    compiled[name] = spoil(compiled[name])
    with pytest.raises(ValueError, match="pairwise: "):
        _kernels.PairwiseBlocks(**compiled)
