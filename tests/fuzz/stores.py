"""Stores of sweeps whose values are changed, and which are then read or run to their end.

The bytes of stores are fuzzed by a target of their own. Here most cases skip the file: the connections of a case share a
database in memory, and no thread gives signs of life. One case in ten has a file.
"""

import contextlib
import functools
import random
import sqlite3
import tempfile
from pathlib import Path
from unittest import mock

from fieldfit.sweep import Sweep, database, open_sweep, run_sweep, store, worker
from fieldfit.sweep.process import ProcessName
from tests.fuzz.files import in_folder

#: The share of cases that have a file.
FILES = 0.1
#: The shares of cases that are run (the others are read), and of those read that become a table.
_RUN, _TABLES = 0.2, 0.1
#: A database in memory that the connections of this process share.
_SHARED = "file:/fieldfit-fuzz?vfs=memdb"
_VALUES = [
    None, 0, 1, 2, -1, 2**62, 1.5, "", "x", "waiting", "running", "done", "failed", "{}", "[1]", "NaN", b"\xff", "9" * 5000,
]  # fmt: skip


def store_values(content):
    """A store whose values are changed (the content decides which), which is then read or run to its end."""
    source = random.Random(content)
    with _changed_store(source) as path:
        if source.random() < _RUN:
            run_sweep(_sweep(), path, progress=False)
            return
        sweep = open_sweep(path)
        sweep.summary()
        if source.random() < _TABLES:  # the same cells as a table, which takes half of the time
            sweep.frame(unfinished=True)


@contextlib.contextmanager
def _changed_store(source):
    """The path of a store that is changed, in a file or in memory."""
    in_file = source.random() < FILES
    with contextlib.closing(sqlite3.connect(":memory:" if in_file else _SHARED, uri=True)) as connection:
        _original().backup(connection)
        change(connection, source)
        if in_file:
            with in_folder(connection.serialize(), "a.sweep") as path:
                yield path
        else:
            with in_folder(b"", "a.sweep") as path, _in_memory():
                yield path


@contextlib.contextmanager
def _in_memory():
    """For the time of a case all stores are the shared database, which has no journal, and signs of life are left out."""
    with (
        mock.patch.object(database, "connect", _connect),
        mock.patch.object(store, "connect", _connect),
        mock.patch.object(database, "_switch_to_wal", _nothing),
        mock.patch.object(worker, "signs_of_life", _silent),
        mock.patch.object(ProcessName, "current", _current_process),
    ):
        yield


_current_process = functools.cache(ProcessName.current)


def _nothing(connection):
    """In the place of a journal, which takes no part in what is tested."""


def _silent(path, name):
    return contextlib.nullcontext()


def _connect(path):
    connection = sqlite3.connect(_SHARED, uri=True, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def change(connection, source):
    """Change one to three values, or delete rows."""
    for _ in range(source.randint(1, 3)):
        table = source.choice(list(_columns()))
        rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
        if not rows:
            continue
        with contextlib.suppress(sqlite3.Error), connection:
            where = f"WHERE rowid = {source.choice(rows)}"
            if source.random() < 0.1:
                connection.execute(f"DELETE FROM {table} {where}")
            else:
                connection.execute(
                    f"UPDATE {table} SET {source.choice(_columns()[table])} = ? {where}", [source.choice(_VALUES)]
                )


@functools.cache
def _sweep():
    return Sweep(fuzz_cell, {"x": [1, 2, 3]}, name="a")


def fuzz_cell(coordinates, seed):
    """The experiment of `store_values`."""
    return {"y": coordinates["x"] ** 2}


@functools.cache
def seed():
    """The bytes of a store with done and waiting cells, and a worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sweep"
        run_sweep(_sweep(), path, progress=False)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "UPDATE cells SET status = 'waiting', result = NULL, finished = NULL WHERE position = 1"
            )
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        return path.read_bytes()


@functools.cache
def _original():
    """The store in a database of its own."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(seed())
    return connection


@functools.cache
def _columns():
    """The columns of each table of a store."""
    connection = _original()
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in tables}
