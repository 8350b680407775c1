"""What a plan is requested for: a model and data, and a budget in seconds or FLOPs, or an accuracy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model
from fieldfit.optim.solution import DEFAULT_TOL
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError, FloatArray

if TYPE_CHECKING:
    from fieldfit.api.result import Fit

#: θ ↦ names and gradients (q, r) of the functionals that a user names.
Functionals = Callable[[FloatArray], tuple[Sequence[str], FloatArray]]
#: Largest gradient of a fit for each sample; or "statistical": the optimisation error is small against the sampling error.
Tolerance = float | Literal["statistical"]
_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
NO_EFFICIENCY = (
    "efficiency is relative to maximum likelihood, which is too wide to compute for this model. Give a budget in seconds "
    "or flops."
)


@dataclass(frozen=True)
class Target:
    """A budget in seconds or FLOPs, or the largest variance relative to the MLE; with none of them there is no limit."""

    seconds: float | None = None
    flops: float | None = None
    efficiency: float | None = None
    pilot_spent: bool = False  # the pilot's cost is already spent: all of the budget is for the fit

    @classmethod
    def of(cls, budget: str | float | None, flops: float | None, efficiency: float | None) -> Target:
        """From what a user gives, one of the three or none."""
        if sum(value is not None for value in (budget, flops, efficiency)) > 1:
            raise FieldfitError("Give only one of budget, flops and efficiency.")
        wanted = None if efficiency is None else _positive(efficiency, "efficiency")
        if wanted is not None and wanted < 1:
            raise FieldfitError(f"efficiency is {wanted:g}; it must be at least 1, the value of maximum likelihood.")
        return cls(
            None if budget is None else parse_seconds(budget),
            None if flops is None else _positive(flops, "flops"),
            wanted,
        )

    @property
    def unit(self) -> str:
        """The cost that counts."""
        return "flops" if self.flops is not None else "seconds"

    @property
    def limit(self) -> float:
        """The budget, infinite where there is none."""
        given = self.flops if self.flops is not None else self.seconds
        return math.inf if given is None else given


@dataclass(frozen=True)
class Shards:
    """How the fit to come is divided.

    ``rows`` are samples like those of one shard, ``speed`` is how many shards are worked on at once. Seconds beside the
    work of the shards: ``overhead`` of a question to all of them, ``placing`` to send them their samples, ``sharing`` to
    send them a policy and compile nothing, ``loading`` what the first fit on these workers takes once. ``preconditioned``:
    whether they are large enough for a preconditioner.
    """

    rows: Dataset
    speed: float
    overhead: float
    placing: float = 0.0
    sharing: float = 0.0
    loading: float = 0.0
    preconditioned: bool = True

    def times(self, n: float) -> float:
        """How often the work for ``rows`` is done one after the other in a pass over n samples."""
        return max(n / (max(self.rows.n, 1) * self.speed), 1.0)


@dataclass(frozen=True, kw_only=True)
class Request:
    """All that a plan is made from.

    ``precision`` (r,) is the penalty and ``tol`` the tolerance of the fit to come. ``reading`` are the seconds that reading
    the data took, which every fit takes again, and ``threads`` is how many threads a fit uses.
    """

    model: Model
    dataset: Dataset
    target: Target
    fitted: Callable[..., Fit]  # fits a policy to the same samples with the same penalty
    policies: tuple[Policy | Staged, ...] | None = None
    functionals: Functionals | None = None
    n_functionals: int | None = None
    precision: FloatArray | None = None
    tol: Tolerance = DEFAULT_TOL
    random_state: int = 0
    reading: float = 0.0
    threads: int = field(default_factory=get_threads)
    shards: Shards | None = None
    drift: Callable[[FloatArray], str] | None = (
        None  # θ ↦ how samples of the field drift away from the data, as a clause
    )

    @property
    def preconditioned(self) -> bool:
        """Whether a fit uses the preconditioner of its problem, if there is one."""
        return self.shards is None or self.shards.preconditioned

    @property
    def staged(self) -> tuple[Staged, ...]:
        """The estimators with a second stage among the policies."""
        return tuple(policy for policy in self.policies or () if isinstance(policy, Staged))


def parse_seconds(text: str | float) -> float:
    """``10s``, ``500ms``, ``2min``, ``1h`` or a number of seconds."""
    if not isinstance(text, str):
        return _positive(text, "budget")
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?\d+)?)\s*([a-z]*)\s*", text)
    if match is None or (match[2] or "s") not in _UNITS:
        raise FieldfitError(f"budget is {text!r:.80}; write a time such as 10s, 500ms, 2min or 1h.")
    return _positive(float(match[1]) * _UNITS[match[2] or "s"], "budget")


def _positive(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise FieldfitError(f"{name} is {value!r:.80}; it must be a positive number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise FieldfitError(f"{name} is {value!r:.80}; it must be a positive number.")
    return number
