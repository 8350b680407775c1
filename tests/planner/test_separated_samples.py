"""Plans for samples that separate say so, and do not list what a fit refuses."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.separation import refused_second_stage
from fieldfit.data.samples import as_table
from fieldfit.types import FieldfitError, ModelError, SeparationWarning

MODEL = ff.BoltzmannMachine(4, biases=True, states=(0, 1))


def samples(n, together):
    """Independent variables; of the first two, only ``together`` samples have both 1."""
    x = (np.random.default_rng(0).random((n, 4)) < 0.4).astype(int)
    x[x[:, 0] == 1, 1] = 0
    x[:together, :2] = 1
    return x


@pytest.mark.slow
@pytest.mark.parametrize("n", [800, 6000])  # all samples in the pilot, and a third of them
def test_samples_that_separate_are_named_and_second_stages_left_out(n):
    x = samples(n, 0)
    plan = ff.plan(MODEL, x)
    with pytest.warns(SeparationWarning):
        fit = ff.fit(MODEL, x, "PL1")
    assert plan.survey.pilot.separated == fit.separated != ()
    assert not any(">>" in policy for policy in plan.table["policy"])
    first = plan.explain().split("\n")[0]
    assert first.startswith("Caution: The data separate: without a penalty the optimum lies at infinity for x0:x1.")
    assert "sigma2" in first
    with pytest.raises(
        FieldfitError, match=r"'PL1 >> FL' cannot be compared\. The first stage has its optimum at inf"
    ):
        ff.plan(MODEL, x, policies=["PL1", "PL1 >> FL"])
    with pytest.raises(ModelError, match="The first stage has its optimum at infinity"):
        ff.refine(fit, "FL")


@pytest.mark.parametrize("together", [0, 1])  # never together, and once in the last part
def test_pieces_that_separate_are_named_as_in_one_table(together, tmp_path):
    x = samples(6000, together)[::-1]
    for number, part in enumerate(np.array_split(x, 3)):
        header = ",".join(MODEL.names)
        np.savetxt(tmp_path / f"{number}.csv", part, fmt="%d", delimiter=",", header=header, comments="")
    pieces = str(tmp_path / "*.csv")
    here, there = (ff.plan(MODEL, data, policies=["PL1"]) for data in (x, pieces))
    assert there.survey.pilot.separated == here.survey.pilot.separated == (("x0:x1",) if not together else ())
    assert there.caution == here.caution
    dataset = ff.fit(MODEL, pieces, "PL1", sigma2=1.0).prepared.dataset
    expected, directions = (MODEL.boundary_directions(samples) for samples in (MODEL.read(x), dataset))
    assert (directions is None) == (expected is None) == bool(together)
    if expected is not None:
        np.testing.assert_array_equal(directions.toarray(), expected.toarray())


@pytest.mark.slow
def test_a_pilot_that_separates_says_nothing_where_all_samples_do_not():
    plan = ff.plan(MODEL, samples(40_000, 1))
    joint = as_table(plan.survey.pilot.rows).codes[:, :2].sum(axis=1) == 2
    assert not joint.any()
    assert plan.survey.pilot.separated == ()
    assert plan.caution == ""
    assert any(">>" in policy for policy in plan.table["policy"])


@pytest.mark.slow
def test_a_penalty_keeps_the_optimum_finite():
    plan = ff.plan(MODEL, samples(800, 0), sigma2=10.0)
    assert plan.caution == ""
    assert any(">>" in policy for policy in plan.table["policy"])


def test_a_refusal_counts_the_parameters_that_it_does_not_list():
    names = [f"x{k}" for k in range(12)]
    assert "for x0, x1; a second" in refused_second_stage(names[:2])
    assert "x8, x9 and 2 more; a second" in refused_second_stage(names)


def test_a_pilot_whose_samples_separate_charges_pl2_with_few_more_evaluations_than_pl1():
    """The pilot's samples separate, and PL2 would follow its weak ridge for 223 evaluations; fits take 52 and 71."""
    model = ff.BoltzmannMachine(10, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.5, model.n_parameters)
    values = model.sample(theta, 60_000, random_state=1).values.copy()
    values[:, :4] = np.random.default_rng(3).random((60_000, 4)) < 0.003
    plan = ff.plan(model, values, policies=["PL1", "PL2"])
    evaluations = {candidate.policy: candidate.evaluations for candidate in plan.candidates}
    assert evaluations["PL2"] < 4 * evaluations["PL1"]
