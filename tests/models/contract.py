"""The contract that every model keeps, as checks of one `Example`. See test_contract.py for the examples.

A sample's likelihood agrees with enumeration, derivatives with central differences, conditionals sum to one, relabelling
changes nothing, shards add up to the whole, one thread gives the bits of two, and a saved fit is the same after loading.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from chain_oracle import (
    composite,
    crf_tables,
    joint_rows,
    random_sequences,
    random_symbols,
    triple_tables,
    without_runs,
)
from oracle import central_gradient, joint_states, log_conditional

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.models.chain_problem import windows_of_selection
from fieldfit.policies import FamilySelection, Policy, Selection


class Example(ABC):
    """A model with samples of it, and the oracles that it is compared with."""

    #: Policies of the checks; a chain has windows in place of sets of variables.
    policies: tuple[str, ...] = ("FL", "PL1", "PL2@0.5 + PL1", "0.6*PL1 + 0.4*PL2")
    #: Fractions of missing values that the model can sum out.
    missing: tuple[float, ...] = (0.0, 0.3)

    def __init__(self, model):
        self.model = model

    @abstractmethod
    def samples(self, n=14, missing=0.0):
        """A dataset of ``n`` samples."""

    @abstractmethod
    def oracle(self, dataset, selection, theta):
        """m_θ(X_i, Z_i) by families (n, families), by enumeration."""

    @abstractmethod
    def conditionals(self, theta) -> Iterator[np.ndarray]:
        """For some components: log p_θ(x_A | x_B) for every value of x_A."""

    @abstractmethod
    def relabelled(self, dataset):
        """The same model and dataset with variables or labels in another order."""

    def compiled(self, policy, missing=0.0, n=14):
        dataset = self.samples(n, missing)
        selection = Policy.parse(policy).bind(self.model.structure(dataset)).draw(5, 0, dataset.n)
        return dataset, selection, self.model.compile(dataset, selection), self.theta()

    def theta(self):
        return np.random.default_rng(3).normal(scale=0.7, size=self.model.n_parameters)


# --- the checks ----------------------------------------------------------------------------------------------------


def check_values_and_derivatives(example, policy, missing):
    dataset, selection, problem, theta = example.compiled(policy, missing)
    expected = example.oracle(dataset, selection, theta)
    np.testing.assert_allclose(problem.row_values(theta), expected.sum(axis=1), atol=1e-10)
    weight = np.random.default_rng(8).uniform(0.1, 2.0, dataset.n)
    value, gradient = problem.value_grad(theta, weight)
    assert value == pytest.approx(weight @ expected.sum(axis=1), abs=1e-9)
    v = np.random.default_rng(9).normal(size=len(theta))

    def gradient_and_value(t):
        value, gradient = problem.value_grad(t, weight)
        return np.append(gradient, value)

    differences = central_gradient(gradient_and_value, theta)
    np.testing.assert_allclose(gradient, differences[-1], atol=2e-7)
    np.testing.assert_allclose(problem.hessian_product(theta, v, weight), differences[:-1] @ v, atol=3e-7)
    scores = problem.scores(theta, 0, dataset.n)
    np.testing.assert_allclose(scores, central_gradient(problem.row_values, theta), atol=1e-7)
    np.testing.assert_allclose(problem.row_products(theta, v), scores @ v, atol=1e-10)
    np.testing.assert_allclose(
        problem.score_product(theta, v, weight), (scores * weight[:, None]).T @ (scores @ v), atol=1e-9
    )
    np.testing.assert_allclose(
        np.einsum("ifr,f->ir", problem.family_scores(theta, 3, 9), problem.betas), scores[3:9], atol=1e-12
    )


def check_shards(example):
    policy = "0.6*PL1 + 0.4*FL"
    dataset, _, problem, theta = example.compiled(policy)
    bound = Policy.parse(policy).bind(example.model.structure(dataset))
    total, gradient = 0.0, 0.0
    for start, stop in ((0, 5), (5, 6), (6, dataset.n)):
        shard = example.model.compile(dataset.subset(np.arange(start, stop)), bound.draw(5, start, stop))
        more, slope = shard.value_grad(theta)
        total, gradient = total + more, gradient + slope
    assert total == pytest.approx(problem.value_grad(theta)[0], abs=1e-10)
    np.testing.assert_allclose(gradient, problem.value_grad(theta)[1], atol=1e-10)


def check_threads(example):
    _, _, problem, theta = example.compiled("0.6*PL2 + 0.4*FL", n=300)
    results = []
    for threads in (1, 2):
        ff.set_threads(threads)
        value, gradient = problem.value_grad(theta)
        results.append((value, gradient, problem.hessian_product(theta, theta)))
    ff.set_threads(None)
    assert results[0][0] == results[1][0]
    assert np.array_equal(results[0][1], results[1][1])
    assert np.array_equal(results[0][2], results[1][2])


def check_conditionals(example):
    theta = np.random.default_rng(2).normal(size=example.model.n_parameters)
    sums = [np.exp(logs).sum() for logs in example.conditionals(theta)]
    assert sums
    np.testing.assert_allclose(sums, 1.0, atol=1e-12)


def check_files(example, path):
    dataset = example.samples(60)
    fit = ff.fit(example.model, dataset, "0.7*PL1", sigma2=2.0, random_state=4)
    fit.save(path)
    again = ff.load(path)
    assert again.theta.tobytes() == fit.theta.tobytes()
    assert list(again.parameter_names) == list(fit.parameter_names)
    assert np.array_equal(again.standard_errors(), fit.standard_errors())
    assert again.report() == fit.report()
    selection = Policy.parse("FL").bind(example.model.structure(dataset)).draw(0, 0, dataset.n)
    before, after = (f.model.compile(dataset, selection).row_values(f.theta) for f in (fit, again))
    assert np.array_equal(before, after)


def check_relabelling(example):
    """Fits to the same samples with other labels: equal objectives, and equal likelihoods of every sample."""
    dataset = example.samples(60)
    model, renamed = example.relabelled(dataset)
    found = []
    for own, data in ((example.model, dataset), (model, renamed)):
        fit = ff.fit(own, data, "PL1 + PL2", sigma2=5.0, tol=1e-9)
        selection = Policy.parse("FL").bind(own.structure(data)).draw(0, 0, data.n)
        found.append((fit.objective, own.compile(data, selection).row_values(fit.theta)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


# --- fields --------------------------------------------------------------------------------------------------------


class FieldExample(Example):
    """A field model; ``make(order)`` builds it with variable v at the place order[v]."""

    policies = (
        *Example.policies,
        "PL1[0:2]@[0.5,2] + 0.5*FL/row",
        "Blocks({0,1},{2})",
        "Components({0}|{1}, {1,2}|{}, {2}|{0})",
        "Partition(2) + 0.3*FL",
        "Multinomial(0.5*PL1 + 0.5*FL)",
    )

    def __init__(self, m, make):
        super().__init__(make(list(range(m))))
        self.make = make

    def samples(self, n=14, missing=0.0, seed=0):
        model, random = self.model, np.random.default_rng(seed)
        codes = np.stack([random.integers(0, c, n) for c in model.graph.cardinalities], axis=1).astype(np.int32)
        codes[random.random(codes.shape) < missing] = -1
        return Table(np.ascontiguousarray(codes), model.names, model.states)

    def oracle(self, dataset, selection, theta):
        tables = self.model.log_tables(theta)
        result = np.zeros((dataset.n, len(selection.parts)))
        for f, part in enumerate(selection.parts):
            for i in range(dataset.n):
                for j in _chosen(part, i):
                    target, given = part.family.component(j)
                    weight = part.beta[j] if isinstance(part.beta, np.ndarray) else part.beta
                    row = dataset.codes[i]
                    result[i, f] += weight * log_conditional(self.model.graph, tables, row, target, given)
        return result

    def conditionals(self, theta):
        model = self.model
        target = [v for v in range(model.m) if v not in model.observed][:2]
        rest = [v for v in range(model.m) if v not in target]
        codes = joint_states(model.graph.cardinalities)
        logs = model.conditional(theta, model.decode(codes), target, rest)
        for _, places in itertools.groupby(np.lexsort(codes[:, rest].T), key=lambda k: tuple(codes[k, rest])):
            yield logs[list(places)]

    def relabelled(self, dataset):
        order = np.random.default_rng(1).permutation(self.model.m)
        codes = np.empty_like(dataset.codes)
        codes[:, order] = dataset.codes
        model = self.make(order.tolist())
        return model, Table(codes, model.names, model.states)


def _chosen(part, i):
    if part.indices is not None:
        return part.indices[part.indptr[i] : part.indptr[i + 1]].tolist()
    return [] if part.rows is not None and not part.rows[i] else range(part.family.size)


# --- chains --------------------------------------------------------------------------------------------------------

LENGTHS = (4, 1, 0, 2, 3, 1, 2)


class ChainExample(Example):
    """A model of sequences; ``make(dataset)`` builds it for sequences, ``draw(seed, lengths)`` draws some."""

    policies = (
        *Example.policies,
        "0.5*PL1 + 0.5*FL/row",
        "PL3",
        "Multinomial(0.5*PL1 + 0.5*FL)",
        "Unless(0.3*FL, PL1)",
    )

    def __init__(self, make, draw, training=LENGTHS * 9):
        self.training = draw(0, training)
        super().__init__(make(self.training))
        self.make, self.draw = make, draw

    def samples(self, n=14, missing=0.0):
        dataset = self.draw(0, (LENGTHS * (1 + n // len(LENGTHS)))[:n])
        labels = dataset.labels.copy()
        labels[np.random.default_rng(7).random(len(labels)) < missing] = -1
        return replace(dataset, labels=labels)

    def oracle(self, dataset, selection, theta):
        families = [windows_of_selection(part) for part in selection.parts]
        return np.stack([self.rows(dataset, (family,), theta) for family in families], axis=1)

    @abstractmethod
    def rows(self, dataset, families, theta):
        """m of each sequence for some families of windows."""

    @abstractmethod
    def alternatives(self, dataset, window):
        """One sequence, once with every value of the tokens in the window."""

    def conditionals(self, theta):
        dataset = self.draw(2, (4,))
        for policy in ("FL", "PL2"):
            family = Policy.parse(policy).bind(self.model.structure(dataset)).families[0]
            for j in range(int(family.sizes(0, 1)[0])):
                window = family.component(j).target
                variants = self.alternatives(dataset, window)
                family = Policy.parse(policy).bind(self.model.structure(variants)).families[0]
                indptr = np.arange(variants.n + 1)
                part = FamilySelection(family, 1.0, None, indptr, np.full(variants.n, j, dtype=np.int64))
                yield self.model.compile(variants, Selection(variants.n, (part,))).row_values(theta)

    def relabelled(self, dataset):
        order = np.random.default_rng(1).permutation(dataset.n_labels).astype(np.int32)
        training, renamed = (replace(data, labels=order[data.labels]) for data in (self.training, dataset))
        return self.make(training), renamed


class CRFExample(ChainExample):
    """Labels given inputs."""

    def __init__(self, **options):
        super().__init__(
            lambda data: ff.ChainCRF(data.n_labels, data.n_features, **options).complete(data),
            lambda seed, lengths: random_sequences(seed, lengths, n_features=4),
        )

    def rows(self, dataset, families, theta):
        return composite(lambda i: crf_tables(self.model, theta, dataset, i), dataset, families)

    def alternatives(self, dataset, window):
        values = list(itertools.product(range(dataset.n_labels), repeat=len(window)))
        many = dataset.subset(np.zeros(len(values), dtype=np.int64))
        labels = many.labels.copy().reshape(len(values), -1)
        labels[:, window] = values
        return replace(many, labels=labels.reshape(-1))


class TripleExample(CRFExample):
    """Labels given inputs, with weights for triples of labels. The data have no label three times in a row."""

    def __init__(self, **options):
        ChainExample.__init__(
            self,
            lambda data: ff.ChainCRF(data.n_labels, data.n_features, order=2, **options).complete(data),
            lambda seed, lengths: without_runs(random_sequences(seed, lengths, n_features=4)),
            training=LENGTHS * 40,
        )

    def rows(self, dataset, families, theta):
        return composite(lambda i: triple_tables(self.model, theta, dataset, i), dataset, families)


class JointChainExample(ChainExample):
    """Labels and symbols."""

    missing = (0.0,)

    def __init__(self):
        super().__init__(
            lambda data: ff.BoltzmannChain(data.n_labels, data.n_features),
            lambda seed, lengths: random_symbols(seed, lengths, n_symbols=2),
        )

    def rows(self, dataset, families, theta):
        return joint_rows(self.model, theta, dataset, families)

    def alternatives(self, dataset, window):
        tokens = list(itertools.product(range(dataset.n_labels), range(dataset.n_features)))
        values = np.array(list(itertools.product(tokens, repeat=len(window))), dtype=np.int32)
        many = dataset.subset(np.zeros(len(values), dtype=np.int64))
        labels, symbols = (a.copy().reshape(len(values), -1) for a in (many.labels, many.indices))
        labels[:, window], symbols[:, window] = values[..., 0], values[..., 1]
        return replace(many, labels=labels.reshape(-1), indices=symbols.reshape(-1))
