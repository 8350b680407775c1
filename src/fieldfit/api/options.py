"""The options of `fit` in one object, checked once, for all stages of an estimation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from numpy.typing import ArrayLike

from fieldfit.api.checkpoint import Checkpoint, as_checkpoint
from fieldfit.arguments import one_of, positive_number, seed, truth_value, whole_number
from fieldfit.optim import Progress
from fieldfit.optim.choose import Method
from fieldfit.optim.early_stopping import EarlyStopping
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.penalties import ByParameter
from fieldfit.policies import Policy
from fieldfit.policies.selection import Selection
from fieldfit.types import DataError, FieldfitError, FloatArray
from fieldfit.weights import AutoWeights, as_options

#: More iterations than any fit makes.
_MOST_ITERATIONS = 2**62


@dataclass(frozen=True, kw_only=True)
class EstimationOptions:
    """The keyword arguments of `fit`, and those of fits that are part of another.

    ``as_start``: the estimate is only the start of another fit. ``copies``: every copy of a sample with a count is a
    sample. ``drawn``: the Z of the samples, where it was drawn before.
    """

    sigma2: ByParameter = None
    l1: ByParameter = None
    group_l1: float | None = None
    weights: Sequence[float] | FloatArray | Literal["auto"] | AutoWeights | None = None
    random_state: int = 0
    sample_weight: ArrayLike | str | None = None
    weight_kind: str = "importance"
    groups: ArrayLike | str | None = None
    start: ArrayLike | None = None
    fixed: Mapping[str, float] | None = None
    method: Method = "auto"
    tol: float | Literal["statistical"] = DEFAULT_TOL
    max_iter: int = DEFAULT_MAX_ITER
    wide_rows: str = "refuse"
    progress: Callable[[Progress], object] | bool | None = None
    stopping: EarlyStopping | None = None
    backend: object = None
    shards: int | None = None
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    check_drift: bool = True
    as_start: bool = False
    copies: bool = False
    drawn: Selection | None = None

    def __post_init__(self) -> None:
        if not self.statistical:
            object.__setattr__(self, "tol", positive_number(self.tol, "tol", ", or 'statistical'"))
        object.__setattr__(self, "max_iter", min(whole_number(self.max_iter, "max_iter", 0), _MOST_ITERATIONS))
        object.__setattr__(self, "random_state", seed(self.random_state))
        object.__setattr__(self, "check_drift", truth_value(self.check_drift, "check_drift"))
        one_of(self.wide_rows, "wide_rows", ("refuse", "drop"), DataError)
        if not isinstance(self.method, str) or self.method not in get_args(Method):
            raise FieldfitError(
                f"method is {self.method!r:.80}; it must be 'auto', 'lbfgs', 'newton' or, for chains, 'sgd'."
            )
        if self.method == "sgd" and self.automatic is not None:
            raise FieldfitError(
                "Automatic weights need a fit that converges: use method='auto', or give the weights."
            )
        if self.stopping is not None and not isinstance(self.stopping, EarlyStopping):
            raise FieldfitError(f"stopping is {self.stopping!r:.80}; it must be an EarlyStopping, or None.")

    @property
    def automatic(self) -> AutoWeights | None:
        """How to choose the weights β, if they are automatic."""
        return None if self.weights is None else as_options(self.weights)

    def weighted(self, policy: Policy) -> Policy:
        """The policy with the weights that were given."""
        if self.weights is None or self.automatic is not None:
            return policy
        return policy.with_betas(cast(Sequence[float], self.weights))

    @property
    def statistical(self) -> bool:
        """Whether to stop when the optimisation error is small compared with the sampling error."""
        return isinstance(self.tol, str) and self.tol == "statistical"

    @property
    def gradient(self) -> float:
        """The largest entry of the gradient, for each sample, at which the fit has converged."""
        return DEFAULT_TOL if self.statistical else float(self.tol)

    @property
    def kept(self) -> Checkpoint | None:
        """The checkpoint, if there is one."""
        return as_checkpoint(self.checkpoint)
