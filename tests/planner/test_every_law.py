"""The planner accepts every law: those of the library by their own examples, and a law that only this file knows."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_matrix, identity

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.planner import moments as gathering
from fieldfit.policies import Policy
from fieldfit.policies.families import PseudoLikelihood
from fieldfit.policies.laws.base import BoundLaw, Factors, Law, Noise, find_law, law_names
from fieldfit.policies.selection import one_for_each, row_uniforms
from fieldfit.policies.terms import Term

EXAMPLES = [text for name in law_names() for text in find_law(name).examples]


@dataclass(frozen=True)
class OneOf(Law):
    """Exactly one component of a family, all with the same probability: the smallest law that one can write."""

    term: Term
    examples: ClassVar[tuple[str, ...]] = ()

    def __str__(self):
        return f"OneOf({self.term})"

    @classmethod
    def read(cls, reader):
        raise NotImplementedError

    lams = property(lambda self: (None,))
    betas = property(lambda self: (self.term.beta,))
    term_names = property(lambda self: (f"OneOf({self.term.name})",))

    def with_lams(self, lams):
        return self

    def with_betas(self, betas):
        return OneOf(replace(self.term, beta=betas[0]))

    def bind(self, structure, stream):
        return BoundOneOf(self, structure.bind_family(self.term.family), stream)


class BoundOneOf(BoundLaw):
    family_terms = (0,)

    def __init__(self, law, family, stream):
        self.families, self.betas, self.stream = (family,), (law.term.beta,), stream

    def lams(self, sizes):
        return (1.0 / sizes[0],)

    def second_moment(self, sizes):
        return np.eye(sizes[0]) / sizes[0]

    def factors(self, sizes):
        return Factors(csr_matrix(identity(sizes[0], format="csr")), np.full(sizes[0], 1.0 / sizes[0]), 0.0)

    def draw(self, seed, start, stop, active):
        uniforms = row_uniforms(seed, self.stream, start, stop, 1)[:, 0]
        rows = np.ones(stop - start, dtype=bool) if active is None else active
        indices = (uniforms[rows] * self.families[0].size).astype(np.int64)
        return (one_for_each(self.families[0], self.betas[0], rows, indices, start),)


def columns(plan, name="variance"):
    return plan.table.set_index("policy")[name]


def determined(model, theta, text):
    return not ff.theory(model, theta, text).undetermined


@pytest.mark.slow
def test_every_example_of_every_law_agrees_with_the_theory(five):
    model, _, x = five
    plan = ff.plan(model, x[:600], policies=EXAMPLES)
    found = columns(plan)
    assert len(found) == len({str(Policy.parse(text)) for text in EXAMPLES})
    for text, variance in found.items():
        if determined(model, plan.theta, text):
            assert variance == pytest.approx(ff.theory(model, plan.theta, text).efficiency("root"), rel=1e-8)
        else:
            assert variance == np.inf
    assert (columns(plan, "seconds") > 0).all()
    assert (columns(plan, "flops") > 0).all()


@pytest.mark.slow
def test_laws_are_mixed_with_others(five):
    model, _, x = five
    texts = ["PL1 + Multinomial(0.5*PL2@0.3 + 0.5*FL)", "0.3*FL@0.2 + Unless(0.2*PL2/row, PL1)"]
    plan = ff.plan(model, x[:600], policies=texts)
    for text, variance in columns(plan).items():
        assert variance == pytest.approx(ff.theory(model, plan.theta, text).efficiency("root"), rel=1e-8)


@pytest.mark.slow
def test_means_over_samples_know_the_noise_of_every_law(five, monkeypatch):
    """Means over 1,000 samples and two draws of Z for each: the trace has a standard error of about 2.5%."""
    model, _, x = five
    texts = ["Multinomial(PL1)", "Multinomial(0.6*PL1@2 + 0.4*PL2)", "Unless(0.2*FL, 0.7*PL1 + 0.3*PL2)"]
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", 0)
    plan = ff.plan(model, x, policies=texts)
    for text in texts:
        theory = ff.theory(model, plan.theta, text)
        expected = np.trace(np.linalg.inv(theory.mle_covariance) @ theory.covariance) / 10
        assert columns(plan)[text] == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
def test_a_law_of_this_file_is_planned(five):
    model, _, x = five
    law = OneOf(Term(PseudoLikelihood(1)))
    assert law.noise is Noise.FIXED
    plan = ff.plan(model, x[:600], policies=[Policy((law,)), "Multinomial(PL1)", "PL1"])
    found = columns(plan)
    assert found["OneOf(PL1)"] == pytest.approx(found["Multinomial(PL1)"], rel=1e-10)
    assert columns(plan, "flops")["OneOf(PL1)"] == pytest.approx(columns(plan, "flops")["PL1"] / 5)
    mixed = ff.plan(model, x[:600], policies=[Policy((law, *Policy.parse("0.5*FL@0.1").laws))])
    theory = ff.theory(model, mixed.theta, "Multinomial(PL1) + 0.5*FL@0.1")
    assert mixed.best_candidate.variance == pytest.approx(theory.efficiency("root"), rel=1e-8)


@pytest.mark.parametrize("policy", [text for text in EXAMPLES if not text.startswith(("Partition(5", "LogLinear"))])
def test_a_law_without_its_lam_and_beta_is_put_together_again(policy):
    law = Policy.parse(policy).laws[0]
    unit, lam, beta = law.unit()
    assert unit.at(lam, beta) == law
    assert unit.unit() == (unit, 1.0, 1.0)


@pytest.mark.slow
def test_sequences_take_laws_whose_lam_depends_on_the_length():
    random = np.random.default_rng(0)
    offsets = np.concatenate(([0], np.cumsum(random.integers(2, 8, 300))))
    tokens = int(offsets[-1])
    indices = random.integers(0, 4, tokens).astype(np.int32)
    labels = ((indices + random.integers(0, 2, tokens)) % 3).astype(np.int32)
    data = Sequences(offsets, np.arange(tokens + 1), indices, None, labels, 4, 3)
    model = ChainCRF(3, 4).observe(data)
    policies = ["PL1", "Multinomial(PL1)", "Multinomial(0.5*PL1/sentence + 0.5*FL)", "Unless(0.3*FL, PL1)", "FL"]
    found = columns(ff.plan(model, data, policies=policies, sigma2=100.0))
    assert found["FL"] == 1.0
    assert found["Multinomial(PL1)"] > 2 * found["PL1"]
    assert found["Unless(0.3*FL, PL1)"] < found["Multinomial(PL1)"]
