"""The examples of the pages on standard errors, robustness and model comparison run as printed."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize("page", ["standard-errors", "robustness", "model-comparison"])
def test_examples_of_the_page(page):
    path = Path(__file__).parents[2] / "docs" / f"{page}.md"
    failures, tried = doctest.testfile(str(path), module_relative=False)
    assert tried > 5
    assert failures == 0
