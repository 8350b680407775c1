"""What is known about an estimate with exact zeros: the zeros count as fixed, and have no interval."""

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import ModelError

MODEL = ff.BoltzmannMachine(4)
X = MODEL.sample([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0], 400, 0).values
PENALTY: dict[str, Any] = {"l1": 45.0, "sigma2": 2.0, "tol": 1e-11}
FIT = ff.fit(MODEL, X, "PL1", **PENALTY)
ZEROS = FIT.theta == 0


def test_there_are_zeros_and_others():
    assert 0 < ZEROS.sum() < 6
    assert (FIT.zeroed == ZEROS).all()
    assert (FIT.active == ~ZEROS).all()


def test_influence_is_what_refitting_without_the_sample_gives_and_zeros_do_not_move():
    influence = FIT.influence()
    for row in (0, 17, 101):
        without = ff.fit(MODEL, np.delete(X, row, axis=0), "PL1", start=FIT.theta, **PENALTY)
        np.testing.assert_allclose(influence[row], FIT.theta - without.theta, rtol=0.02, atol=1e-5)
    assert (influence[:, ZEROS] == 0).all()
    np.testing.assert_allclose(FIT.influence(rows=[17])[0], influence[17], atol=1e-12)


@pytest.mark.parametrize("kind", ["robust", "model"])
def test_accuracy_is_that_of_a_fit_with_the_zeros_fixed(kind):
    zeros = {name: 0.0 for name, zero in zip(MODEL.parameter_names, ZEROS, strict=True) if zero}
    fixed = ff.fit(MODEL, X, "PL1", fixed=zeros, **PENALTY)
    np.testing.assert_allclose(FIT.covariance(kind), fixed.covariance(kind), atol=1e-8)
    np.testing.assert_allclose(FIT.standard_errors(kind)[~ZEROS], fixed.standard_errors(kind)[~ZEROS], atol=1e-8)
    assert FIT.effective_parameters(kind) == pytest.approx(fixed.effective_parameters(kind), rel=1e-6)


def test_zeros_have_no_interval_and_no_p_value():
    name = MODEL.parameter_names[int(np.flatnonzero(ZEROS)[0])]
    assert np.isnan(FIT.standard_errors()[ZEROS]).all()
    assert np.isnan(FIT.conf_int(parameters=[name])).all()
    assert FIT.table().loc[name, ["std_error", "z", "p", "lower", "upper"]].isna().all()
    assert FIT.functional(name).caution.startswith("set to 0 by the L1 penalty")
    assert "0 (l1)" in FIT.summary()
    assert f"l1 set {ZEROS.sum()} of 6 parameters to 0" in FIT.summary()
    with pytest.raises(ModelError, match="that l1 set to 0"):
        FIT.wald_test([name])


def test_a_function_of_zeros_and_others_takes_the_zeros_for_fixed():
    zero, other = (MODEL.parameter_names[int(np.flatnonzero(which)[0])] for which in (ZEROS, ~ZEROS))
    both = FIT.functional({zero: 1.0, other: 1.0})
    assert both.standard_error == pytest.approx(FIT.functional(other).standard_error)


@pytest.mark.filterwarnings("ignore::fieldfit.types.StrongPenaltyWarning")
def test_the_debiased_estimate_has_intervals_for_the_zeros_too():
    assert np.isfinite(FIT.debiased().standard_errors()).all()
    name = MODEL.parameter_names[int(np.flatnonzero(ZEROS)[0])]
    assert np.isfinite(FIT.functional(name, debias=True).standard_error)


def test_a_saved_fit_knows_its_zeros(tmp_path):
    FIT.save(tmp_path / "sparse.ff")
    np.testing.assert_array_equal(ff.load(tmp_path / "sparse.ff").standard_errors(), FIT.standard_errors())


def test_only_samples_that_move_something_are_influential():
    moving = set(FIT.influential(400)["parameter"])
    assert moving <= {name for name, zero in zip(MODEL.parameter_names, ZEROS, strict=True) if not zero}
    with pytest.raises(ModelError, match="set to 0 by l1"):
        FIT.influential(parameters=[MODEL.parameter_names[int(np.flatnonzero(ZEROS)[0])]])
    with pytest.raises(ModelError, match="L1 penalty has set every parameter to 0"):
        ff.fit(MODEL, X, "PL1", l1=1e4).influential()


def test_a_parameter_that_l1_holds_is_not_at_infinity():
    x = np.random.default_rng(0).integers(0, 2, (300, 4))
    x[:, 1] = x[:, 0]
    held = ff.fit(MODEL, x, "PL1", l1={"x0:x1": 1e-3})
    assert abs(held.theta[0]) > 10
    assert held.separated == ()
