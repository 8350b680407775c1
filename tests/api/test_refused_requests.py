"""What cannot be answered is refused in a sentence, never by an exception of something below."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type"

import re
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import FieldfitError, PolicyError

MODEL = ff.BoltzmannMachine(4)
X = MODEL.sample([-1, 1, 0.5, -0.5, 1, -1], 200, 0).values
FIT = ff.fit(MODEL, X, "PL1")

REFUSED = {
    "a text as level": (lambda: FIT.conf_int("a"), "The confidence level must be between 0 and 1; got 'a'."),
    "no level": (lambda: FIT.conf_int(None), "The confidence level must be between 0 and 1; got None."),
    "a text as rate": (lambda: FIT.discoveries("a"), "The false discovery rate must be between 0 and 1; got 'a'."),
    "influence on nothing": (lambda: FIT.influence(parameters=[]), "parameters is empty; name at least one"),
    "influential on nothing": (lambda: FIT.influential(parameters=[]), "parameters is empty"),
    "sensitivity of nothing": (lambda: FIT.gross_error_sensitivity([]), "parameters is empty"),
    "half a sample": (lambda: FIT.influential(2.5), "an integer of at least 1; got 2.5."),
    "half a sample drawn": (lambda: FIT.plot_influence(2.5), "an integer of at least 1; got 2.5."),
    "a truth value of samples": (lambda: FIT.influential(True), "an integer of at least 1; got True."),
    "a text as θ": (lambda: ff.theory(MODEL, "abc", "PL1"), "θ is 'abc'; it must be 6 real numbers"),
    "a text as start": (lambda: ff.fit(MODEL, X, start="abc"), "θ is 'abc'; it must be 6 real numbers"),
    "half a round": (
        lambda: ff.AutoWeights(max_rounds=1.5),
        "max_rounds of the automatic weights is 1.5; it must be a",
    ),
    "several functionals": (
        lambda: FIT.functional(["x0:x1", "x2:x3"]),
        "estimates one number, and ['x0:x1', 'x2:x3']",
    ),
    "several mappings": (lambda: FIT.functional([{"x0:x1": 1}, {"x2:x3": 1}]), "estimates one number"),
    "an empty mapping": (lambda: FIT.functional({}), "coefficients is empty; give at least one parameter."),
    "NaN coefficients": (lambda: FIT.functional([np.nan] * 6), "Coefficients are finite numbers; got [nan"),
    "a text as coefficient": (lambda: FIT.functional({"x0:x1": "a"}), "Coefficients are finite numbers; got ['a']"),
    "an infinite coefficient": (lambda: FIT.functional({"x0:x1": np.inf}), "Coefficients are finite numbers"),
    "a truth value": (lambda: FIT.functional(True), "A parameter is a name or a number from 0 to 5; got True."),
    "no functional": (lambda: FIT.functional(None), "A functional is a parameter's name or number"),
    "a fraction of parameters": (lambda: FIT.table(parameters=2.5), "one or a list; got 2.5."),
    "parameters as kind": (lambda: FIT.standard_errors(["x0:x1"]), "To select parameters, use parameters=[…]."),
    "an array as kind": (lambda: FIT.standard_errors(np.arange(2)), "To select parameters, use parameters=[…]."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_a_sentence(name):
    action, sentence = REFUSED[name]
    with pytest.raises(FieldfitError, match=re.escape(sentence)):
        action()


def test_no_rows_have_no_influence():
    assert FIT.influence(rows=[]).shape == (0, 6)


def test_a_summary_names_its_level():
    assert "lower and upper: 50% confidence intervals" in FIT.summary(level=0.5)
    assert "95% confidence intervals" in FIT.summary()


def test_names_where_numbers_were_expected():
    field = ff.MarkovRandomField([2, 2], [ff.Factor(("sex", "edu"))], names=["sex", "edu"])
    assert field.parameter_names == ff.MarkovRandomField([2, 2], [(0, 1)], names=["sex", "edu"]).parameter_names
    with pytest.raises(FieldfitError, match="no variable 'six'"):
        ff.MarkovRandomField([2, 2], [ff.Factor(("six", "edu"))], names=["sex", "edu"])
    with pytest.raises(FieldfitError, match="no variable 'nope'"):
        field.marginals(np.zeros(4), {"nope": 1})
    values: list[Any] = [None, "a", np.inf]
    for value in values:
        with pytest.raises(FieldfitError, match="must be a finite number"):
            ff.fit(FIT.model, np.eye(4), "PL1", fixed={"*:*": value})
    with pytest.raises(FieldfitError, match="n_jobs"):
        FIT.bootstrap(5, n_jobs=0)


def test_more_components_than_memory_has_room_for():
    """Said before any array of them is made."""
    x = np.random.default_rng(0).integers(0, 2, (60, 60))
    for model, policies in ((ff.BoltzmannMachine(60), ("PL7", "PL20", "Partition(20)")), (ff.Potts(60, 2), ("PL7",))):
        for policy in policies:
            with pytest.raises(
                PolicyError, match=r"components.*; a fit takes at most [\d,]+ of them\. Use smaller blocks"
            ):
                ff.fit(model, x, policy)


def test_bad_arguments_of_tests_and_networks():
    random = np.random.default_rng(0)
    x = random.integers(0, 2, (60, 3))
    fit = ff.fit(ff.BoltzmannMachine(3, biases=True), x, "PL1")
    for value in (np.nan, -1, "", None):
        with pytest.raises(FieldfitError, match="random_state is"):
            fit.goodness_of_fit(random_state=value)
    with pytest.raises(FieldfitError, match="n_simulated is"):
        fit.goodness_of_fit(n_simulated=10**30)
    with pytest.raises(FieldfitError, match="A bootstrap is of the kind"):
        fit.bootstrap(kind=[])
    with pytest.raises(FieldfitError, match="n_jobs is"):
        fit.bootstrap(n_jobs=10**30)
    for function in (ff.networks.predictability, ff.networks.refit):
        with pytest.raises(FieldfitError, match="needs a Network; got nan"):
            function(x, np.nan)
    with pytest.raises(FieldfitError, match="rule is"):
        ff.networks.nodewise_network(x, rule=[])
    with pytest.raises(FieldfitError, match="identity threshold is"):
        ff.proteins.sequence_weights(None, "")
