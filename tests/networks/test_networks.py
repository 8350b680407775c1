"""Reading answers, and networks from regressions."""

import warnings

import numpy as np
import pytest

import fieldfit as ff
from fieldfit import networks
from fieldfit.types import DataError, FieldfitWarning, ModelError


def test_a_known_network_is_found_with_its_signs(frame, chain):
    network = networks.nodewise_network(frame, gamma=0.5)
    assert np.array_equal(np.sign(network.couplings), np.sign(chain))
    assert network.pairs == ((0, 1), (1, 2), (2, 3), (3, 4))
    assert network.density == 0.4
    assert network.n == 800
    table = network.edges()
    assert (table["weight"].abs().diff().dropna() <= 0).all()
    assert network.matrix().loc["a", "b"] == network.couplings[0, 1]
    graph = network.to_networkx()
    assert graph.edges["b", "c"]["weight"] < 0
    assert graph.edges["b", "c"]["distance"] > 0


def test_rules_and_gamma(frame):
    every = networks.nodewise_network(frame, gamma=0.0, rule="or")
    fewer = networks.nodewise_network(frame, gamma=0.0)
    fewest = networks.nodewise_network(frame, gamma=3.0)
    assert set(fewest.pairs) <= set(fewer.pairs) <= set(every.pairs)
    r = every.regressions
    assert r is not None
    np.testing.assert_array_equal(every.couplings, (r + r.T) / 2)
    np.testing.assert_array_equal(fewer.couplings, np.where((r != 0) & (r.T != 0), (r + r.T) / 2, 0))
    with pytest.raises(ModelError, match="rule is 'xor'"):
        networks.nodewise_network(frame, rule="xor")
    for wrong in (-1, "x", None, np.inf):
        with pytest.raises(
            ModelError, match=r"gamma is .*; it must be a number of at least 0. Usual values are from 0"
        ):
            networks.nodewise_network(frame, gamma=wrong)  # type: ignore[arg-type]


def test_two_valued_columns_of_any_kind_are_recoded(frame):
    plain = networks.nodewise_network(frame)
    texts = frame.replace({0: "no", 1: "yes"}).assign(b=frame["b"] * 4 - 2, c=frame["c"].astype(bool))
    answers = networks.read_responses(texts)
    assert answers.values == (("no", "yes"), (-2, 2), (False, True), ("no", "yes"), ("no", "yes"))
    np.testing.assert_array_equal(networks.nodewise_network(answers).couplings, plain.couplings)


def test_a_file_and_groups(frame, tmp_path):
    path = tmp_path / "answers.csv"
    frame.assign(site=np.where(np.arange(800) < 300, "north", "south")).to_csv(path, index=False)
    answers = networks.read_responses(path, by="site")
    assert answers.names == ("a", "b", "c", "d", "e")
    parts = answers.by_group()
    assert {label: part.n for label, part in parts.items()} == {"north": 300, "south": 500}
    np.testing.assert_array_equal(parts["north"].codes, frame.to_numpy()[:300])


def test_rows_with_missing_values_are_left_out_with_a_warning(frame):
    gaps = frame.astype(float)
    gaps.iloc[:40, 0] = np.nan
    with pytest.warns(FieldfitWarning, match="40 of 800 rows have missing values"):
        network = networks.nodewise_network(gaps)
    np.testing.assert_array_equal(network.couplings, networks.nodewise_network(frame.iloc[40:]).couplings)
    gaps.iloc[5:, 1] = np.nan
    with pytest.raises(DataError, match="0 of 800 rows have no missing value"):
        networks.nodewise_network(gaps)


