"""Asymptotic variance: bread, meat and the sandwich, from the sums over samples that a Problem answers."""

from fieldfit.asymptotics.moments import TheoryMoments, theory_moments
from fieldfit.asymptotics.sandwich import Asymptotics, robust_moments, sandwich

__all__ = ["Asymptotics", "TheoryMoments", "robust_moments", "sandwich", "theory_moments"]
