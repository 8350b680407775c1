"""The table of names: codes in order of arrival, whatever the names, and what it refuses."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit._kernels import NameTable


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=20)))  # type: ignore[arg-type]
def test_codes_equal_those_of_a_dict(names):
    table = NameTable()
    codes: dict[str, int] = {}
    for name in names:
        codes.setdefault(name, len(codes))
    counts, found, values, failure = table.encode([names], True)
    assert (counts.tolist(), values, failure) == ([len(names)], None, None)
    assert found.tolist() == [codes[name] for name in names]
    assert table.names() == list(codes)
    assert len(table) == len(codes)
    assert table.encode([names, ["\0 not there"]], False)[1].tolist() == [codes[name] for name in names] + [-1]


def test_many_names_that_share_their_beginnings():
    names = [f"attribute number {i % 7}:{i}" for i in range(20_000)]
    table = NameTable()
    table.add(names)
    table.add(names[::-1])
    assert len(table) == 20_000
    assert np.array_equal(table.encode([names], False)[1], np.arange(20_000))
    assert table.names() == names


def test_failures_carry_the_token():
    counts, codes, _, failure = NameTable().encode([["a"], {"n": object}], True)
    assert (counts.tolist(), codes.tolist()) == ([1], [0])
    assert failure[0] == 1
    assert "neither a number nor text" in failure[1]


class Emptying:
    """A number that takes away the dict that it is read from."""

    def __init__(self):
        self.owner = {}

    def __float__(self):
        self.owner.clear()
        return 2.0


def test_a_dict_that_changes_while_it_is_read_does_no_harm():
    number = Emptying()
    number.owner.update({"a": number, **{f"k{i}": "v" for i in range(100)}})
    counts, _, values, failure = NameTable().encode([number.owner], True)
    assert (counts.tolist(), values.tolist(), failure) == ([1], [2.0], None)


def test_wrong_arguments():
    with pytest.raises(TypeError):
        NameTable().encode("text", True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names are text"):
        NameTable().add(cast(list[str], [1]))
    with pytest.raises(ValueError, match="surrogate"):
        NameTable().add(["\ud800"])
    assert "surrogate" in NameTable().encode([["\ud800"]], True)[3][1]
