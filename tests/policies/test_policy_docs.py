from __future__ import annotations

import doctest
from pathlib import Path


def test_examples_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "policies.md"
    # The closing fence of a block is not part of the expected output: a blank line stands before it.
    failures, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10
    assert failures == 0
