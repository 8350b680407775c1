"""The SQLite file under a store: its tables, its connections, and its errors as sentences."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from fieldfit.data.atomic import check_writable
from fieldfit.sweep.grid import Sweep
from fieldfit.types import FileAccessError, FileFormatError

APPLICATION = 0x66667377  # "ffsw" in the file's header says that SQLite file is a sweep
FORMAT = 1
_BUSY_SECONDS = 60.0

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (id TEXT PRIMARY KEY, began TEXT NOT NULL, jobs INTEGER NOT NULL, versions TEXT NOT NULL);
CREATE TABLE workers (
    id TEXT PRIMARY KEY, run TEXT NOT NULL REFERENCES runs, host TEXT NOT NULL, pid INTEGER NOT NULL,
    started TEXT NOT NULL, heartbeat REAL NOT NULL);
CREATE TABLE cells (
    key TEXT PRIMARY KEY, position INTEGER NOT NULL, coordinates TEXT NOT NULL, seed INTEGER NOT NULL,
    predecessor TEXT, status TEXT NOT NULL DEFAULT 'waiting'
        CHECK (status IN ('waiting', 'running', 'done', 'failed')),
    worker TEXT REFERENCES workers, run TEXT REFERENCES runs, attempts INTEGER NOT NULL DEFAULT 0,
    suspect INTEGER NOT NULL DEFAULT 0, result TEXT, state BLOB, error TEXT, warnings TEXT, seconds REAL, finished TEXT);
CREATE INDEX cells_by_status ON cells (status, attempts, position);
"""


def now() -> str:
    """The date and time in UTC, as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@contextlib.contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into sentences about the store."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith("SQLITE_FULL"):
            raise FileAccessError(
                f"The disk is full: the last cell could not be written to {path}. All cells committed before are "
                f"intact. Free some space and run the same command again."
            ) from error
        if name.startswith(("SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            raise FileAccessError(
                f"The store {path} cannot be read or written ({error}). Check the path, the permissions and the disk; all "
                f"cells committed before are intact."
            ) from error
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise FileAccessError(
                f"The store {path} was locked by another process for {_BUSY_SECONDS:.0f} s. Run the command again."
            ) from error
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise FileFormatError(
                f"{path} is not a sweep store, or it is damaged ({error}). Give another path, or restore the file."
            ) from error
        raise FileFormatError(f"The store {path} does not have the contents of a sweep ({error}).") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"The store {path} has text that is not UTF-8: it is damaged. Restore it.") from error


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits durably and waits for others; on a read-only file system one that only reads."""
    if _unchanging(path):
        return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _unchanging(path: Path) -> bool:
    """Whether the store is on a read-only file system, with nothing in its journal, for which SQLite would need a file."""
    if not hasattr(os, "statvfs") or not path.exists() or not os.statvfs(path).f_flag & os.ST_RDONLY:
        return False
    journal = path.with_name(f"{path.name}-wal")
    return not journal.exists() or journal.stat().st_size == 0


def create(file: Path, sweep: Sweep, definition: dict[str, object]) -> None:
    """Make the store in one transaction, unless another process has just done it or the file is something else."""
    if not file.is_file():
        check_writable(file)
    connection = connect(file)
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _SCHEMA.split(";\n"):
                    connection.execute(statement)
                values = {"definition": json.dumps(definition), "name": sweep.name, "created": now()}
                connection.executemany("INSERT INTO meta VALUES (?, ?)", list(values.items()))
                insert_cells(connection, sweep)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION:
            _switch_to_wal(connection)
    finally:
        connection.close()


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """WAL stays on in the file. The switch needs a moment without other connections and does not wait by itself."""
    for attempt in range(200):
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                return
        except sqlite3.OperationalError:
            if attempt == 199:
                raise
        time.sleep(0.02)


def insert_cells(connection: sqlite3.Connection, sweep: Sweep) -> None:
    """Add the cells that are not there; those that are get their place in the (possibly grown) grid."""
    connection.executemany(
        "INSERT INTO cells (key, position, coordinates, seed, predecessor) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET position = excluded.position, predecessor = excluded.predecessor",
        ((c.key, c.position, json.dumps(c.coordinates), c.seed, c.predecessor) for c in sweep.cells()),
    )
