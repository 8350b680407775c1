"""Complex numbers are refused with a sentence: NumPy's conversion would drop their imaginary parts."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.arguments import real_array
from fieldfit.types import FieldfitError

MODEL = ff.BoltzmannMachine(3, biases=True)
ROWS = MODEL.sample(np.full(6, 0.2), 100, random_state=0).values
NUMBER = np.complex128(1 + 2j)  # of NumPy: has a conversion to float, which Python's has not
#: Six complex numbers, of which the real parts would do.
SIX = np.full(6, NUMBER)


def fitted(**options):
    return ff.fit(MODEL, options.pop("data", ROWS), options.pop("policy", "PL1"), **options)


def field(**options):
    return ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), **options)])


FIT = fitted()
CALLS = {
    "sample": lambda: MODEL.sample(SIX, 10),
    "sample, list": lambda: MODEL.sample(list(SIX), 10),
    "sample, Python's numbers": lambda: MODEL.sample([1 + 2j] * 6, 10),
    "log_partition": lambda: MODEL.log_partition(SIX),
    "check_theta, no imaginary part": lambda: MODEL.check_theta(SIX.real.astype(complex)),
    "marginals": lambda: MODEL.marginals(SIX),
    "theory": lambda: ff.theory(MODEL, SIX, "PL1"),
    "mixtures": lambda: ff.family_mixtures(MODEL, np.zeros(6), ["PL1", "FL"]).cost(SIX[:2]),
    "data": lambda: fitted(data=ROWS + 1j),
    "sample_weight": lambda: fitted(sample_weight=np.full(100, NUMBER)),
    "sigma2": lambda: fitted(sigma2=NUMBER),
    "sigma2 of each": lambda: fitted(sigma2=SIX),
    "l1": lambda: fitted(l1=SIX),
    "start": lambda: fitted(start=SIX),
    "fixed": lambda: fitted(fixed={"x0:x1": NUMBER}),
    "tol": lambda: fitted(tol=NUMBER),
    "max_iter": lambda: fitted(max_iter=np.complex128(3)),
    "random_state": lambda: fitted(random_state=np.array(3 + 0j)),
    "β": lambda: fitted(policy="PL1 + PL2", weights=[NUMBER, 1.0]),
    "restrictions": lambda: FIT.wald_test(np.full((1, 6), NUMBER)),
    "value of a restriction": lambda: FIT.wald_test("x0:x1", NUMBER),
    "coefficients": lambda: FIT.functional(SIX),
    "function": lambda: FIT.functional(lambda theta: theta[0] + 1j),
    "function of a bootstrap": lambda: FIT.bootstrap(3).functional(lambda theta: theta[0] + 1j),
    "statistic": lambda: FIT.goodness_of_fit(lambda samples: 1 + 1j, n_simulated=3),
    "states": lambda: ff.BoltzmannMachine(3, states=(np.complex128(0), NUMBER)),
    "features": lambda: field(features=np.full((2, 2), NUMBER)),
    "log_offset": lambda: field(log_offset=np.full((2, 2), NUMBER)),
    "matrices of a tagger": lambda: ff.CRFTagger().fit([np.full((2, 2), NUMBER)], [["a", "b"]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_refused(name):
    with pytest.raises(FieldfitError, match=r"number|integer|complex|must be text"):
        CALLS[name]()


def test_real_numbers_pass():
    assert real_array([1, 2.5, True]).tolist() == [1.0, 2.5, 1.0]
    with pytest.raises(TypeError, match="complex"):
        real_array([1, 2j])
