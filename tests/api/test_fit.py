"""The fit from end to end: what it finds, what it reports, what it refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest
from oracle import joint_states
from sklearn.linear_model import LogisticRegression

import fieldfit as ff
from fieldfit.models import field_compiler
from fieldfit.types import (
    ConvergenceWarning,
    DataError,
    FieldfitError,
    FileFormatError,
    IdentifiabilityError,
    ModelError,
    PolicyError,
    SeparationWarning,
    WidthError,
)

MODEL = ff.BoltzmannMachine(4, biases=True)
THETA = np.array([0.8, -0.5, 0.3, 0.6, -0.7, 0.4, -0.2, 0.1, 0.3, -0.4])


def data(n=400, seed=0):
    return MODEL.sample(THETA, n, seed).values


# --- what it finds --------------------------------------------------------------------------------------------------


def test_maximum_likelihood_matches_moments():
    """At the MLE of an exponential family the expected features are the observed ones."""
    x = data()
    fit = ff.fit(MODEL, x, "FL", tol=1e-10)
    states = joint_states((2,) * 4)
    p = np.exp(MODEL.conditional(fit.theta, states, range(4)))
    np.testing.assert_allclose(p @ states, x.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose((p[:, None] * states).T @ states, x.T @ x / len(x), atol=1e-8)


def test_pseudo_likelihood_of_two_variables_is_two_logistic_regressions_tied():
    """With biases and one coupling both regressions share it: compare with the joint likelihood, which is saturated."""
    x = data()[:, :2]
    pair = ff.BoltzmannMachine(2, biases=True)
    np.testing.assert_allclose(
        ff.fit(pair, x, "PL1", tol=1e-10).theta, ff.fit(pair, x, "FL", tol=1e-10).theta, atol=1e-7
    )


def test_one_component_is_a_logistic_regression():
    x = data()
    star = ff.BoltzmannMachine(4, [(0, 1), (0, 2), (0, 3)], biases=True)
    fixed = {"x1": 0.0, "x2": 0.0, "x3": 0.0}
    fit = ff.fit(star, x, "PL1[0]", fixed=fixed, tol=1e-10)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x[:, 1:], x[:, 0])
    np.testing.assert_allclose(fit.theta[:3], peer.coef_[0], atol=1e-5)
    assert fit.theta[3] == pytest.approx(peer.intercept_[0], abs=1e-5)
    assert list(fit.theta[4:]) == [0.0, 0.0, 0.0]
    assert list(fit.standard_errors()[4:]) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("policy", ["FL", "PL1", "PL2", "0.5*PL1 + 0.5*PL2", "Partition(2)"])
def test_methods_find_the_same_optimum(policy):
    x = data()
    one, two = (ff.fit(MODEL, x, policy, method=m, tol=1e-9) for m in ("lbfgs", "newton"))
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-6)
    assert one.objective == pytest.approx(two.objective, abs=1e-7)


def test_the_objective_is_the_sum_that_the_documentation_says():
    x = data(50)
    fit = ff.fit(MODEL, x, "PL1@0.5 + PL2@2", sigma2=3.0, tol=1e-9)
    total = 0.0
    for weight, size in ((0.5, 1), (2.0, 2)):
        blocks = [[j] for j in range(4)] if size == 1 else [[j, k] for j in range(4) for k in range(j)]
        for block in blocks:
            rest = [v for v in range(4) if v not in block]
            total += weight * MODEL.conditional(fit.theta, x, block, rest).sum()
    assert fit.objective == pytest.approx(total - (fit.theta**2).sum() / 6, abs=1e-8)


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_selection():
    x = data()
    ff.set_threads(1)
    one = ff.fit(MODEL, x, "0.5*PL1", random_state=3)
    ff.set_threads(2)
    two = ff.fit(MODEL, x, "0.5*PL1", random_state=3)
    assert one.theta.tobytes() == two.theta.tobytes()
    assert not np.array_equal(one.theta, ff.fit(MODEL, x, "0.5*PL1", random_state=4).theta)


def test_a_frame_gives_its_names_and_columns_by_name():
    frame = pd.DataFrame(data(), columns=["u", "v", "w", "z"])
    fit = ff.fit(MODEL, frame, "PL1")
    assert fit.parameter_names[:3] == ["u:v", "u:w", "u:z"]
    named = ff.BoltzmannMachine(4, biases=True, names=["u", "v", "w", "z"])
    again = ff.fit(named, frame[["z", "w", "v", "u"]], "PL1")
    np.testing.assert_allclose(again.theta, fit.theta, atol=1e-8)


# --- weights, missing values, fixed parameters, penalties ------------------------------------------------------------


def test_counts_are_copies():
    x = data(60)
    distinct, counts = np.unique(x, axis=0, return_counts=True)
    whole = ff.fit(MODEL, x, "PL1 + FL", sigma2=5.0, tol=1e-9)
    short = ff.fit(MODEL, distinct, "PL1 + FL", sigma2=5.0, tol=1e-9, sample_weight=counts, weight_kind="counts")
    np.testing.assert_allclose(short.theta, whole.theta, atol=1e-7)
    np.testing.assert_allclose(short.standard_errors(), whole.standard_errors(), rtol=1e-5)
    copies = ff.fit(MODEL, distinct, "0.5*PL1", sigma2=5.0, sample_weight=counts, weight_kind="counts")
    assert copies.n == 60  # each copy has a Z of its own


def test_importance_weights_multiply_samples():
    x, w = data(80), np.random.default_rng(0).uniform(0.2, 3, 80)
    fit = ff.fit(MODEL, x, "PL1", sample_weight=w, sigma2=5.0, tol=1e-9)
    doubled = ff.fit(MODEL, np.vstack([x, x]), "PL1", sample_weight=np.r_[w, w] / 2, sigma2=5.0, tol=1e-9)
    np.testing.assert_allclose(fit.theta, doubled.theta, atol=1e-7)


@pytest.mark.slow
def test_missing_values_are_summed_out():
    x = data(300).astype(float)
    x[np.random.default_rng(1).random(x.shape) < 0.15] = np.nan
    fit = ff.fit(MODEL, x[:60], "FL", sigma2=100.0, tol=1e-9)
    total = sum(
        MODEL.conditional(fit.theta, x[i : i + 1], np.flatnonzero(~np.isnan(x[i])))[0]
        for i in range(60)
        if not np.isnan(x[i]).all()
    )
    assert fit.objective == pytest.approx(total - (fit.theta**2).sum() / 200, abs=1e-7)


def test_rows_that_are_too_wide_are_refused_by_number_or_dropped():
    wide = ff.BoltzmannMachine(14, biases=True, largest_table=1 << 8)
    x = np.random.default_rng(0).integers(0, 2, (40, 14)).astype(float)
    x[[7, 21], :12] = np.nan
    with pytest.raises(WidthError, match=r"2 of 40 samples .* rows 7, 21"):
        ff.fit(wide, x, "PL1", sigma2=1.0)
    fit = ff.fit(wide, x, "PL1", sigma2=1.0, wide_rows="drop")
    assert fit.dropped_rows.tolist() == [7, 21]
    assert fit.n == 38
    assert "dropped: 2 rows" in fit.summary()


def test_too_many_patterns_of_missing_values_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(field_compiler, "MOST_PATTERNS", 5)
    x = data(50).astype(float)
    x[np.random.default_rng(1).random(x.shape) < 0.3] = np.nan
    with pytest.raises(DataError, match="combinations of a component and a pattern"):
        ff.fit(MODEL, x, "PL2", sigma2=1.0)


def test_penalties_differ_between_groups():
    x = data(100)
    tight = ff.fit(MODEL, x, "PL1", sigma2={"*:*": 0.01, None: None}, tol=1e-9)
    assert np.abs(tight.theta[:6]).max() < 0.2
    assert np.isinf(tight.sigma2[6:]).all()
    vector = ff.fit(MODEL, x, "PL1", sigma2=[0.01] * 6 + [None] * 4, tol=1e-9)
    np.testing.assert_allclose(vector.theta, tight.theta, atol=1e-8)
    free = ff.fit(MODEL, x, "PL1", sigma2=1e12, tol=1e-9)
    np.testing.assert_allclose(free.theta, ff.fit(MODEL, x, "PL1", tol=1e-9).theta, atol=1e-6)


# --- honesty ----------------------------------------------------------------------------------------------------------


def test_convergence_is_reported_as_it_is():
    x = data()
    fit = ff.fit(MODEL, x, "PL1")
    assert fit.converged
    assert fit.message == "converged: gradient norm below tolerance"
    assert fit.gradient_norm <= 1e-6 * 400
    assert fit.iterations > 0
    assert fit.evaluations >= fit.iterations
    assert fit.seconds > 0
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        short = ff.fit(MODEL, x, "PL1", max_iter=1, method="lbfgs")
    assert not short.converged
    with pytest.warns(ConvergenceWarning, match=r"rounding errors .* Give a larger tolerance \(tol\)\.$"):
        ff.fit(MODEL, x, "PL1", tol=1e-320, method="lbfgs")


def test_separation_names_the_parameters():
    x = data(200)
    x = x[~((x[:, 0] == 1) & (x[:, 1] == 0))]  # x0 = 1 forces x1 = 1
    with pytest.warns(SeparationWarning, match="x0:x1") as caught:
        fit = ff.fit(MODEL, x, "FL")
    assert "x0:x1" in fit.separated
    assert "x2:x3" not in fit.separated
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ff.fit(MODEL, x, "FL", sigma2=10.0).separated == ()


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_separation_is_seen_however_far_the_optimiser_ran(biases, method):
    """One variable copies another: L-BFGS jumps to 1e7, where the curvature has fallen to 0."""
    x = np.random.default_rng(0).integers(0, 2, (300, 4))
    x[:, 1] = x[:, 0]
    with pytest.warns(SeparationWarning, match="x0:x1"):
        fit = ff.fit(ff.BoltzmannMachine(4, biases=biases), x, "PL1", method=method)
    assert set(fit.separated) == ({"x0:x1", "x0", "x1"} if biases else {"x0:x1"})
    errors = dict(zip(fit.parameter_names, fit.standard_errors(), strict=True))
    assert all(np.isnan(errors[name]) for name in fit.separated)
    assert np.isfinite(errors["x2:x3"])
    assert np.isnan(fit.conf_int(parameters=["x0:x1"])).all()


def test_rounding_of_a_gauge_freedom_is_not_separation():
    # The curvature along the gauge is that of rounding, about 10^-16 of 10^8 copies.
    rows = np.random.default_rng(7).integers(0, 3, size=(30, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ff.fit(ff.Potts(8, 3), rows, "PL1", sample_weight=np.full(30, 1e8), group_l1=1e6, tol=1e-12)
    assert fit.separated == ()


def test_gauge_freedom_is_not_separation():
    potts = ff.Potts(3, 2)
    x = potts.sample(np.random.default_rng(1).normal(size=potts.n_parameters), 500, 0).values
    start = np.zeros(potts.n_parameters)
    start[[potts.parameter_names.index(f"x0={s}") for s in (0, 1)]] = 30.0  # changes no probability
    fit = ff.fit(potts, x, "PL1", start=start)
    assert fit.theta.max() > 20
    assert fit.separated == ()


def test_interruption_returns_what_there_is(monkeypatch):
    seen = []

    def stop(state):
        seen.append(state.iteration)
        if state.iteration == 2:
            raise KeyboardInterrupt

    def check(*given):
        raise AssertionError("the drift of an interrupted fit was checked")

    monkeypatch.setattr("fieldfit.api.estimation.runaway", check)
    fit = ff.fit(MODEL, data(), "PL1", method="lbfgs", progress=stop)
    assert not fit.converged
    assert fit.message == "stopped: interrupted"
    assert np.isfinite(fit.theta).all()
    assert np.abs(fit.theta).max() > 0
    assert seen[-1] == 2


def test_a_policy_that_does_not_identify_the_model_is_refused_with_names():
    with pytest.raises(IdentifiabilityError, match=r"does not determine 3 of 10 parameters: x2:x3, x2, x3"):
        ff.fit(MODEL, data(), "PL1[0:2]")
    with pytest.raises(IdentifiabilityError, match="x0:x1"):
        ff.fit(MODEL, data(), "Components({0}|{}, {1}|{}, {2}|{0,1,3}, {3}|{0,1,2})")
    assert ff.fit(MODEL, data(), "PL1[0:2]", sigma2=1.0).converged
    assert ff.fit(MODEL, data(), "PL1[0:2]", fixed={"x2:x3": 0.0, "x2": 0.0, "x3": 0.0}).converged


def test_the_models_own_gauge_freedom_is_not_an_error():
    potts = ff.Potts(3, 3)
    x = potts.sample(np.random.default_rng(0).normal(scale=0.5, size=potts.n_parameters), 500, 1).values
    fit = ff.fit(potts, x, "PL1")
    assert fit.converged
    with pytest.raises(IdentifiabilityError):
        ff.fit(potts, x, "PL1[0]")


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0, 1, 2, 0]], "not one of its states"),
        ([[0, 1, np.inf, 0]], "infinite"),
        ([[0, 1, 0.5, 0]], "not one of its states"),
        ([[0, 1, 0]], "Wrong number of columns"),
        ([[0, 1, 0, 1], [0, 1]], "ragged|values|cells|columns"),
        (np.empty((0, 4)), "No rows"),
        ([[np.nan, 1, 0, 1], [np.nan, 0, 1, 1]], "Missing everywhere"),
    ],
)
def test_bad_tables(values, message):
    with pytest.raises(DataError, match=message):
        ff.fit(MODEL, values, "PL1", sigma2=1.0)


def test_samples_in_forbidden_states_are_refused_by_row():
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), log_offset=[[0.0, 0.0], [0.0, -np.inf]])])
    x = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    with pytest.raises(DataError, match=r"1 of 4 samples .* rows 2\."):
        ff.fit(model, x, "FL", sigma2=1.0)
    fit = ff.fit(model, np.repeat(x[[0, 1, 3]], 20, axis=0), "FL", sigma2=1.0)
    assert fit.converged
    assert np.isneginf(model.conditional(fit.theta, x, [0, 1])).tolist() == [False, False, True, False]
    assert np.isfinite(ff.theory(model, fit.theta, "PL1").covariance).all()


def test_constant_columns_need_a_penalty():
    x = data()
    x[:, 2] = 1
    with pytest.raises(DataError, match="1 column never changes: x2"):
        ff.fit(MODEL, x, "PL1")
    assert ff.fit(MODEL, x, "PL1", sigma2=1.0).converged
    tied = ff.BoltzmannMachine.grid(2, 2, tied=True, biases=True)  # its parameters are shared with other columns
    assert ff.fit(tied, x, "PL1").converged


@pytest.mark.parametrize(
    "policy", ["", "PL0", "1.5*PL1", "-0.1*PL1", "PL1@-1", "PL9", "nonsense", "0*PL1", "PL1 +", "[0.1,0.2]*PL1"]
)
def test_bad_policies(policy):
    with pytest.raises(PolicyError):
        ff.fit(MODEL, data(), policy)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"sigma2": -1.0}, ModelError, "must be a positive number"),
        ({"sigma2": np.nan}, ModelError, "must be a positive number"),
        ({"sigma2": 1e-320}, ModelError, "must be a positive number of at least 1e-150"),
        ({"sigma2": "strong"}, ModelError, "must be a positive number"),
        ({"sigma2": [1.0, 2.0]}, ModelError, "one for each of 10 parameters"),
        ({"sigma2": {"q*": 1.0}}, ModelError, "No parameter has a name like"),
        ({"start": np.zeros(3)}, ModelError, "10 parameters"),
        ({"start": np.full(10, np.nan)}, ModelError, "must be finite"),
        ({"fixed": {"nobody": 0.0}}, ModelError, "'nobody'"),
        ({"fixed": {"x0": np.inf}}, ModelError, "must be a finite number"),
        ({"sample_weight": [1.0, 2.0]}, DataError, "weight"),
        ({"sample_weight": np.full(400, -1.0)}, DataError, "weight"),
        ({"sample_weight": np.zeros(400)}, DataError, "sample_weight is zero in every row"),
        ({"sample_weight": np.full(400, 1e200)}, DataError, "add up to 4e.202.*Divide all weights by the largest"),
        ({"sample_weight": np.full(400, 1e-200)}, DataError, "add up to 4e-198.*Divide all weights by the largest"),
        ({"wide_rows": "maybe"}, DataError, "'refuse' or 'drop'"),
        ({"weights": [1.0, 2.0]}, PolicyError, "1 terms|one for each"),
        ({"random_state": -1}, FieldfitError, "random_state is -1"),
    ],
)
def test_bad_arguments(keywords, error, message):
    with pytest.raises(error, match=message):
        ff.fit(MODEL, data(), "PL1", **keywords)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ff.BoltzmannMachine(0), "number of variables m is 0"),
        (lambda: ff.BoltzmannMachine(3, [(0, 1), (1, 0)]), "repeats edge 0"),
        (lambda: ff.BoltzmannMachine(3, [(0, 3)]), "variables are 0 to 2"),
        (lambda: ff.BoltzmannMachine(3, [(1, 1)]), "to itself"),
        (lambda: ff.BoltzmannMachine(3, states=(1, 1)), "two different"),
        (lambda: ff.BoltzmannMachine(3, edge_groups=["a"]), "3 edges but 1"),
        (lambda: ff.BoltzmannMachine(3, names=["a", "a", "b"]), "different names"),
        (lambda: ff.Potts(3, 1), "number of states q is 1"),
        (lambda: ff.Potts(3, 2, couplings="some"), "'table' or 'agree'"),
        (lambda: ff.BoltzmannMachine.grid(2, 2, neighbours=6), "4 or 8"),
        (lambda: ff.MarkovRandomField([2, 2], []), "at least one factor"),
        (lambda: ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), np.ones((2, 3)))]), "shape"),
        (lambda: ff.MarkovRandomField([2, 2], [ff.Factor((0, 5))]), "names variable 5"),
        (lambda: ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), np.full((2, 2), np.nan))]), "not finite"),
        (lambda: ff.MarkovRandomField([2, 2], [ff.Factor((0,), log_offset=[0.0, np.inf])]), r"NaN or \+inf"),
        (lambda: ff.MarkovRandomField([2, 0], [(0,)]), "number of states is 0"),
    ],
)
def test_bad_models(build, message):
    with pytest.raises(ModelError, match=message):
        build()


@pytest.mark.parametrize("call", ["log_partition", "marginals", "map_state"])
def test_theta_of_the_wrong_length(call):
    with pytest.raises(ModelError, match="θ has 4 numbers; this model has 10 parameters"):
        getattr(MODEL, call)(np.zeros(4))


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "fit.ff"
    ff.fit(MODEL, data(50), "PL1", sigma2=1.0).save(path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 3):
        (tmp_path / "cut.ff").write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match=r"cut\.ff"):
            ff.load(tmp_path / "cut.ff")
    with pytest.raises(FieldfitError, match=r"nothing\.ff"):
        ff.load(tmp_path / "nothing.ff")


# --- builders -----------------------------------------------------------------------------------------------------------


def test_builders_give_the_same_model():
    import networkx as nx

    graph = nx.grid_2d_graph(2, 3)
    from_graph = ff.BoltzmannMachine.from_networkx(graph)
    from_grid = ff.BoltzmannMachine.grid(2, 3)
    assert sorted(from_graph.edges) == sorted(from_grid.edges)
    theta = np.random.default_rng(0).normal(size=7)
    tables = ff.MarkovRandomField.from_networkx(graph)
    assert tables.n_parameters == 6 * 2 + 7 * 4
    assert from_graph.log_partition(theta) == pytest.approx(from_grid.log_partition(theta))
    tied = ff.BoltzmannMachine.grid(3, 3, neighbours=8, tied=True, biases=True)
    assert list(tied.parameter_names) == ["horizontal", "vertical", "diagonal", "antidiagonal", "bias"]


def test_uai_files_give_a_model_and_its_parameters(tmp_path):
    (tmp_path / "net.uai").write_text("MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2\n1 3\n4\n1 2 0 4\n")
    model, theta = ff.MarkovRandomField.from_uai(tmp_path / "net.uai")
    assert np.exp(model.log_partition(theta)) == pytest.approx(1 * 1 + 1 * 2 + 3 * 0 + 3 * 4)
    assert model.marginals(theta)[0][0] == pytest.approx(3 / 15)


def test_conditional_and_given_states():
    theta = THETA
    logs = MODEL.conditional(theta, [[0, 1, None, 1]], [0], [1])
    both = MODEL.conditional(theta, [[0, 1, None, None]], [0, 1]) - MODEL.conditional(theta, [[0, 1, 0, 0]], [1])
    assert logs[0] == pytest.approx(both[0], abs=1e-12)
    posterior = MODEL.marginals(theta, {"x1": 1})
    assert posterior[0][0] == pytest.approx(np.exp(logs[0]), abs=1e-12)
    with pytest.raises(ModelError, match="its states are"):
        MODEL.marginals(theta, {"x1": 7})


def test_sampling_says_how():
    exact = MODEL.sample(THETA, 10)
    assert (exact.method, exact.note) == ("exact", "independent exact draws")
    wide = ff.BoltzmannMachine(40)
    draws = wide.sample(np.zeros(780), 5, burn_in=20)
    assert draws.method == "gibbs"
    assert "20 sweeps of burn-in" in draws.note
    with pytest.raises(WidthError):
        wide.sample(np.zeros(780), 5, method="exact")


def test_gibbs_draws_follow_the_law():
    """Means of 6,000 thinned draws against exact marginals: 4 standard errors of independent draws, doubled."""
    draws = MODEL.sample(THETA, 6_000, 1, method="gibbs").values
    exact = np.array([vector[1] for vector in MODEL.marginals(THETA)])
    assert np.abs(draws.mean(axis=0) - exact).max() < 8 * np.sqrt(0.25 / 6_000)
    held = MODEL.sample(THETA, 50, 1, method="gibbs", given={"x2": 1}).values
    assert (held[:, 2] == 1).all()


def test_components_of_weight_0_cost_nothing():
    model = ff.BoltzmannMachine(4)
    x = model.sample(np.zeros(6), 50, 0).values
    plain, none = ff.fit(model, x, "PL1"), ff.fit(model, x, "PL1 + 0.5*FL@0 + PL2@0")
    assert none.cost == plain.cost
    np.testing.assert_allclose(none.theta, plain.theta, atol=1e-6)
    assert ff.fit(model, x, "PL1 + 0.5*FL").cost.components > plain.cost.components


def test_draws_of_a_model_are_samples():
    draws = MODEL.sample(np.zeros(MODEL.n_parameters), 200, random_state=0)
    np.testing.assert_array_equal(ff.fit(MODEL, draws).theta, ff.fit(MODEL, draws.values).theta)


def test_penalties_and_fixed_values_by_pattern_and_in_either_order():
    model = ff.BoltzmannMachine(4, biases=True)
    x = model.sample(np.zeros(10), 200, random_state=0).values
    fit = ff.fit(model, x, "PL1", sigma2={"*:*": 0.1, "x2:x1": 0.5}, l1={"x1:*": 0.01}, fixed={"x3:*": 0.25})
    names = fit.parameter_names
    assert dict(zip(names, fit.sigma2, strict=True))["x1:x2"] == 0.5
    assert np.isinf(fit.sigma2[6:]).all()
    assert (fit.sigma2[:6] == [0.1, 0.1, 0.1, 0.5, 0.1, 0.1]).all()
    assert [name for name, weight in zip(names, fit.l1, strict=True) if weight] == ["x0:x1", "x1:x2", "x1:x3"]
    assert [name for name, free in zip(names, fit.free, strict=True) if not free] == ["x0:x3", "x1:x3", "x2:x3"]
    assert (fit.theta[~fit.free] == 0.25).all()
    with pytest.raises(ModelError, match=r"fixed: .*nearest names are 'x0:x1'"):
        ff.fit(model, x, "PL1", fixed={"x0:y1": 0.0})


def test_models_of_one_coupling_are_described_in_the_singular():
    assert repr(ff.BoltzmannMachine(2)) == "<BoltzmannMachine: 2 variables, 1 coupling, 0 biases>"
    assert repr(ff.BoltzmannMachine(1, biases=True)) == "<BoltzmannMachine: 1 variable, 0 couplings, 1 bias>"


def test_variables_are_named_where_a_model_conditions_on_them():
    model = ff.BoltzmannMachine(3).with_names(["a", "b", "c"])
    x = [[0, 1, 1], [1, 1, 0]]
    named = model.conditional([1.0, -1.0, 0.5], x, "a", ["c", "b"])
    np.testing.assert_array_equal(named, model.conditional([1.0, -1.0, 0.5], x, [0], [2, 1]))
    with pytest.raises(ModelError, match="no variable 'd'"):
        model.conditional([1.0, -1.0, 0.5], x, "a", "d")
    field = ff.MarkovRandomField([2, 2], [(0, 1)], names=["label", "input"], given="input")
    assert field.observed == ff.MarkovRandomField([2, 2], [(0, 1)], given=[1]).observed


def _strong_loop(n):
    """Samples of four variables in a loop of free tables whose entries differ by a factor of 100."""
    tables = [(30, 5, 1, 10), (100, 1, 1, 100), (1, 100, 100, 1), (100, 1, 1, 100)]
    scopes = [(0, 1), (1, 2), (2, 3), (3, 0)]
    model = ff.MarkovRandomField([2] * 4, [ff.Factor(scope) for scope in scopes])
    return model, model.sample(np.log(np.concatenate(tables)), n, random_state=1)


@pytest.mark.parametrize("policy", ["PL1", "FL"])
def test_separation_of_free_tables_is_seen_although_no_parameter_is_far_out(policy):
    model, x = _strong_loop(1000)
    with pytest.warns(SeparationWarning, match="optimum lies at infinity"):
        fit = ff.fit(model, x, policy)
    assert np.abs(fit.theta).max() < 6
    assert np.isnan(fit.functional({"x2=0:x3=0": 1, "x2=0:x3=1": -1, "x2=1:x3=0": -1, "x2=1:x3=1": 1}).standard_error)
    with pytest.raises(ModelError, match="finite estimate"):
        ff.refine(fit, "optimal")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["PL1", "FL"])
def test_free_tables_with_enough_samples_do_not_separate(policy):
    model, x = _strong_loop(200_000)
    assert ff.fit(model, x, policy).separated == ()


def test_a_fit_that_stalls_far_out_does_not_say_that_data_separate():
    """At θ = 100 every state is certain: the objective is flat in some directions, and its gradient is large."""
    model = ff.BoltzmannMachine(3, biases=True)
    x = np.random.default_rng(0).integers(0, 2, (200, 3))
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        stalled = ff.fit(model, x, "PL1", start=np.full(6, 100.0))
    assert stalled.separated == ()
    assert ff.fit(model, x, "PL1", start=np.full(6, 30.0)).converged
