"""The second stage of a fit: what it was, how it went, and its accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fieldfit.policies.stages import Nodewise, Second, Simulated, Staged, as_estimator
from fieldfit.refinement.account import Account, ChainAccount
from fieldfit.refinement.second_stage import SecondStage
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.types import DataError, FloatArray, PolicyError

if TYPE_CHECKING:
    from fieldfit.api.state import FitState


@dataclass(frozen=True)
class Refinement:
    """The second stage of a fit. ``working`` is None for a fit that was loaded from a file without its samples.

    ``first`` is Nodewise where there was no joint first stage; ``first_theta`` is then the average of the separate
    estimates.
    """

    second: Second
    first_theta: FloatArray
    account: Account | ChainAccount
    working: SecondStage | None = None
    saved_test: SpecificationTest | None = None
    first: Nodewise | None = None

    @property
    def accepted(self) -> bool:
        """Whether the estimate is the second stage's."""
        return self.account.accepted

    @property
    def needed(self) -> SecondStage:
        """The conditions with their samples; DataError for a fit that was loaded from a file."""
        if self.working is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.working

    def lines(self) -> list[str]:
        """The second stage in words."""
        return self.account.lines(str(self.second))

    def to_dict(self, test: SpecificationTest | None = None) -> dict[str, Any]:
        """Plain values, for JSON."""
        test = self.saved_test if test is None else test
        return {
            "second": str(self.second),
            "nodewise": self.first is not None,
            "account": dict(vars(self.account)),
            "test": None if test is None else test.to_dict(),
        }


def read_refinement(header: dict[str, Any], first_theta: FloatArray) -> Refinement:
    """What `Refinement.to_dict` wrote."""
    staged = as_estimator(f"PL1 >> {header['second']}")
    assert isinstance(staged, Staged)
    test = None if header["test"] is None else SpecificationTest(**header["test"])
    kind = ChainAccount if isinstance(staged.second, Simulated) else Account
    first = Nodewise() if header["nodewise"] else None
    return Refinement(staged.second, first_theta, kind(**header["account"]), None, test, first)


def refuse_refined(fit: FitState, what: str, instead: str) -> None:
    """PolicyError where ``what`` has no meaning for a fit with a second stage."""
    if fit.refined:
        raise PolicyError(
            f"{what} needs an estimate that maximises its objective; '{fit.estimator}' combines moment conditions. "
            f"{instead}"
        )
