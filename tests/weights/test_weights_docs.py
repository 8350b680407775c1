import doctest
from pathlib import Path


def test_examples_of_the_page():
    page = Path(__file__).parents[2] / "docs" / "automatic-weights.md"
    failures, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10
    assert failures == 0
