"""Names tie parameters of a Markov random field, and nothing else does."""

import numpy as np
import pytest

import fieldfit as ff

BOTH, AGREE = np.array([[0, 0], [0, 1.0]]), np.eye(2)


def test_unnamed_factors_on_one_scope_have_parameters_of_their_own():
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), BOTH), ff.Factor((0, 1), AGREE), ff.Factor((0, 1), BOTH)])
    assert list(model.parameter_names) == ["x0:x1", "x0:x1#2", "x0:x1#3"]
    theta = np.array([0.5, -0.7, 0.2])
    _, probability = model.joint_probabilities(theta)
    expected = np.exp(0.7 * BOTH - 0.7 * AGREE).ravel()
    np.testing.assert_allclose(probability, expected / expected.sum(), rtol=1e-12)


def test_a_second_table_is_a_second_table():
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1)), ff.Factor((0, 1))])
    assert model.n_parameters == 8
    assert len(set(model.parameter_names)) == 8
    assert model.parameter_names[4] == "x0=0:x1=0#2"


def test_given_names_are_not_taken_by_unnamed_factors():
    factors = [ff.Factor((0, 1), BOTH), ff.Factor((0, 1), AGREE, "x0:x1"), ff.Factor((1, 2), AGREE, "x0:x1")]
    model = ff.MarkovRandomField([2, 2, 2], factors)
    assert list(model.parameter_names) == ["x0:x1#2", "x0:x1"]


def test_several_features_stay_together():
    pair = np.stack([BOTH, AGREE], axis=-1)
    factors = [ff.Factor((0, 1), BOTH, "x0:x1#1"), ff.Factor((0, 1), pair)]
    model = ff.MarkovRandomField([2, 2], factors)
    assert list(model.parameter_names) == ["x0:x1#1", "x0:x1#0#2", "x0:x1#1#2"]


def test_other_names_of_variables_and_files_keep_the_parameters(tmp_path):
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), BOTH), ff.Factor((0, 1), AGREE)])
    named = model.with_names(["a", "b"])
    assert list(named.parameter_names) == ["a:b", "a:b#2"]
    samples = model.sample([0.3, 0.2], 200, 0).codes
    fit = ff.fit(model, samples, "FL", sigma2=1.0)
    fit.save(tmp_path / "two.ff")
    loaded = ff.load(tmp_path / "two.ff")
    assert list(loaded.model.parameter_names) == list(fit.model.parameter_names)
    np.testing.assert_array_equal(loaded.theta, fit.theta)


def test_tables_of_a_uai_file_on_one_scope_are_two(tmp_path):
    path = tmp_path / "two.uai"
    path.write_text("MARKOV\n2\n2 2\n2\n2 0 1\n2 0 1\n4\n1 2 3 4\n4\n4 1 1 2\n")
    model, theta = ff.MarkovRandomField.from_uai(path)
    assert model.n_parameters == 8
    _, probability = model.joint_probabilities(theta)
    np.testing.assert_allclose(probability, np.array([4, 2, 3, 8]) / 17, rtol=1e-12)


@pytest.mark.parametrize("many", [400])
def test_many_unnamed_factors_on_one_scope(many):
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), BOTH * (k + 1)) for k in range(many)])
    assert len(set(model.parameter_names)) == many
