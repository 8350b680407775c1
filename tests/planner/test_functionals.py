"""Functionals by name: parameters, contrasts, coefficients and functions, in plans and on the command line."""

import json

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.functionals import NamedFunctionals, contrast
from fieldfit.cli import main
from fieldfit.types import ModelError

NAMES = ["a", "b", "B-NP->I-NP", "w=- x:A", "2*a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("a - b", {"a": 1.0, "b": -1.0}),
        ("2*a + 0.5·b", None),  # "2*a" is a parameter's own name here
        ("a + 2.5*b - a", {"a": 0.0, "b": 2.5}),
        ("B-NP->I-NP - a", {"B-NP->I-NP": 1.0, "a": -1.0}),
        ("+1·a -1·b", {"a": 1.0, "b": -1.0}),
        ("- b + a", {"a": 1.0, "b": -1.0}),
    ],
)
def test_contrasts_are_read(text, expected):
    assert contrast(text, NAMES) == ({"2*a": 1.0, "b": 0.5} if expected is None else expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a - nobody"], "'nobody' is not a parameter"),
        ([], "empty"),
        (["a - a"], "does not depend"),
        ([[1.0]], "5"),
        (3, "must be a list"),
        ([lambda theta: "a"], "must give one finite number; here it gave 'a'"),
        ({"both": lambda theta: ["a", "b"]}, "must give one finite number"),
    ],
)
def test_what_is_no_functional_is_refused(given, message):
    with pytest.raises(ModelError, match=message):
        NamedFunctionals(given, NAMES)(np.zeros(5))


@pytest.mark.slow
def test_a_contrast_is_judged_by_its_own_variance_in_every_form(five):
    model, _, x = five
    names = model.with_names([f"x{k}" for k in range(5)]).parameter_names
    vector = np.zeros(10)
    vector[2], vector[7] = 1.0, -2.0
    forms = [
        [f"{names[2]} - 2*{names[7]}"],
        {names[2]: 1.0, names[7]: -2.0},
        [{names[2]: 1.0, names[7]: -2.0}],
        vector[None],
        {"difference": lambda theta: theta[2] - 2 * theta[7]},
    ]
    plans = [ff.plan(model, x, policies=["PL1", "FL"], functionals=form) for form in forms]
    theory = ff.theory(model, plans[0].theta, "PL1")
    ratio = (vector @ theory.covariance @ vector) / (vector @ theory.mle_covariance @ vector)
    for plan in plans:
        variance = plan.table.set_index("policy")["variance"]
        assert variance["PL1"] == pytest.approx(ratio, rel=1e-5)
    assert "difference" in plans[-1].kind
    assert next(iter(forms[0])) in plans[0].kind


@pytest.mark.slow
def test_contrasts_on_the_command_line(five, tmp_path, capsys):
    path = tmp_path / "data.csv"
    np.savetxt(path, five[2][:500], fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    command = ["plan", str(path), "-p", "PL1", "-p", "FL", "--json", "--functional"]
    assert main([*command, "a:b - c:d"]) == 0
    assert json.loads(capsys.readouterr().out)["criterion"] == "mean variance of a:b - c:d"
    assert main([*command, "a:b - nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