def test_what_a_network_cannot_use_is_refused(frame):
    with pytest.raises(
        DataError, match=r"'age' has 20 different values .*use networks.compare_groups\(data, by='age'\)"
    ):
        networks.read_responses(frame.assign(age=np.arange(800) % 20))
    with pytest.raises(DataError, match=r"'f' has the value 1 in every row.*leave_out=\['f'\]"):
        networks.read_responses(frame.assign(f=1))
    with pytest.raises(DataError, match="'Group' looks like the group of each row"):
        networks.read_responses(frame.rename(columns={"e": "Group"}))
    named = networks.read_responses(frame.rename(columns={"e": "Group"}), columns=["a", "b", "Group"])
    assert named.names == ("a", "b", "Group")
    assert networks.read_responses(frame, leave_out=["a", "b"]).names == ("c", "d", "e")
    with pytest.raises(DataError, match=r"no column 'z' in .*It has 'a', 'b'"):
        networks.read_responses(frame, leave_out=["z"])
    with pytest.raises(DataError, match="at least two columns"):
        networks.read_responses(frame[["a"]])
    with pytest.raises(DataError, match="The table has 8 rows"):
        networks.read_responses(frame.iloc[:8])
    with pytest.raises(DataError, match="one group only"):
        networks.read_responses(frame.assign(site="north"), by="site")
    with pytest.raises(DataError, match=r"no group in row 3 \(counting from 0\) and 199 other rows\. Give"):
        networks.read_responses(frame.assign(site=["n", "s", "n", None] * 200), by="site")
    with pytest.raises(DataError, match=r"no group in row 3 \(counting from 0\)\. Give"):
        networks.read_responses(frame.assign(site=["n", "s", "n", None] + ["n"] * 796), by="site")
    small = networks.read_responses(frame.assign(site=["n", "s"] + ["s"] * 798), by="site").by_group()["n"]
    with pytest.raises(DataError, match=r"The group 'n' has 1 row; a network needs at least 10\. Leave its rows out"):
        networks.nodewise_network(small)
    rare = frame.assign(f=(np.arange(800) < 1).astype(int))
    with pytest.raises(DataError, match="'f' has the value 0 in 799 of 800 rows"):
        networks.nodewise_network(rare)
    with pytest.warns(FieldfitWarning, match=r"fewer than 8 times \('f'\)"):
        networks.nodewise_network(frame.assign(f=(np.arange(800) % 160 == 0).astype(int)))
    with pytest.raises(DataError, match=r"'f' looks like the group .*\(the rows are sorted by it\)"):
        networks.read_responses(frame.assign(f=(np.arange(800) < 300).astype(int)))
    words = frame.assign(f=np.where(frame["a"] + frame["b"] == 1, "male", "female"))
    with pytest.raises(DataError, match=r"'f' looks like the group .*its values are words.*--by f"):
        networks.read_responses(words)
    assert networks.read_responses(words, by="f").names == ("a", "b", "c", "d", "e")


def test_all_columns_that_a_network_cannot_use_are_named_at_once(frame):
    survey = frame.assign(
        who=np.arange(800), note=["a", "b", "c", "d"] * 200, one=1, clinic=["case", "control"] * 400
    )
    with pytest.raises(
        DataError, match=r"two values: 'who' has 800 .*; 'note' has 4 .*; 'one' has the value 1"
    ) as told:
        networks.nodewise_network(survey)
    assert "leave_out=['who', 'note', 'one']), or --leave-out who,note,one on the command line" in str(told.value)
    assert "use networks.compare_groups(data, by='clinic') (--by clinic)" in str(told.value)
    # What the message says works.
    answers = networks.read_responses(survey, leave_out=["who", "note", "one", "clinic"])
    assert networks.nodewise_network(answers).names == tuple("abcde")
    grouped = networks.read_responses(survey, leave_out=["who", "note", "one"], by="clinic")
    assert tuple(networks.compare_groups(grouped, permutations=2).groups) == ("case", "control")


@pytest.mark.parametrize("copy", [lambda a: a, lambda a: 1 - a])
def test_columns_that_determine_each_other_get_a_warning(frame, copy):
    twice = frame.assign(f=copy(frame["a"]))
    with pytest.warns(FieldfitWarning, match=r"'a' and 'f' determine each other in every row, .*leave_out=\['f'\]"):
        networks.nodewise_network(twice)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        networks.nodewise_network(frame)


def test_the_package_is_an_attribute_of_fieldfit():
    assert ff.networks is networks
    assert "networks" in dir(ff)


def test_a_network_in_a_notebook_has_a_table_of_its_strongest_edges():
    couplings = np.where(np.eye(8, dtype=bool), 0.0, 0.25)
    couplings[0, 1] = couplings[1, 0] = -1.5
    network = networks.Network(("<b>", *(f"x{j}" for j in range(7))), couplings, np.zeros(8), 100, "by hand")
    shown = network._repr_html_()
    assert "<table" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.index("-1.500") < shown.index("+0.250")
    assert "8 more (network.edges() has all)" in shown
