"""The UAI format: networks, evidence, and the line of every error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from fieldfit.data.uai import read_uai, read_uai_evidence
from fieldfit.types import FileAccessError, FileFormatError

NETWORK = """MARKOV
3
2 2 3
3
1 0
2 1 0
2 1 2

2
 0.436 0.564

4
 0.128 0.872
 0 1e-3

6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        path = tmp_path / "field.uai"
        path.write_text(text)
        return path

    return write


def test_a_network(file):
    field = read_uai(file(NETWORK))
    assert field.kind == "MARKOV"
    assert field.cardinalities == (2, 2, 3)
    assert field.scopes == ((0,), (1, 0), (1, 2))
    assert [table.shape for table in field.tables] == [(2,), (2, 2), (2, 3)]
    # The last variable of the scope changes fastest: entry 1 is x1 = 0, x0 = 1.
    assert field.tables[1][0, 1] == 0.872
    assert field.tables[1][1, 1] == 1e-3
    assert field.log_tables[1][1, 0] == -np.inf
    assert field.log_tables[0][0] == np.log(0.436)


def test_a_bayes_network_on_one_line_and_a_constant_factor(file):
    field = read_uai(file("BAYES 1 2 2 1 0 0  2 .25 .75  1 3"))
    assert field.kind == "BAYES"
    assert field.scopes == ((0,), ())
    assert field.tables[1].shape == ()
    assert field.tables[1] == 3


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_network_comes_back(tmp_path_factory, data):
    cardinalities = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    variables = st.lists(st.sampled_from(range(len(cardinalities))), unique=True, max_size=3)
    scopes = data.draw(st.lists(variables, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    tables = [rng.random([cardinalities[v] for v in scope]) for scope in scopes]
    lines = ["MARKOV", str(len(cardinalities)), " ".join(map(str, cardinalities)), str(len(scopes))]
    lines += [" ".join(map(str, [len(scope), *scope])) for scope in scopes]
    lines += [f"{table.size}\n" + " ".join(map(repr, table.ravel().tolist())) for table in tables]
    path = tmp_path_factory.mktemp("uai") / "field.uai"
    path.write_text("\n".join(lines))
    field = read_uai(path)
    assert field.cardinalities == tuple(cardinalities)
    assert field.scopes == tuple(map(tuple, scopes))
    assert all((a == b).all() for a, b in zip(field.tables, tables, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MARKOV", "MARKVO", "line 1: 'MARKVO' where MARKOV or BAYES is expected"),
        ("MARKOV\n", "# my field\nMARKOV\n", "line 1: '#' where"),
        ("MARKOV\n3\n", "MARKOV\n-3\n", "line 2: '-3' where the number of variables, an integer"),
        ("MARKOV\n3\n", "MARKOV\n0\n", "line 2: the network has no variables"),
        ("MARKOV\n3\n", "MARKOV\n99999999999\n", "ends before the numbers of states of 99999999999 variables"),
        ("2 2 3", "2 0 3", "line 3: variable 1 has no states"),
        ("2 2 3", "2 2 3.0", "line 3: '3.0' where the number of states of variable 2"),
        ("2 2 3", "2 2 3 # states", "line 3: '#' where .* no comments"),
        ("2 1 2\n", "2 1 3\n", "line 7: factor 2 has variable 3, and the network has variables 0 to 2"),
        ("2 1 2\n", "2 1 1\n", "line 7: factor 2 has variable 1 twice"),
        ("2 1 2\n", "99999 1 2\n", "ends before the 99999 variables of factor 2"),
        ("\n4\n", "\n5\n", "line 12: the table of factor 1 has 5 entries, and its scope has 4"),
        ("0.128", "-0.128", "line 13: '-0.128' where an entry of the table of factor 1"),
        ("0.811", "nan", "line 18: 'nan' where an entry of the table of factor 2"),
        ("0.811", "inf", "line 18: 'inf' where"),
        ("0.811", "0_1", "line 18: '0_1' where"),
        ("0.811", "a", "line 18: 'a' where an entry of the table of factor 2, a finite number"),
        ("0.811", "// x", "line 18: '//' where .* no comments"),
        ("0.189\n", "\n", "line 18: the file ends before 6 entries"),
        ("0.189\n", "0.189\n7\n", "line 19: '7' where the end of the file"),
    ],
)
def test_errors_name_the_line(file, old, new, message):
    assert old in NETWORK
    path = file(NETWORK.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=message) as caught:
        read_uai(path)
    assert str(path) in str(caught.value)


def test_every_truncation_is_noticed(file):
    words = NETWORK.split()
    for count in range(len(words)):
        with pytest.raises(FileFormatError, match="ends before"):
            read_uai(file(" ".join(words[:count])))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileAccessError, match="No such file"):
        read_uai(tmp_path / "none.uai")


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("2 0 1 2 2", ({0: 1, 2: 2},)),
        ("0", ({},)),
        ("1\n2 0 1 2 2", ({0: 1, 2: 2},)),
        ("2\n1 0 1\n1 2 0\n", ({0: 1}, {2: 0})),
        ("1\n0\n", ({},)),
    ],
)
def test_evidence(file, text, samples):
    assert read_uai_evidence(file(text), (2, 2, 3)) == samples


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends before the number of observations"),
        ("x", "line 1: 'x' where"),
        ("2 0 1 0 0", "variable 0 is observed twice"),
        ("1 3 0", "variable 3 is observed, and the network has variables 0 to 2"),
        ("1 2 3", "state 3 of variable 2 is not one of 0 to 2"),
        ("1\n2 0 1", "ends before variable and state of 2 observations"),
        ("1\n1 0 1\n5", "line 3: '5' where the end of the file"),
        ("3 0", "ends before 3 samples"),
    ],
)
def test_bad_evidence(file, text, message):
    with pytest.raises(FileFormatError, match=message):
        read_uai_evidence(file(text), (2, 2, 3))
