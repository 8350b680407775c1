"""The contract that every second stage keeps, as checks of one estimator's text. See test_second_stages.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit.asymptotics import Asymptotics
from fieldfit.data.sequences import Sequences
from fieldfit.planner.result import Plan
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.types import FieldfitError

MODEL = ff.BoltzmannMachine.grid(2, 3, states=(-1, 1), biases=True)
THETA = np.array([0.4, -0.3, 0.5, 0.2, -0.4, 0.3, 0.2, 0.1, -0.1, 0.2, 0.0, -0.2, 0.1])
SAMPLES = MODEL.sample(THETA, 1500, random_state=3).values


def is_sentence(text: str) -> bool:
    """Whether it begins like a sentence and ends like one."""
    return (text[0] == "'" or text[0].isupper()) and text.rstrip()[-1] in ".)"


def works_or_refuses(make: Callable[[], object]) -> object | None:
    """What it makes, or None where it refuses with a sentence."""
    refusal = ""
    try:
        return make()
    except FieldfitError as error:
        refusal = str(error)
    assert is_sentence(refusal), refusal
    return None


def check_text(text: str) -> None:
    """It reads, prints back, and names its policies."""
    staged = as_estimator(text)
    assert isinstance(staged, Staged)
    assert str(staged) == text
    assert as_estimator(str(staged)) == staged
    assert as_estimator(text.replace(" ", "")) == staged
    assert hash(staged) == hash(as_estimator(text))
    assert staged.second.evaluates(staged.first)[0] == staged.first
    assert staged.first in staged.second.planned_policies(staged.first)


def check_fit(text: str) -> ff.Fit:
    """The estimate is near θ, has standard errors of both kinds, and the same seed gives the same bits."""
    fit, again = (ff.fit(MODEL, SAMPLES, text, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(fit.theta, again.theta)
    assert str(fit.estimator) == text
    errors = fit.standard_errors()
    # χ² with 13 degrees of freedom beyond 40: probability 1e-4.
    difference = fit.theta - THETA
    assert fit.total * difference @ np.linalg.solve(fit.covariance(), difference) < 40
    assert np.isfinite(errors).all()
    assert (errors > 0).all()
    expected = fit.standard_errors("model")
    assert np.isfinite(expected).all()
    assert np.abs(np.log(errors / expected)).max() < 0.5
    return fit


def check_influence(fit: ff.Fit) -> None:
    """The influences of the samples make the covariance, up to what the noise of a simulation adds."""
    influence = fit.influence()
    assert influence.shape == (fit.n, len(fit.theta))
    shares = fit.n * (influence**2).sum(axis=0) / np.diag(fit.covariance())
    assert ((shares > 0.3) & (shares < 1 + 1e-6)).all()
    new = fit.influence(SAMPLES[:5])
    assert new.shape == (5, len(fit.theta))
    assert np.isfinite(new).all()


def check_summary(fit: ff.Fit) -> None:
    """The summary names the estimator, plain values have it too, and Hansen's test works or is refused."""
    text = str(fit.estimator)
    assert text in fit.summary()
    assert text in str(fit.report())
    works_or_refuses(fit.specification_test)
    assert works_or_refuses(fit.specification_test) is not None or not fit.testable


def check_files(fit: ff.Fit, path: Path) -> None:
    """A loaded fit is the same; with its samples it works again."""
    fit.save(path)
    loaded = ff.load(path)
    assert loaded.estimator == fit.estimator
    np.testing.assert_array_equal(loaded.theta, fit.theta)
    np.testing.assert_allclose(loaded.standard_errors(), fit.standard_errors(), rtol=1e-12)
    assert str(fit.estimator) in loaded.summary()
    whole = ff.load(path, SAMPLES)
    np.testing.assert_allclose(whole.standard_errors(), fit.standard_errors(), rtol=1e-9)
    np.testing.assert_allclose(whole.influence(rows=[0, 7]), fit.influence(rows=[0, 7]), rtol=1e-7, atol=1e-12)


def check_options(text: str) -> None:
    """Penalties, weights, counts, groups, fixed parameters and missing values work or are refused with a sentence."""
    few, name = SAMPLES[:600], MODEL.parameter_names[2]
    penalised = works_or_refuses(lambda: ff.fit(MODEL, few, text, sigma2=0.05))
    if isinstance(penalised, ff.Fit):
        assert np.abs(penalised.theta).sum() < np.abs(ff.fit(MODEL, few, text).theta).sum()
        assert np.isfinite(penalised.standard_errors()).all()
    fixed = works_or_refuses(lambda: ff.fit(MODEL, few, text, fixed={name: 0.25}))
    if isinstance(fixed, ff.Fit):
        assert fixed.theta[2] == 0.25
        assert (np.isnan(fixed.standard_errors()) | (fixed.standard_errors() == 0)).tolist() == [
            place == 2 for place in range(len(THETA))
        ]
    counts = np.arange(len(few)) % 3 + 1
    weighted = works_or_refuses(lambda: ff.fit(MODEL, few, text, sample_weight=counts, weight_kind="counts"))
    if isinstance(weighted, ff.Fit):
        assert weighted.total == counts.sum()
        assert np.isfinite(weighted.standard_errors()).all()
    grouped = works_or_refuses(lambda: ff.fit(MODEL, few, text, groups=np.arange(len(few)) // 2))
    if isinstance(grouped, ff.Fit):
        assert np.isfinite(grouped.standard_errors()).all()
    holes = few.astype(float)
    holes[::40, 1] = np.nan
    works_or_refuses(lambda: ff.fit(MODEL, holes, text))
    works_or_refuses(lambda: ff.fit(MODEL, few, text, l1=1.0))
    codes = (np.arange(60) % 3).astype(np.int32)
    chains = Sequences(np.arange(0, 61, 5), np.arange(61), codes, None, (codes % 2).astype(np.int32), 3, 2)
    works_or_refuses(lambda: ff.fit(ff.ChainCRF(2, 3), chains, text, sigma2=1.0))


def check_refined_twice(fit: ff.Fit) -> None:
    """A third stage is refused."""
    assert works_or_refuses(lambda: ff.refine(fit, "optimal")) is None


def check_theory(text: str) -> None:
    """An asymptotic variance not below that of maximum likelihood, or a refusal."""
    theory = works_or_refuses(lambda: ff.theory(MODEL, THETA, text))
    if isinstance(theory, Asymptotics):
        assert theory.efficiency() > 1 - 1e-6
    assert works_or_refuses(lambda: ff.theory(MODEL, THETA, text, formula="published")) is None


def check_plan(text: str) -> None:
    """A plan has its variance, or says in one sentence why not."""
    plan = works_or_refuses(lambda: ff.plan(MODEL, SAMPLES, policies=["PL1", "FL", text]))
    if isinstance(plan, Plan):
        line = plan.table.set_index("policy").loc[text]
        assert 1 - 1e-6 < line["variance"] < 3
        assert line["seconds"] > 0
        assert str(plan.fit(text).estimator) == text


def check_everything(text: str, path: Path) -> None:
    """All of the contract."""
    check_text(text)
    fit = check_fit(text)
    check_influence(fit)
    check_summary(fit)
    check_files(fit, path)
    check_options(text)
    check_refined_twice(fit)
    check_theory(text)
    check_plan(text)
