"""Automatic weights in the file of a fit: the same bits come back, and damaged files are refused."""

import dataclasses

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.container import read_container, write_container
from fieldfit.types import FileFormatError

MODEL = ff.BoltzmannMachine(4, biases=True)
X = MODEL.sample(np.linspace(-1, 1, 10), 800, 3).values


def same(a, b):
    for field in dataclasses.fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.name == "history":
            assert len(one) == len(other)
            for first, second in zip(one, other, strict=True):
                same(first, second)
        elif field.name == "gershgorin" and one is not None:
            same(one, other)
        elif isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other, field.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ff.AutoWeights(),
        ff.AutoWeights(form="diagonal", most_exact=3),
        ff.AutoWeights(by="component"),
        ff.AutoWeights(formula="published", gamma=0.1, max_rounds=1),
    ],
)
def test_a_saved_fit_keeps_its_weights(tmp_path, options):
    fit = ff.fit(MODEL, X, "PL1 + 0.5*FL", weights=options, sigma2=5.0)
    fit.save(tmp_path / "fit.ff")
    again = ff.load(tmp_path / "fit.ff")
    same(fit.weights, again.weights)
    assert again.weights.policy == again.policy
    assert str(again.weights) == str(fit.weights)
    assert again.weights.table().equals(fit.weights.table())
    assert again.weights.to_dict() == fit.weights.to_dict()
    assert len(again.weights.plot().axes) == 2


def test_an_infinite_pure_policy_is_kept(tmp_path):
    fit = ff.fit(MODEL, X, "PL1[0:2] + FL", weights="auto")
    assert fit.weights.pure["PL1[0:2]"] == np.inf
    fit.save(tmp_path / "fit.ff")
    assert ff.load(tmp_path / "fit.ff").weights.pure == fit.weights.pure


def test_fits_without_automatic_weights(tmp_path):
    path = tmp_path / "fit.ff"
    ff.fit(MODEL, X, "PL1", weights=[1.0]).save(path)
    assert ff.load(path).weights is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h, a: h.update(names=["PL1", "PL1"]), "same name"),
        (lambda h, a: h.update(names=["PL1"]), "beta"),
        (lambda h, a: h.update(names=[1, 2]), "names"),
        (lambda h, a: h.update(converged="yes"), "bool"),
        (lambda h, a: h.update(J="low"), "number"),
        (lambda h, a: h.pop("message"), "message"),
        (lambda h, a: a.update(weights_beta=np.array([np.nan, 1.0])), "finite"),
        (lambda h, a: a.update(weights_theta=np.zeros(3)), "theta"),
        (lambda h, a: a.update(weights_history=np.zeros((7, 3))), "history"),
        (lambda h, a: a.update(weights_history=np.zeros((7, 7), dtype=np.int64)), "history"),
        (lambda h, a: a.update(weights_pure=np.zeros(5)), "pure"),
        (lambda h, a: a.pop("weights_meat_radius"), "meat_radius"),
        (lambda h, a: h.pop("work"), "work"),
        (lambda h, a: h.update(work={"hours": 3}), "counts by name"),
        (lambda h, a: h.update(work={"samples": "many"}), "counts of work"),
        (lambda h, a: h.update(equal="low"), "equal"),
    ],
)
def test_damaged_weights_are_refused(tmp_path, change, match):
    path = tmp_path / "fit.ff"
    ff.fit(MODEL, X, "PL1 + FL", weights="auto").save(path)
    header, arrays = read_container(path)
    arrays = dict(arrays)
    change(header["weights"], arrays)
    write_container(path, header, arrays)
    with pytest.raises(FileFormatError, match=match):
        ff.load(path)
