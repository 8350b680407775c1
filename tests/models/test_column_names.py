"""Columns with names are matched with the model's variables by name; foreign names are refused, not read by position."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit.types import DataError

MODEL = ff.BoltzmannMachine(4)
X = np.asarray(MODEL.sample([-1, 1, 0.5, -0.5, 0.15, 0], 300, 0).values)
FRAME = pd.DataFrame(X, columns=list("abcd"))
FIT = ff.fit(MODEL, FRAME, "PL1")
MODEL_OF_FIT: Any = FIT.model
WANTED = FIT.influence(FRAME[:5])
FOREIGN = FRAME.rename(columns={"a": "zz"})[["d", "c", "b", "zz"]]


def test_order_and_further_columns_are_no_matter(tmp_path):
    more = FRAME[list("dcba")].assign(other=2)
    np.testing.assert_array_equal(FIT.influence(more[:5]), WANTED)
    more[:5].to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(FIT.influence(tmp_path / "new.csv"), WANTED)
    again = ff.fit(FIT.model, more, "PL1")
    np.testing.assert_array_equal(again.theta, FIT.theta)
    assert again.parameter_names == FIT.parameter_names


def test_foreign_names_are_refused(tmp_path):
    sentence = "no column 'a': its columns are d, c, b, zz, and the model's variables a, b, c, d. Rename"
    with pytest.raises(DataError, match=f"The table has {sentence}"):
        FIT.influence(FOREIGN[:5])
    with pytest.raises(DataError, match=sentence):
        ff.fit(FIT.model, FOREIGN, "PL1")
    with pytest.raises(DataError, match=sentence):
        MODEL_OF_FIT.conditional(FIT.theta, FOREIGN, [0], [1])
    FOREIGN.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match=sentence):
        FIT.influence(tmp_path / "new.csv")
    with pytest.raises(DataError, match="no column 'c' and lacks 1 more"):
        FIT.influence(FRAME[["a", "b"]])
    (tmp_path / "new.fasta").write_text(">s1\nAC-D\n>s2\nACDD\n")
    with pytest.raises(DataError, match=r"is an alignment .* not a table"):
        FIT.influence(tmp_path / "new.fasta")
    with pytest.raises(DataError, match=sentence):  # a table that was read before
        FIT.influence(MODEL.read(FOREIGN))


def test_values_without_names_are_in_the_models_order(tmp_path):
    np.savetxt(tmp_path / "new.csv", X[:5], fmt="%d", delimiter=",")
    for source in (X[:5], X[:5].tolist(), pd.DataFrame(X[:5]), MODEL.read(X[:5]), tmp_path / "new.csv"):
        np.testing.assert_array_equal(FIT.influence(source), WANTED)


def test_a_model_that_never_had_names_takes_any():
    plain = ff.fit(MODEL, X, "PL1")
    np.testing.assert_array_equal(plain.influence(FRAME[:5]), WANTED)
    with pytest.raises(DataError, match="no column 'x0'"):
        plain.influence(FRAME[:5].set_axis(["x1", "x2", "x3", "x4"], axis=1))
