"""Penalties as users write them, one number for each parameter: Gaussian with variances σ², and L1, also on groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.arguments import array_of, number_from_zero, real_number, unmasked
from fieldfit.models.memory import LARGEST_NUMBER
from fieldfit.named import places_of_each
from fieldfit.optim.group_penalty import GroupPenalty
from fieldfit.types import BoolArray, FloatArray, IntArray, ModelError

#: The least variance of a penalty: squares of 1/σ², and sums of them, are finite.
LEAST_VARIANCE = 1 / LARGEST_NUMBER

#: A number for each parameter as users write it, see `by_parameter`.
ByParameter = float | Sequence[float | None] | FloatArray | Mapping[str | None, float | None] | None


@dataclass(frozen=True)
class Penalties:
    """Σ_l θ_l² / (2σ_l²) + Σ_l a_l |θ_l|, or with groups Σ_l θ_l² / (2σ_l²) + Σ_g a_g ‖θ_g‖.

    Parameters
    ----------
    sigma2
        (r,) prior variances σ² of the Gaussian penalty; infinity is no penalty.
    l1
        (r,) weights a of the L1 penalty, or None where there is none.
    l1_groups
        (r,) the number of the group of each parameter, for a penalty on norms of groups; a is the same within a group.
        None: every parameter for itself.
    """

    sigma2: FloatArray
    l1: FloatArray | None = None
    l1_groups: IntArray | None = None

    @classmethod
    def of(cls, sigma2: ByParameter, l1: ByParameter, names: Sequence[str]) -> Penalties:
        """From what users write, see `by_parameter`; None is no penalty."""
        variances, weights = repeated(np.inf, len(names)), None
        if sigma2 is not None:
            least = f"must be a positive number of at least {LEAST_VARIANCE:g}, or None for no penalty"
            kind = _Kind("sigma2", least, np.inf)
            variances = by_parameter(sigma2, names, kind)
            kind.refuse(~(variances >= LEAST_VARIANCE), variances, names)
        if l1 is not None:
            kind = _Kind("l1", "must be a number of at least 0", 0.0)
            weights = by_parameter(l1, names, kind)
            kind.refuse(~((weights >= 0) & np.isfinite(weights)), weights, names)
        return cls(variances, None if weights is None or not weights.any() else weights)

    def with_groups(self, weight: float | None, groups: Callable[[], IntArray]) -> Penalties:
        """The same with ``weight`` times the norm of each group in ``groups()`` (r,), where −1 is in no group."""
        number = 0.0 if weight is None else number_from_zero(weight, "group_l1", ModelError)
        if not number:
            return self
        if self.l1 is not None:
            raise ModelError(
                "l1 and group_l1 cannot be combined: l1 is for single parameters, group_l1 for whole tables."
            )
        places = groups()
        return Penalties(self.sigma2, np.where(places >= 0, number, 0.0), places)

    @classmethod
    def none(cls, r: int) -> Penalties:
        """No penalty on r parameters."""
        return cls(np.full(r, np.inf))

    @property
    def precision(self) -> FloatArray:
        """1/σ² (r,)."""
        return inverse(self.sigma2)

    @property
    def penalised(self) -> BoolArray:
        """Which parameters (r,) have a penalty of either kind."""
        gaussian = np.isfinite(self.sigma2)
        return gaussian if self.l1 is None else gaussian | (self.l1 > 0)

    def l1_value(self, theta: FloatArray, free: BoolArray) -> float:
        """Σ a |θ|, or Σ a ‖θ_g‖, over the free parameters."""
        if self.l1 is None:
            return 0.0
        if self.l1_groups is not None:
            return GroupPenalty(self.l1[free], self.l1_groups[free]).value(theta[free])
        return float(self.l1[free] @ np.abs(theta[free]))

    def value(self, theta: FloatArray, free: BoolArray) -> float:
        """The penalty of θ: the Gaussian one of all parameters, the L1 one of those that are free."""
        return 0.5 * float(np.sum(theta**2 / self.sigma2)) + self.l1_value(theta, free)

    def subset(self, places: IntArray | BoolArray) -> Penalties:
        """The penalty of some of the parameters."""
        return Penalties(
            self.sigma2[places],
            None if self.l1 is None else self.l1[places],
            None if self.l1_groups is None else self.l1_groups[places],
        )


def inverse(values: FloatArray) -> FloatArray:
    """1 / values (r,); one number for all of them, see `repeated`, stays one."""
    if len(values) and values.strides == (0,):
        return repeated(1.0 / float(values[0]), len(values))
    return 1.0 / values


def repeated(value: float, count: int) -> FloatArray:
    """The value ``count`` times, read-only and stored once: θ may have millions of parameters."""
    return np.broadcast_to(np.float64(value), (count,))


@dataclass(frozen=True)
class _Kind:
    """What numbers for parameters are: their name, what they must be, and what None stands for."""

    name: str
    requirement: str
    absent: float

    def number(self, value: object, parameter: str) -> float:
        """One number as a float."""
        if value is None:
            return self.absent
        unmasked(value, f"{self.name} of {parameter}", ModelError)
        try:
            if isinstance(value, bool | np.bool_):
                raise TypeError("a truth value")
            return real_number(value)
        except (TypeError, ValueError, OverflowError):
            raise ModelError(f"{self.name} of {parameter} is {value!r:.80}; it {self.requirement}.") from None

    def refuse(self, wrong: BoolArray, values: FloatArray, names: Sequence[str]) -> None:
        """ModelError for the first number that is wrong."""
        if wrong.any():
            place = int(np.argmax(wrong))
            parameter = "all parameters" if wrong.all() else names[place]
            raise ModelError(f"{self.name} of {parameter} is {values[place]}; it {self.requirement}.")


def by_parameter(given: ByParameter, names: Sequence[str], kind: _Kind) -> FloatArray:
    """A number for each parameter (r,).

    ``given`` is one number, a sequence with one for each parameter, or a mapping from parameters, by name, pattern
    (``"x3*"``) or number, to numbers, with the number of all others under the key ``None``. Later entries go before
    earlier ones.
    """
    r = len(names)
    if isinstance(given, Mapping):
        values = np.full(r, kind.number(given.get(None), "the default"))
        keys = [key for key in given if key is not None]
        try:
            places_by_key = places_of_each(keys, names)
        except ModelError as error:
            raise ModelError(f"{kind.name}: {error}") from None
        for key, places in zip(keys, places_by_key, strict=True):
            values[places] = kind.number(given[key], repr(key))
        return values
    unmasked(given, kind.name, ModelError)
    if isinstance(given, np.ndarray) and given.shape == (r,) and given.dtype.kind in "fiu":
        # At once: there may be millions. What nobody can change is not copied.
        return given.astype(np.float64, copy=given.flags.writeable)
    array = array_of(given, dtype=object)
    if array.ndim == 0:
        return repeated(kind.number(given, "all parameters"), r)
    if array.shape != (r,):
        raise ModelError(f"{kind.name} has shape {array.shape}; give one number, or one for each of {r} parameters.")
    return np.array([kind.number(value, names[place]) for place, value in enumerate(array)])
