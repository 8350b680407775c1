"""Every second stage keeps the contract of `stage_contract`."""

from __future__ import annotations

from pathlib import Path

import pytest
import stage_contract as contract

from fieldfit.refinement.second_stage import second_stages

EXAMPLES = [text for kind in second_stages() for text in kind.examples]
#: All but the first example of each kind.
SLOW = {text for kind in second_stages() for text in kind.examples[1:]}


def test_each_has_examples_and_is_found_by_its_file() -> None:
    assert [kind.__name__ for kind in second_stages()] == [
        "Controlled",
        "Maximised",
        "Nodewise",
        "Optimal",
        "Simulated",
    ]
    assert all(kind.examples for kind in second_stages())


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=pytest.mark.slow) if text in SLOW else text for text in EXAMPLES]
)
def test_the_contract(text: str, tmp_path: Path) -> None:
    contract.check_everything(text, tmp_path / "fit.ff")
