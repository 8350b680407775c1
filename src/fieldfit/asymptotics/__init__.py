"""Asymptotic variance: bread, meat and the sandwich, from the sums over samples that a Problem answers."""

from fieldfit.asymptotics.accuracy import Accuracy, DenseAccuracy, Moments
from fieldfit.asymptotics.implicit import ImplicitAccuracy, ImplicitBread, Limit, Preconditioner, Solved
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.asymptotics.moments import theory_moments
from fieldfit.asymptotics.range_inverse import RangeInverse, range_inverse
from fieldfit.asymptotics.sandwich import Asymptotics, robust_moments
from fieldfit.asymptotics.weighted_chi_square import weighted_chi_square_tail

__all__ = [
    "Accuracy",
    "Asymptotics",
    "DenseAccuracy",
    "ImplicitAccuracy",
    "ImplicitBread",
    "Limit",
    "Moments",
    "Preconditioner",
    "RangeInverse",
    "ScoreVariance",
    "Solved",
    "range_inverse",
    "robust_moments",
    "theory_moments",
    "weighted_chi_square_tail",
]
