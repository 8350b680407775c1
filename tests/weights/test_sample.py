"""Statistics from a part of the samples: which part, that its Z is the drawn one, and what it loses against all."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.data.sequences import Sequences
from fieldfit.policies import Policy
from fieldfit.threads import use_threads
from fieldfit.types import ModelError
from fieldfit.weights.choice import Exact, WeightsRidge, best_beta
from fieldfit.weights.groups import DrawnPolicy, groups_of
from fieldfit.weights.statistics import DataStatistics, samples_needed

MODEL = ff.BoltzmannMachine(7, biases=True)
THETA = np.random.default_rng(5).normal(scale=0.4, size=MODEL.n_parameters)
X = MODEL.sample(THETA, 9_000, 2).values
# Too many variables for equal samples to be joined.
WIDE = ff.BoltzmannMachine(12)
X_WIDE = WIDE.sample(np.random.default_rng(6).normal(scale=0.25, size=WIDE.n_parameters), 9_000, 3).values


def chains(n=60):
    random = np.random.default_rng(0)
    offsets = np.concatenate(([0], np.cumsum(random.integers(1, 9, n)))).astype(np.int64)
    labels = random.integers(0, 3, offsets[-1]).astype(np.int32)
    features = random.integers(0, 5, offsets[-1]).astype(np.int32)
    return Sequences(offsets, np.arange(offsets[-1] + 1), features, None, labels, 5, 3)


@pytest.mark.parametrize(
    "policy",
    [
        "PL1@[1,2,1,1,3,1,1] + 0.4*PL2",
        "0.3*FL + Partition(2)",
        "Multinomial(0.5*PL1 + 0.5*FL)",
        "Unless(0.3*FL, PL1)",
        "Partition(3) + PL1[0:3]",
    ],
)
def test_a_part_of_the_samples_has_their_selection(policy):
    bound = Policy.parse(policy).bind(MODEL.structure())
    table = MODEL.read(X[:200])
    selection = bound.draw(4, 0, 200)
    rows = np.sort(np.random.default_rng(1).choice(200, 70, replace=False))
    part = MODEL.compile(table.subset(rows), selection.subset(rows, bound.families))
    whole = MODEL.compile(table, selection)
    np.testing.assert_allclose(part.row_values(THETA), whole.row_values(THETA)[rows], atol=1e-10)
    chosen = whole.scores(THETA, 0, 200)[rows]
    np.testing.assert_allclose(part.scores(THETA, 0, 70), chosen, atol=1e-10)


@pytest.mark.parametrize("policy", ["PL1 + 0.5*FL", "0.4*PL2@2 + 0.5*PL1/sentence"])
def test_a_part_of_the_sequences_has_their_selection(policy):
    data = chains()
    model = ff.ChainCRF(3, 5, pairs="all")
    selection = Policy.parse(policy).bind(model.structure(data)).draw(4, 0, data.n_sequences)
    rows = np.array([0, 3, 4, 17, 40, 59])
    some = data.subset(rows)
    bound = Policy.parse(policy).bind(model.structure(some))
    part = model.compile(some, selection.subset(rows, bound.families))
    theta = np.random.default_rng(3).normal(size=model.n_parameters)
    np.testing.assert_allclose(
        part.row_values(theta), model.compile(data, selection).row_values(theta)[rows], atol=1e-10
    )


def test_how_many_samples_are_needed():
    def needed(policy, r=0, by="term"):
        bound = Policy.parse(policy).bind(MODEL.structure())
        return samples_needed(groups_of(bound, by), bound.draw(0, 0, len(X)), r)

    assert needed("PL1 + FL") == 2_000
    assert needed("PL1 + FL", r=400) == 4_000
    assert needed("PL1 + PL2", by="component") == 28 * 200
    # Of a family of which few samples are selected as many are wanted.
    assert needed("PL1 + 0.2*FL") == pytest.approx(10_000, rel=0.05)


@pytest.mark.slow
def test_all_samples_where_a_part_saves_nothing():
    few = ff.fit(MODEL, X[:4_000], "PL1 + PL2", weights="auto").weights
    assert few.work.samples == few.work.all_samples == 4_000
    # 128 distinct samples: joined, all of them cost less than a part.
    joined = ff.fit(MODEL, X, "PL1 + PL2", weights="auto").weights
    assert joined.work.samples == 9_000
    weighted = ff.fit(WIDE, X_WIDE, "PL1 + PL2", weights="auto", sample_weight=np.full(9_000, 2.0)).weights
    assert weighted.work.samples == 9_000
    assert "statistics from 9,000 samples" in str(weighted)


def exact_criterion(fit, policy):
    """J from all samples at the fit's θ."""
    bound = Policy.parse(policy).bind(WIDE.structure())
    table = WIDE.read(X_WIDE)
    selection = bound.draw(0, 0, len(X_WIDE))
    drawn = DrawnPolicy.of(bound, "term", selection, WIDE.compile(table, selection), lambda z: WIDE.compile(table, z))
    groups = drawn.groups
    statistics = DataStatistics(
        drawn.by_group(np.ones(groups.count), "exact"), groups.names, np.ones(WIDE.n_parameters, dtype=bool)
    )
    exact = Exact.of(statistics.dense(fit.theta))
    return groups, exact, Criterion.log_diagonal(statistics.diagonal(fit.theta)).over_weights()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["exact", "diagonal"])
