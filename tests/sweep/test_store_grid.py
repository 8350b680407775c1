"""The cells of a store are those of its axes: stores from strangers are refused, not run."""

import json
import sqlite3

import pytest

from fieldfit.sweep import Sweep
from fieldfit.sweep.store import Store
from fieldfit.types import FileFormatError


def cell(a, b):
    return {"sum": a + b}


CHANGES = {
    "a cell is gone": ("DELETE FROM cells WHERE position = 3", "its axes have 6 cells, and it has 5"),
    "a value outside": (
        f"UPDATE cells SET coordinates = '{json.dumps({'a': 9, 'b': 0})}' WHERE position = 2",
        "a cell lies outside the axes",
    ),
    "another axis": (
        f"UPDATE cells SET coordinates = '{json.dumps({'a': 0, 'c': 0})}' WHERE position = 2",
        "a cell lies outside the axes",
    ),
    "no object": ("UPDATE cells SET coordinates = '[1]' WHERE position = 2", "a cell lies outside the axes"),
    "no JSON": ("UPDATE cells SET coordinates = '{' WHERE position = 2", "does not have the contents of a sweep"),
    "a trigger": (
        "CREATE TRIGGER t AFTER UPDATE ON cells BEGIN DELETE FROM cells; END",
        "it has the trigger 't'",
    ),
    "a view": ("CREATE VIEW v AS SELECT 1", "it has the view 'v'"),
    "a cell twice": (
        f"UPDATE cells SET coordinates = '{json.dumps({'a': 0, 'b': 0})}' WHERE position = 5",
        "its axes have 6 cells, and it has 5",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_cells_are_refused(name, tmp_path):
    path = tmp_path / "store.sqlite"
    Store.for_sweep(path, Sweep(cell, {"a": [0, 1], "b": [0, 0.5, "x"]})).close()
    Store(path).close()
    statement, sentence = CHANGES[name]
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(FileFormatError, match=sentence):
        Store(path)
