"""Tables of polars and pyarrow are read as those of pandas."""

import narwhals
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

import fieldfit as ff
from fieldfit.data.table import read_table
from fieldfit.types import DataError

FRAME = pd.DataFrame(
    {"a": [0, 1, 1, 0], "b": ["x", None, "y", "x"], "c": [1.0, np.nan, 2.0, 1.0], "d": [True, False, True, True]}
)


def tables():
    return [polars.from_pandas(FRAME), pyarrow.Table.from_pandas(FRAME)]


def test_values_names_and_missing_values():
    expected = read_table(FRAME)
    for table in tables():
        read = read_table(table)
        assert read.names == expected.names
        assert [tuple(map(str, states)) for states in read.states] == [tuple(map(str, s)) for s in expected.states]
        np.testing.assert_array_equal(read.codes, expected.codes)


def test_a_fit_of_each():
    model = ff.BoltzmannMachine(3)
    values = pd.DataFrame(model.sample([1.0, -1.0, 0.5], 100, 0).values, columns=["a", "b", "c"])
    expected = ff.fit(model, values, "PL1")
    for table in (polars.from_pandas(values), pyarrow.Table.from_pandas(values)):
        fit = ff.fit(model, table, "PL1")
        assert fit.theta.tobytes() == expected.theta.tobytes()
        assert fit.parameter_names == ["a:b", "a:c", "b:c"]


def test_a_series_is_not_a_table():
    with pytest.raises(DataError, match="1 dimension, and a table has two"):
        read_table(polars.Series([0, 1]))


def test_a_lazy_table_says_how_to_make_it_one():
    with pytest.raises(DataError, match=r"A LazyFrame is not a table. Use .collect\(\)"):
        read_table(polars.LazyFrame({"a": [0, 1]}))


def test_large_integers_beside_missing_values_stay_apart():
    values = [2**53, 2**53 + 1, None]
    frame = pd.DataFrame({"a": pd.array(values, dtype="Int64")})
    table = polars.DataFrame({"a": values})
    for data in (table, pyarrow.table({"a": values}), narwhals.from_native(table), narwhals.from_native(frame)):
        read = read_table(data)
        assert read.states == ((2**53, 2**53 + 1),)
        assert read.codes.ravel().tolist() == [0, 1, -1]


def test_types_that_pyarrow_does_not_have():
    whole = polars.DataFrame({"a": [0, 1]})
    for kind in (polars.Int128, polars.Time):
        with pytest.raises(DataError, match="The table of polars cannot be read"):
            read_table(whole.select(polars.all().cast(kind)))
