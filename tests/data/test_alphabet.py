"""Alphabets and the text that files keep of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.data.alphabet import Alphabet
from fieldfit.data.packing import pack_names, pack_text, unpack_names, unpack_text
from fieldfit.types import Arrays, DataError, FileFormatError


def test_names_and_codes():
    alphabet = Alphabet.sorted(["O", "B-NP", "O", "I-NP"])
    assert alphabet.names == ("B-NP", "I-NP", "O")
    assert (alphabet.code("O"), alphabet.code("X"), len(alphabet)) == (2, -1, 3)
    assert alphabet.encode(["O", "X", "B-NP"]).tolist() == [2, -1, 0]
    assert alphabet.decode(np.array([2, 0])) == ["O", "B-NP"]
    assert "O" in alphabet
    assert "X" not in alphabet
    assert list(alphabet) == ["B-NP", "I-NP", "O"]
    assert alphabet == Alphabet(("B-NP", "I-NP", "O"))
    assert hash(alphabet) == hash(Alphabet(("B-NP", "I-NP", "O")))
    assert repr(alphabet) == "Alphabet(3 names: 'B-NP', 'I-NP', 'O')"


def test_whole_numbers_sort_as_numbers():
    assert Alphabet.sorted([10, 9, 10]).names == (9, 10)


@pytest.mark.parametrize("names", [["a", "a"], ["a", 1], [1.5], [True], [None]])
def test_what_is_no_alphabet(names):
    with pytest.raises(DataError):
        Alphabet(names)


@pytest.mark.parametrize("codes", [[3], [-1]])
def test_codes_out_of_range_are_refused(codes):
    with pytest.raises(DataError, match=r"Codes must lie in 0\.\.2"):
        Alphabet("abc").decode(codes)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.text()))
def test_texts_survive_packing(texts):
    arrays: Arrays = {}
    pack_text(arrays, "t", texts)
    assert unpack_text(arrays, "t") == texts


@pytest.mark.slow
@settings(deadline=None)
@given(st.one_of(st.lists(st.text(), unique=True), st.lists(st.integers(-9, 9), unique=True)))
def test_alphabets_survive_packing(names):
    arrays: Arrays = {}
    pack_names(arrays, "a", Alphabet(names))
    assert unpack_names(arrays, "a") == Alphabet(names)


def test_damaged_packs_are_refused():
    arrays: Arrays = {}
    pack_text(arrays, "t", ["ab", "é"])
    with pytest.raises(FileFormatError, match="no entry"):
        unpack_text({}, "t")
    for ends in ([3, 2], [2, 9], [2, 3]):
        with pytest.raises(FileFormatError, match="damaged"):
            unpack_text({**arrays, "t.ends": np.array(ends)}, "t")
    with pytest.raises(FileFormatError, match="not UTF-8"):
        unpack_text({**arrays, "t.ends": np.array([3, 4])}, "t")