@pytest.mark.parametrize("policy", ["PL1 + 0.2*PL2", "0.5*PL1 + 0.3*PL2"])
def test_what_a_part_of_the_samples_loses(policy, form):
    """Of 66 parameters, J from all samples is above its optimum by less than 10⁻⁴ for each."""
    fit = ff.fit(WIDE, X_WIDE, policy, weights=ff.AutoWeights(form=form, fallback=False))
    found = fit.weights
    assert found.converged
    assert found.work.samples < 2_100
    assert found.work.pilot_evaluations > 0
    assert [line.samples for line in found.history][-1] == 9_000
    assert "of 9,000 samples" in str(found)
    groups, dense, diagonal = exact_criterion(fit, policy)
    criterion = dense if form == "exact" else diagonal
    best = best_beta(criterion, WeightsRidge(0.0, found.beta, groups.normaliser))
    assert 0 <= criterion.value(found.beta) - criterion.value(best) < 66e-4
    # By its own statistics the exact form is not worse than anything simple.
    if form == "exact":
        assert found.J_exact <= min(*found.pure.values(), found.equal)


@pytest.mark.slow
def test_the_fit_is_finished_with_the_weights_that_come_back():
    fit = ff.fit(WIDE, X_WIDE, "PL1 + 0.2*PL2", weights="auto", tol=1e-7)
    found = fit.weights
    assert found.fitted
    np.testing.assert_array_equal(found.theta, fit.theta)
    assert fit.converged
    assert fit.gradient_norm <= 1e-7 * len(X_WIDE)
    # One evaluation after the rounds has shown that.
    assert fit.evaluations == found.work.evaluations + 1
    plain = ff.fit(WIDE, X_WIDE, "PL1 + 0.2*PL2", weights=found.beta, tol=1e-7)
    np.testing.assert_allclose(fit.theta, plain.theta, atol=1e-5)
    assert found.work.evaluations <= plain.evaluations


@pytest.mark.slow
def test_threads_do_not_matter():
    results = []
    for threads in (1, 2):
        with use_threads(threads):
            results.append(ff.fit(WIDE, X_WIDE, "PL1 + 0.2*PL2", weights="auto"))
    first, second = results
    np.testing.assert_array_equal(first.weights.beta, second.weights.beta)
    np.testing.assert_array_equal(first.theta, second.theta)
    assert first.weights.J == second.weights.J


@pytest.mark.slow
def test_the_published_formula_and_components_take_a_part_too():
    published = ff.fit(WIDE, X_WIDE, "PL1 + 0.2*PL2", weights=ff.AutoWeights(formula="published")).weights
    assert published.work.samples < 9_000
    assert published.beta[1] > 0.9
    single = ff.fit(WIDE, X_WIDE, "0.6*PL1", weights=ff.AutoWeights(by="component")).weights
    assert single.work.samples < 9_000
    assert len(single.beta) == 12
    assert single.beta.mean() == pytest.approx(1.0)


@pytest.mark.slow
def test_one_round_has_no_rounds_on_a_part():
    short = ff.fit(WIDE, X_WIDE, "PL1 + 0.2*PL2", weights=ff.AutoWeights(max_rounds=1)).weights
    assert len(short.history) == 1
    assert short.work.samples == 9_000
    assert not short.converged


def test_the_exact_form_by_name_needs_its_samples_of_each_family():
    with pytest.raises(ModelError, match="needs more samples"):
        ff.fit(WIDE, X_WIDE, "PL1 + 0.001*FL", weights=ff.AutoWeights(form="exact"))
