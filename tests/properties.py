"""How many examples a property is tested with."""

from hypothesis import settings

#: Hypothesis' own number; the profile of the fast tests has fewer.
_ALL = 100


def examples(count: int) -> int:
    """``count``, or a quarter of it in the fast tests."""
    return count if settings.default.max_examples >= _ALL else max(count // 4, 10)
