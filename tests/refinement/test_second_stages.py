"""Every second stage keeps the contract of `stage_contract`."""

from __future__ import annotations

from pathlib import Path

import pytest
import stage_contract as contract

from fieldfit.refinement.second_stage import second_stages

EXAMPLES = [text for kind in second_stages() for text in kind.examples]
#: Many more conditions than the others.
SLOW = {"0.7*PL1 + 0.3*PL2 >> optimal(1)"}


def test_each_has_examples_and_is_found_by_its_file() -> None:
    assert [kind.__name__ for kind in second_stages()] == [
        "Controlled",
        "Maximised",
        "Nodewise",
        "Optimal",
        "Simulated",
    ]
    assert all(kind.examples for kind in second_stages())


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=pytest.mark.slow) if text in SLOW else text for text in EXAMPLES]
)
def test_the_contract(text: str, tmp_path: Path) -> None:
    contract.check_everything(text, tmp_path / "fit.ff")
