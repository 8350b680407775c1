"""Other weights of the families without compiling, equal samples that come once, and the Hessian matrix."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.data.sequences import Sequences
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.equal_samples import equal_samples
from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.policies import Policy
from fieldfit.policies.selection import FamilySelection


def table_of(model, n, seed):
    theta = np.random.default_rng(seed).normal(scale=0.4, size=model.n_parameters)
    return Table(model.sample(theta, n, seed).codes, model.names, model.states), theta


def sequences(n=30, n_labels=3, n_features=6, seed=0):
    random = np.random.default_rng(seed)
    lengths = random.integers(2, 7, n)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    tokens = int(offsets[-1])
    return Sequences(
        offsets,
        np.arange(tokens + 1),
        random.integers(0, n_features, tokens).astype(np.int32),
        None,
        random.integers(0, n_labels, tokens).astype(np.int32),
        n_features,
        n_labels,
    )


FIELDS = {
    "machine": lambda: ff.BoltzmannMachine(5, biases=True),
    "wide machine": lambda: ff.BoltzmannMachine(13),  # FL of 13 variables is the general field's
    "potts": lambda: ff.Potts(4, 3),
}
CHAINS = {
    "crf": lambda data: ChainCRF(data.n_labels, data.n_features, pairs="all").observe(data),
    "boltzmann chain": lambda data: BoltzmannChain(data.n_labels, data.n_features),
}


def example(name):
    if name in FIELDS:
        model = FIELDS[name]()
        return model, *table_of(model, 60, 3)
    data = sequences()
    chain = CHAINS[name](data)
    return chain, data, np.random.default_rng(1).normal(scale=0.4, size=chain.n_parameters)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("machine", "PL1 + 0.5*PL2 + Partition(2)"),
        ("machine", "PL1@[1,2,3,4,5] + 0.5*FL + 0.3*PL2"),
        ("machine", "Multinomial(0.5*PL1 + 0.5*PL2) + FL"),
        ("wide machine", "PL1 + FL"),
        *((name, "PL1 + 0.5*PL2 + 0.5*FL") for name in ("potts", *CHAINS)),
    ],
)
def test_other_betas_are_those_of_a_compiled_problem(name, policy):
    model, data, theta = example(name)
    bound = Policy.parse(policy).bind(model.structure(data))
    n = data.n
    selection = bound.draw(4, 0, n)
    problem = model.compile(data, selection)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, n)
    v = np.random.default_rng(2).normal(size=model.n_parameters)
    before = problem.value_grad(theta)
    families = len(selection.parts)
    for betas in (np.linspace(0.2, 1.4, families), np.eye(families)[0], np.eye(families)[-1]):
        found = problem.with_betas(np.full(families, 3.0)).with_betas(betas)
        if hasattr(problem, "_tokens"):
            assert found._tokens is problem._tokens  # nothing is compiled again
        parts = [problem.with_betas(row) for row in np.eye(families)]
        total = sum(b * part.value_grad(theta, weight)[0] for b, part in zip(betas, parts, strict=True))
        # By its own scores, which do not know the weights.
        scores = np.einsum("f,ifr->ir", betas, problem.family_scores(theta, 0, n))
        value, gradient = found.value_grad(theta, weight)
        assert value == pytest.approx(total, rel=1e-10)
        np.testing.assert_allclose(gradient, weight @ scores, atol=1e-9)
        np.testing.assert_allclose(found.row_products(theta, v), scores @ v, atol=1e-9)
        assert found.row_values(theta) @ weight == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(found.scores(theta, 0, n), scores, atol=1e-10)
        h = 1e-5
        slope = (found.value_grad(theta + h * v, weight)[1] - found.value_grad(theta - h * v, weight)[1]) / (2 * h)
        product = found.hessian_product(theta, v, weight)
        np.testing.assert_allclose(product, slope, atol=1e-6 * np.abs(slope).max())
        matrix = found.hessian_matrix(theta, weight)
        np.testing.assert_allclose(matrix @ v, product, atol=1e-9 * np.abs(product).max())
        diagonal = found.hessian_diagonal(theta, weight)
        if found.exact_diagonal:
            np.testing.assert_allclose(diagonal, -np.diagonal(matrix), atol=1e-9)
    after = problem.value_grad(theta)
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])


@pytest.mark.parametrize("policy", ["PL1 + 0.5*FL", "PL1 + FL", "PL1@[1,2,3,4] + 0.5*PL2"])
@pytest.mark.parametrize("kind", ["pairwise", "field"])
def test_equal_samples_come_once(kind, policy):
    model = ff.BoltzmannMachine(4) if kind == "pairwise" else ff.Potts(4, 2)
    table, theta = table_of(model, 400, 5)
    bound = Policy.parse(policy).bind(model.structure())
    problem = model.compile(table, bound.draw(2, 0, table.n))
    assert isinstance(problem, PairwiseProblem) == (kind == "pairwise")
    weight = np.random.default_rng(1).uniform(0.1, 3.0, table.n)
    for own in (weight, None):
        scores = problem.family_scores(theta, 0, table.n)
        blocks = list(problem.family_score_blocks(theta, own))
        rows = sum(len(block) for _, block in blocks)
        assert rows == table.n if "PL2" in policy else rows <= 32  # 16 states, with and without FL
        w = np.ones(table.n) if own is None else own
        np.testing.assert_allclose(
            problem.family_products(theta, own), np.einsum("i,ifr,igs->fgrs", w, scores, scores), atol=1e-9
        )
        np.testing.assert_allclose(
            problem.family_statistics(theta, own), np.einsum("i,ifr,igr->fgr", w, scores, scores), atol=1e-9
        )


def test_classes_of_equal_samples():
    random = np.random.default_rng(0)
    codes = random.integers(-1, 2, (200, 3))
    family = Policy.parse("FL").bind(ff.BoltzmannMachine(3).structure()).families[0]
    rows = random.random(200) < 0.5
    first, number = equal_samples(codes, [FamilySelection(family, 1.0), FamilySelection(family, 1.0, rows=rows)])
    keys = [(*codes[i], rows[i]) for i in range(200)]
    assert len(first) == len(set(keys))
    assert all(keys[first[number[i]]] == keys[i] for i in range(200))
    # Many columns: more classes than a number can count before they are joined.
    repeated = np.repeat(random.integers(0, 3, (20, 60)), 5, axis=0)
    first, number = equal_samples(repeated, [])
    np.testing.assert_array_equal(repeated[first][number], repeated)
    assert len(first) == 20
    assert equal_samples(random.integers(0, 3, (50, 60)), []) is None
    listed = FamilySelection(family, 1.0, indptr=np.arange(201), indices=np.zeros(200, dtype=np.int64))
    assert equal_samples(codes, [listed]) is None
