"""The second stage of a fit: its kind, its course and its accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_type_hints

from fieldfit.policies import Policy
from fieldfit.refinement.second_stage import SecondStage, StageAccount, StageFit
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.types import DataError, FloatArray, Plain, PolicyError

if TYPE_CHECKING:
    from fieldfit.api.state import FitState


@dataclass(frozen=True, repr=False)
class Refinement:
    """The second stage of a fit. ``working`` is None for a fit that was loaded from a file without its samples.

    ``first_theta`` is the first stage's estimate, or the average of the estimates of separate fits.
    """

    second: SecondStage
    first_theta: FloatArray
    account: StageAccount
    working: StageFit | None = None
    saved_test: SpecificationTest | None = None

    def __repr__(self) -> str:
        return f"<Refinement: {self.second}, {'accepted' if self.accepted else 'not accepted'}>"

    @property
    def accepted(self) -> bool:
        """Whether the second stage's estimate was accepted."""
        return self.account.accepted

    @property
    def needed(self) -> StageFit:
        """The conditions with their samples; DataError for a fit that was loaded from a file."""
        if self.working is None:
            raise DataError(
                "This fit was loaded from a file, which does not contain the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.working

    def lines(self) -> list[str]:
        """The second stage as lines of text."""
        return self.account.lines(str(self.second))

    def to_dict(self, first: Policy, test: SpecificationTest | None = None) -> Plain:
        """Plain values, for JSON; ``first`` is the policy of the first stage."""
        test = self.saved_test if test is None else test
        return {
            "estimator": self.second.text(first),
            "second": str(self.second),
            "account": dict(vars(self.account)),
            "test": None if test is None else test.to_dict(),
        }


def read_refinement(header: Plain, first_theta: FloatArray) -> Refinement:
    """Read the result of `Refinement.to_dict`."""
    staged = as_estimator(str(header["estimator"]))
    if not isinstance(staged, Staged) or staged.second.account is None:
        raise DataError(f"'{header['estimator']}' has no second stage of moment conditions.")
    test = None if header["test"] is None else _read_test(header["test"])
    account = staged.second.account(**header["account"])
    for name, kind in get_type_hints(type(account)).items():
        value = getattr(account, name)
        if type(value) not in ((int, float) if kind is float else (kind,)):
            raise DataError(f"'{name}' of the second stage is {value!r:.80}; it must be of the type {kind.__name__}.")
        if kind is float:
            float(value)
    return Refinement(staged.second, first_theta, account, None, test)


def _read_test(test: Plain) -> SpecificationTest:
    return SpecificationTest(
        float(test["statistic"]),
        int(test["degrees_of_freedom"]),
        float(test["p_value"]),
        str(test["source"]),
        str(test.get("differing", "")),
    )


def refuse_refined(fit: FitState, what: str, instead: str) -> None:
    """Raise PolicyError if ``what`` is not defined for a fit with a second stage."""
    if fit.refined:
        raise PolicyError(
            f"{what} needs an estimate that maximises its objective; '{fit.estimator}' combines moment conditions. "
            f"{instead}"
        )
