"""The cells of a store are those of its axes: stores from strangers are refused, not run."""

import json
import sqlite3

import pytest

from fieldfit.sweep import Sweep, run_sweep
from fieldfit.sweep.store import Store
from fieldfit.types import FileFormatError


def cell(a, b):
    return {"sum": a + b}


def odd_results(coordinates, seed):
    return {"nan": float("nan"), "infinite": float("inf"), "text": "{", "list": [1, None, True], "large": 10**30}


DONE, NO_RESULT = "UPDATE cells SET status = 'done', result = ", "a cell has a result that no experiment returns"
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
        "a cell has the key of other coordinates",
    ),
    "another key": ("UPDATE cells SET key = 'a' WHERE position = 1", "a cell has the key of other coordinates"),
    "a seed below 0": ("UPDATE cells SET seed = -1 WHERE position = 1", "a cell has a seed that is not that of its"),
    "another seed": (
        "UPDATE cells SET seed = seed + 1 WHERE position = 4",
        "a cell has a seed that is not that of its",
    ),
    "a result that is a list": (DONE + "'[1]' WHERE position = 1", NO_RESULT),
    "a result that is no JSON": (DONE + "'{' WHERE position = 1", NO_RESULT),
    "a result that is empty": (DONE + "'' WHERE position = 1", NO_RESULT),
    "no result": (DONE + "NULL WHERE position = 1", NO_RESULT),
    "a result in the place of a coordinate": (DONE + """'{"a": 2}' WHERE position = 1""", NO_RESULT),
    "a result in the place of a status": (DONE + """'{"cell_status": 2}' WHERE position = 1""", NO_RESULT),
    "a result of a waiting cell": ("UPDATE cells SET result = '[1]' WHERE position = 1", NO_RESULT),
    "names that are paired": (
        "UPDATE meta SET value = json_set(value, '$.paired', 'a') WHERE name = 'definition'",
        "its definition has no valid 'paired'",
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


@pytest.mark.parametrize("paired", [(), ("b",)])
def test_the_cells_of_a_sweep_that_has_run_are_its_own(tmp_path, paired):
    """Numbers that JSON does not have are results too."""
    sweep = Sweep(odd_results, {"a": [0, -1.5, 1e300], "b": [True, "x", 10**20]}, paired=paired)
    run_sweep(sweep, tmp_path / "store.sqlite", progress=False)
    with Store(tmp_path / "store.sqlite") as store:
        assert store.counts().done == 9
