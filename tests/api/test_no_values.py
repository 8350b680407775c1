"""What is not a model, a list of names or a text is refused with a sentence."""

import pytest

import fieldfit as ff
from fieldfit import chains
from fieldfit.types import FieldfitError


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ff.fit(None, [[0, 1]] * 20), "fit needs a model"),
        (lambda: ff.plan(None, [[0, 1]] * 20), "plan needs a model"),
        (lambda: ff.theory(None, [0.0], "PL1"), "theory needs a model"),
        (lambda: ff.BoltzmannMachine(2).with_names(None), "one name for each of the 2 variables"),
        (lambda: ff.MarkovRandomField([2, 2], [(0, 1)]).with_names(None), "one name for each of the 2 variables"),
        (lambda: chains.parse_columns(None), "must be a string"),
        (lambda: ff.Policy.parse(None), "parsed from a text"),
        (lambda: ff.refine(None), "refine takes a fit"),
    ],
)
def test_none_is_refused_with_a_sentence(call, sentence):
    with pytest.raises(FieldfitError, match=sentence):
        call()
