"""Tables: what is read, what the codes mean, and a sentence for everything that is wrong."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from fieldfit.data.table import Table, constant_columns, read_table
from fieldfit.types import DataError, FileAccessError, FileFormatError

EXPECTED = np.array([[0, 1, -1], [1, 1, 0], [1, 0, 0], [0, -1, 1]], np.int32)
NAN = float("nan")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def refused(message, source, **options):
    with pytest.raises(DataError, match=message) as caught:
        read_table(source, **options)
    assert str(caught.value).endswith(".")


# ----------------------------------------------------------------------------------------------- the same table, read


def sources():
    number = np.where(EXPECTED < 0, NAN, EXPECTED)
    thing = np.where(EXPECTED < 0, None, EXPECTED.astype(object))
    text = np.where(EXPECTED < 0, "", EXPECTED.astype(str))
    truth = np.array([[None if c < 0 else bool(c) for c in row] for row in EXPECTED], dtype=object)
    yield "float64", number
    yield "float32", number.astype(np.float32)
    yield "fortran order", np.asfortranarray(number)
    yield "strided", np.repeat(number, 2, axis=1)[:, ::2]
    yield "objects", thing
    yield "texts", text
    yield "bytes", text.astype("S")
    yield "truth values", truth
    yield "rows", thing.tolist()
    yield "tuples", tuple(map(tuple, number.tolist()))
    yield "masked", np.ma.masked_array(np.abs(EXPECTED), mask=EXPECTED < 0)
    yield "frame", pd.DataFrame(number)
    yield "nullable", pd.DataFrame(number).astype("Int64")
    yield "nullable truth", pd.DataFrame(truth).astype("boolean")
    yield "frame of texts", pd.DataFrame(text)
    yield "string frame", pd.DataFrame(text).astype("string")
    yield "categories", pd.DataFrame(thing).astype(pd.CategoricalDtype([1, 0]))
    yield "mixed", pd.concat([pd.DataFrame(number).iloc[:, :1], pd.DataFrame(text).iloc[:, 1:]], axis=1)
    yield "mixed numbers", pd.DataFrame(number).astype({0: np.int8, 1: np.float32})


@pytest.mark.parametrize("source", [source for _, source in sources()], ids=[name for name, _ in sources()])
def test_every_source_gives_the_same_codes(source):
    table = read_table(source, states=(0, 1))
    assert (table.codes == EXPECTED).all()
    assert table.codes.dtype == np.int32
    assert table.codes.flags.c_contiguous
    assert not table.codes.flags.writeable
    assert table.states == ((0, 1),) * 3
    assert (table.n, table.m, table.cardinalities, table.has_missing) == (4, 3, (2, 2, 2), True)


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float64, ">i4", ">f8"]
)
def test_every_number_type(dtype):
    whole = np.array([[0, 1], [1, 1], [0, 0]])
    for states in ((0, 1), None):
        table = read_table(whole.astype(dtype), states=states)
        assert (table.codes == whole).all()
        assert table.states == ((0, 1), (0, 1))
        assert not table.has_missing


TEXTS = {
    "comma": "a,b,c\n0,1,\n1,1,0\n1,0,0\n0,NA,1\n",
    "no newline at the end": "a,b,c\n0,1,\n1,1,0\n1,0,0\n0,NA,1",
    "windows": "\ufeffa,b,c\r\n0,1,\r\n1,1,0\r\n1,0,0\r\n0,NA,1\r\n",
    "quotes": '"a","b","c"\n"0","1",""\n1,1,0\n1,0,0\n0,NaN,1\n',
    "semicolons": "a;b;c\n0;1;\n1;1;0\n1;0;0\n0; NA;1\n",
    "tabs": "a\tb\tc\n0\t1\t\n1\t1\t0\n1\t0\t0\n0\tnull\t1\n",
    "no header": "0,1,\n1,1,0\n1,0,0\n0,,1\n",
    "blank lines": "\na,b,c\n0,1,\n\n1,1,0\n1,0,0\n0,,1\n\n\n",
    "decimal": "a,b,c\n0.0,1.0,\n1.0,1,0\n1,0,0\n0,,1e0\n",
    "blanks": "a, b, c\n 0 , 1, \n1,1,0\n1,0,0\n0,,1\n",
    "words": "a,b,c\nFalse,True,\nTrue,true,false\n1,FALSE,0\n0,,1\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_files(tmp_path, name, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    data = TEXTS[name].encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    for source in (path, str(path)):
        table = read_table(source, states=(0, 1))
        assert (table.codes == EXPECTED).all()
        assert table.names == (("x0", "x1", "x2") if name == "no header" else ("a", "b", "c"))
    if name != "words":
        assert read_table(path).states == ((0, 1),) * 3


def test_tsv_by_its_name(tmp_path):
    table = read_table(write(tmp_path / "t.tsv", "a,b\tc\n0\t1\n1\t0\n"), states=(0, 1))
    assert table.names == ("a,b", "c")


def test_one_column_with_blank_lines(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a\n1\n\n0\n\n\n"), states=(0, 1))
    assert table.codes.T.tolist() == [[1, -1, 0]]


# --------------------------------------------------------------------------------------------------------- the states


def test_states_in_another_order_and_per_variable():
    table = read_table([[1, "b"], [-1, "a"]], states=[(-1, 1), ("b", "a", "c")])
    assert table.codes.tolist() == [[1, 0], [0, 1]]
    assert table.cardinalities == (2, 3)
    flipped = read_table(np.array([[1, 0], [0, 1]]), states=(1, 0))
    assert flipped.codes.tolist() == [[0, 1], [1, 0]]
    assert read_table(np.array([[5, 2], [2, 9]]), states=[(2, 5), (2, 9)]).codes.tolist() == [[1, 0], [0, 1]]
    assert read_table(np.array([[0.5], [1.5]]), states=(1.5, 0.5)).codes.tolist() == [[1], [0]]
    assert read_table(np.array([[10**12], [-5]]), states=(-5, 10**12)).codes.tolist() == [[1], [0]]


def test_inferred_states():
    frame = pd.DataFrame(
        {
            "number": [3.0, 1.0, NAN, 1.0],
            "text": ["no", "yes", "no", "NA"],
            "truth": [True, False, True, True],
            "mixed": ["b", 2, "a", 1],
            "zeros": ["00", "01", "10", "01"],
            "half": [0.5, 1, 0.5, 1],
            "category": pd.Categorical(["lo", "hi", "lo", None], categories=["lo", "mid", "hi"]),
        }
    )
    table = read_table(frame)
    assert table.states == (
        (1, 3),
        ("no", "yes"),
        (False, True),
        (1, 2, "a", "b"),
        ("00", "01", "10"),
        (0.5, 1),
        ("lo", "mid", "hi"),
    )
    assert all(type(label) is int for label in table.states[0])
    assert all(type(label) is bool for label in table.states[2])
    assert table.codes[:, 6].tolist() == [0, 2, 0, -1]
    assert table.codes[:, 0].tolist() == [1, 0, -1, 0]
    assert all(type(label) is bool for label in read_table(np.array([[True], [False]])).states[0])


def test_a_state_may_have_the_name_of_a_missing_value():
    table = read_table([["NA"], ["EU"], [""]], states=("NA", "EU"))
    assert table.codes.T.tolist() == [[0, 1, -1]]


def test_a_table_is_read_again():
    table = read_table(np.array([[0, 1], [1, 0]]), sample_weight=[1, 2], weight_kind="counts")
    again = read_table(table, states=(1, 0))
    assert again.sample_weight is not None
    assert again.sample_weight.tolist() == [1, 2]
    assert again.weight_kind == "counts"
    assert again.codes.tolist() == [[1, 0], [0, 1]]
    assert again.names == table.names


@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_labels_of_codes_are_the_values(data):
    n, m = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    cell = st.one_of(st.none(), st.integers(-3, 300), st.sampled_from(["a", "b", "c d"]))
    rows = data.draw(st.lists(st.lists(cell, min_size=m, max_size=m), min_size=n, max_size=n))
    if any(all(row[j] is None for row in rows) for j in range(m)):
        refused("Missing everywhere", rows)
        return
    table = read_table(rows)
    back = [[None if c < 0 else table.states[j][c] for j, c in enumerate(row)] for row in table.codes.tolist()]
    assert back == rows
    assert (read_table(rows, states=table.states).codes == table.codes).all()


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_the_fast_path_of_numbers_agrees_with_the_path_of_objects(data):
    n, m = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 4))
    value = data.draw(st.sampled_from([st.integers(-2, 4), st.integers(-(10**15), 10**15), st.floats(width=32)]))
    cell = value.filter(lambda v: v == v and abs(v) != float("inf"))
    matrix = np.array(data.draw(st.lists(st.lists(cell, min_size=m, max_size=m), min_size=n, max_size=n)))
    fast, slow = read_table(matrix), read_table(matrix.astype(object))
    assert (fast.codes == slow.codes).all()
    assert fast.states == slow.states
    assert (read_table(matrix, states=fast.states).codes == slow.codes).all()


def test_more_rows_than_one_block():
    rng = np.random.default_rng(0)
    matrix = rng.integers(-1, 2, (70_000, 5)).astype(np.float64)
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    table = read_table(matrix, states=(-1, 0, 1))
    assert (table.codes == np.where(np.isnan(matrix), -1, np.nan_to_num(matrix) + 1)).all()
    assert (read_table(matrix).codes == table.codes).all()
    matrix[69_999, 3] = 7
    refused(r"value 7.0 in row 69999 .*column 'x3', is not one of its states \(-1, 0, 1\)", matrix, states=(-1, 0, 1))


# -------------------------------------------------------------------------------------------------- names and columns


def test_columns_and_names(tmp_path):
    path = write(tmp_path / "t.csv", "id,a,b,w\n7,0,1,2\n8,1,0,0.5\n")
    table = read_table(path, states=(0, 1), columns=["b", "a"], sample_weight="w")
    assert table.names == ("b", "a")
    assert table.codes.tolist() == [[1, 0], [0, 1]]
    assert table.sample_weight is not None
    assert table.sample_weight.tolist() == [2, 0.5]
    assert read_table(path, columns=[2, 1], names=["u", "v"]).names == ("u", "v")
    assert read_table(path, sample_weight="w").names == ("id", "a", "b")
    assert read_table(np.eye(3), columns=[2, 0], states=(0, 1)).names == ("x2", "x0")
    assert read_table(pd.DataFrame(np.eye(2), columns=[5, 9]), columns=[9]).names == ("9",)


def test_header_is_a_choice_where_it_cannot_be_seen(tmp_path):
    path = write(tmp_path / "t.csv", "0,1\n1,0\n0,0\n1,1\n")
    assert read_table(path).n == 4
    assert read_table(path, header=True).names == ("0", "1")
    refused("could be names or data.*header=True", write(tmp_path / "u.csv", "a,1990\n1,0\n0,0\n"))
    assert read_table(write(tmp_path / "v.csv", "a,1990\n1,0\n0,0\n"), header=True).names == ("a", "1990")
    text = write(tmp_path / "w.csv", "no,yes\nyes,no\nno,no\n")
    assert read_table(text, states=("no", "yes")).n == 3
    pandas_header = write(tmp_path / "x.csv", "0,1,2\n1,0,1\n0,1,0\n")
    refused("value '2' in line 1 .*header=True", pandas_header, states=(0, 1))


def test_names_choose_columns_where_the_source_has_them(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,c\n0,1,1\n1,0,1\n")
    table = read_table(path, names=["c", "a"], states=(0, 1))
    assert table.names == ("c", "a")
    assert table.codes.tolist() == [[1, 0], [1, 1]]
    assert read_table(path, names=["u", "v", "w"], states=(0, 1)).codes.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_bad_columns_and_names(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n0,1\n1,0\n")
    refused("no column 'c' in .*t.csv. It has 'a', 'b'", path, columns=["a", "c"], header=True)
    refused("no column 5", np.eye(3), columns=[5])
    refused("twice", np.eye(3), columns=[1, 1])
    refused("has 2 columns, and 3 are expected: a, b, c", path, names=["a", "b", "c"])
    refused("names has 'a' twice", path, names=["a", "a"])
    refused("Two columns of .*t2.csv are called 'a'", write(tmp_path / "t2.csv", "a,a\n0,1\n1,0\n"))
    refused("Two columns of the table are called 'a'", pd.DataFrame(np.eye(2), columns=["a", "a"]))
    refused("Wrong number of columns: the table has 3 and the model has 2", np.eye(3), states=[(0, 1)] * 2)
    refused("the model has 4 variables", np.eye(3), states=[(0, 1)] * 4)


# --------------------------------------------------------------------------------------------------------- bad values


@pytest.mark.parametrize("kind", [np.float64, object])
def test_values_outside_the_states(kind):
    where = r"in row 1 \(counting from 0\), column 'x1', is "
    for value in (2, -1, 0.5, 1e300):
        matrix = np.array([[0, 1], [1, value]], dtype=kind)
        refused(where + r"not one of its states \(0, 1\)", matrix, states=(0, 1))
    matrix = np.array([[0, 1], [1, np.inf]], dtype=kind)
    refused(where + "infinite", matrix, states=(0, 1))
    refused(where + "infinite", matrix)
    refused(where + "infinite", -matrix)


def test_values_outside_the_states_of_a_file(tmp_path):
    path = write(tmp_path / "t.csv", 'a,b\n0,1\n\n1,"2"\n')
    refused(r"value '2' in line 4 of .*t.csv, column 'b', is not one of its states \(0, 1\)", path, states=(0, 1))
    refused("column 'b', is infinite", write(tmp_path / "u.csv", "a,b\n0,1\n1,-inf\n"))
    refused("column 'b', is infinite", write(tmp_path / "u.csv", "a,b\n0,1\n1,Infinity\n"), states=(0, 1))
    refused("value 'maybe' in line 3", write(tmp_path / "u.csv", "a,b\n0,1\n1,maybe\n"), states=(0, 1))


def test_booleans_and_small_integers_outside_the_states():
    refused("value 0 in row 0", np.array([[False], [True]]), states=(1, 2))
    refused("value 3 in row 1", np.array([[0], [3]], np.int8), states=(0, 1))
    refused("value 255 in row 1", np.array([[0], [255]], np.uint8), states=(-1, 0))
    refused("value 1 in row 1", np.array([[0], [1]]), states=(0, 2))


def test_values_of_other_types():
    refused(r"row 1 \(counting from 0\), column 'x0', is a tuple", [[0], [(1, 2)]])
    refused("column 'x0', is not a number, a text or a boolean", [[0], [[1, 2]]])
    refused("column 'd', is a Timestamp", pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}))
    refused("is a complex", [[1j]])
    refused("dtype complex128", np.array([[1j]]))
    refused("dtype datetime64", np.array([["2020"]], "M8[Y]"))
    refused("category 'c' of column 'a'", pd.DataFrame({"a": pd.Categorical(["b"], ["b", "c"])}), states=("a", "b"))


def test_too_many_states_to_be_discrete():
    values = np.arange(1500)
    refused("Column 'x0' of the table has 1500 distinct values", values.reshape(-1, 1))
    refused("1500 distinct values", values.reshape(-1, 1) + 0.5)
    refused("1500 distinct values", [[f"id{i}"] for i in values])
    assert read_table(values.reshape(-1, 1), states=range(1500)).cardinalities == (1500,)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ((), "empty"),
        ((0, 0), "same value twice"),
        ((1, True), "same value twice"),
        ((0, None), "missing value"),
        ((0, NAN), "missing value"),
        ((0, float("inf")), "infinite"),
        ((0, (1,)), "mixes labels and lists"),
        ("01", "is a string"),
    ],
)
def test_bad_states(states, message):
    refused(message, np.eye(2), states=states)


# --------------------------------------------------------------------------------------------------------- bad shapes


def test_empty_and_flat_tables(tmp_path):
    refused("No rows", np.empty((0, 3)))
    refused("No columns", np.empty((3, 0)))
    refused("No rows", [])
    refused("No columns", [[], []])
    refused("No rows", pd.DataFrame({"a": []}))
    refused("No columns", pd.DataFrame(index=[0, 1]))
    refused("is empty", write(tmp_path / "t.csv", ""))
    refused("is empty", write(tmp_path / "t.csv", "\n\n"))
    refused("No rows: .*t.csv", write(tmp_path / "t.csv", "a,b\n"))
    refused("1 dimension, ", np.zeros(3))
    refused("3 dimensions", np.zeros((2, 2, 2)))
    refused("Row 0 .* not a list of values", [1, 2, 3])
    refused("Row 0 .* not a list of values", ["0101", "1100"])
    refused("to_frame", pd.Series([1, 2]))
    refused("A int is not a table", 3)
    refused("A dict is not a table", {"a": [1]})


def test_ragged_rows(tmp_path):
    refused(r"Row 2 \(counting from 0\) has 1 values, and row 0 has 2", [[0, 1], [1, 0], [1]])
    refused("Line 3 of .*t.csv has 3 values, and line 1 has 2", write(tmp_path / "t.csv", "a,b\n0,1\n0,1,1\n"))
    refused("Line 4 of .*t.csv has 1 values", write(tmp_path / "t.csv", "a,b\n0,1\n\n0\n"))


def test_columns_that_are_missing_everywhere(tmp_path):
    refused("no value in the column 'x1' and 1 more", np.array([[0, NAN, NAN], [1, NAN, NAN]]))
    one_row = np.array([[NAN, 1]])
    refused("no value in the column 'x0'", one_row, states=(0, 1))
    refused("no value in the column 'x0'", one_row, allow_missing_columns=True)
    assert read_table(one_row, states=(0, 1), allow_missing_columns=True).codes.tolist() == [[-1, 1]]
    refused("no value in the column 'b'", write(tmp_path / "t.csv", "a,b\n0,\n1,NA\n"), states=(0, 1))


def test_unreadable_files(tmp_path):
    with pytest.raises(FileAccessError, match="No such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(FileAccessError, match="because it is a folder"):
        read_table(tmp_path)
    path = tmp_path / "t.csv"
    packed = gzip.compress(b"a,b\n0,1\n1,0\n" * 50)
    for data, message in [
        (b"a,b\n0,\xff\n", "not UTF-8 text: line 2"),
        (b"a,b\n0,\0\n", "line 2 has a zero byte"),
        (packed[:-9], "truncated or damaged"),
        (packed[:20] + b"xxxx" + packed[24:], "truncated or damaged"),
    ]:
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match=message):
            read_table(path)
    refused("Line 2 of .* quotation marks", write(path, 'a,b\n0,"1\n'))


# ------------------------------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize(
    ("weight", "kind", "message"),
    [
        ([1, 2], "importance", r"shape \(2,\), and the table has 3 rows"),
        ([[1], [2], [3]], "importance", "shape"),
        ([1, -1, 2], "importance", "-1.0 in row 1"),
        ([1, 2, NAN], "importance", "nan in row 2"),
        ([1, float("inf"), 2], "counts", "inf in row 1"),
        ([1, 0.5, 2], "counts", "0.5 in row 1 .* integer"),
        ([0, 0, 0], "importance", "zero in every row"),
        (["a", "b", "c"], "importance", "numbers"),
        ([1, 1, 1], "copies", "weight_kind is 'copies'; it must be 'counts' or 'importance'"),
    ],
)
def test_bad_weights(weight, kind, message):
    refused(message, np.eye(3), sample_weight=weight, weight_kind=kind)


def test_bad_weight_columns(tmp_path):
    path = write(tmp_path / "t.csv", "a,w\n0,1\n1,\n")
    refused("weight in line 3 of .*t.csv, column 'w', is ''", path, sample_weight="w")
    refused("no column 'v'", path, sample_weight="v")
    with_nan = pd.DataFrame({"a": [0, 1], "w": [1, NAN]})
    refused("column 'w', is nan", with_nan, sample_weight="w")


def test_weights_are_kept():
    table = read_table(np.eye(3), sample_weight=[1, 2, 0], weight_kind="counts")
    assert table.weight_kind == "counts"
    assert table.sample_weight is not None
    assert table.sample_weight.dtype == np.float64
    assert not table.sample_weight.flags.writeable


# ---------------------------------------------------------------------------------------------------------- the table


def test_the_table_is_a_copy_of_its_source():
    source = np.array([[0, 1], [1, 0]], np.int32)
    table = read_table(source, states=(0, 1))
    source[0, 0] = 1
    assert table.codes[0, 0] == 0


def test_subset():
    table = read_table(
        EXPECTED.astype(float) + np.where(EXPECTED < 0, NAN, 0), states=(0, 1), sample_weight=[1, 2, 3, 4]
    )
    part = table.subset([3, 0, 0])
    assert (part.codes == EXPECTED[[3, 0, 0]]).all()
    assert part.sample_weight is not None
    assert part.sample_weight.tolist() == [4, 1, 1]
    assert (part.names, part.states) == (table.names, table.states)
    assert (table.subset(np.array([True, False, False, True])).codes == EXPECTED[[0, 3]]).all()
    assert table.subset([]).n == 0
    for rows in ([4], [-1], [0.5], [True]):
        with pytest.raises(DataError):
            table.subset(rows)


def test_rows_that_are_missing_everywhere_are_kept_and_listed():
    table = read_table(np.array([[0, 1], [NAN, NAN], [1, NAN], [NAN, NAN]]))
    assert table.n == 4
    assert table.empty_rows.tolist() == [1, 3]
    assert read_table(np.eye(2)).empty_rows.tolist() == []


def test_constant_columns():
    values = np.array([[0, 1, NAN, 1], [0, 1, 1, 0], [0, NAN, 1, 1]])
    assert constant_columns(read_table(values, states=(0, 1))) == ["x0", "x1", "x2"]
    assert constant_columns(read_table(values, states=(0, 1), sample_weight=[1, 0, 1])) == ["x0", "x1", "x2", "x3"]
    assert constant_columns(read_table(np.array([[1, NAN], [0, 1], [NAN, 0]]))) == []


def test_tables_made_by_hand_are_checked():
    codes = np.zeros((2, 2), np.int32)
    Table(codes, ("a", "b"), ((0, 1), (0, 1)))
    for arguments in [
        (codes.astype(np.int64), ("a", "b"), ((0, 1), (0, 1))),
        (np.asfortranarray(np.zeros((2, 3), np.int32)), ("a", "b", "c"), ((0, 1),) * 3),
        (codes, ("a",), ((0, 1), (0, 1))),
        (codes, ("a", "b"), ((0, 1),)),
        (codes + 2, ("a", "b"), ((0, 1), (0, 1))),
        (codes - 2, ("a", "b"), ((0, 1), (0, 1))),
    ]:
        with pytest.raises(DataError):
            Table(*arguments)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------- real files


@pytest.mark.parametrize(
    ("name", "shape", "missing"),
    [
        ("votes/senate109.csv", (645, 102), 2933),
        ("votes/supreme_court.csv", (485, 9), 22),
        ("psych/adhd.csv", (355, 19), 0),
        ("rain/vancouver.csv", (1059, 28), 0),
        ("spikes/neurons15.csv.gz", (40000, 15), 0),
    ],
)
def test_real_files(name, shape, missing):
    folder = os.environ.get("FIELDFIT_DATA")
    if folder is None or not (Path(folder) / name).exists():
        pytest.skip(f"needs {name} in the folder that FIELDFIT_DATA names")
    table = read_table(Path(folder) / name, states=(0, 1))
    assert table.codes.shape == shape
    assert (table.codes < 0).sum() == missing
    frame = pd.read_csv(Path(folder) / name)
    assert table.names == tuple(frame.columns)
    assert (table.codes == frame.fillna(-1).to_numpy()).all()
    assert (read_table(frame).codes == table.codes).all()


def test_states_that_any_column_has_put_numbers_before_text():
    table = read_table([[2, "b"], [10, "a"], [1, 2]])
    assert table.common_states == (1, 2, 10, "a", "b")
