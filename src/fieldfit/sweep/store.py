"""The store of a sweep: one SQLite file in WAL mode that any number of processes share.

A cell is waiting, running, done or failed. Every change is one transaction that is on the disk when it returns, so that
kill -9 at any moment leaves every committed cell in place and no half-written one. A running cell belongs to one worker
process; it can be taken over only when that process is dead (or, on another machine, has not given a sign of life for
`LEASE` seconds), and a result is accepted only from the worker that owns the cell. So no cell is done twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldfit.arguments import file_path
from fieldfit.sweep.contents import check_cells, check_grid, check_schema, differences, has_grown, read_definition
from fieldfit.sweep.database import APPLICATION, FORMAT, connect, create, insert_cells, now, sentences
from fieldfit.sweep.grid import Cell, Sweep, canonical
from fieldfit.sweep.process import ProcessName
from fieldfit.types import FileAccessError, FileFormatError, Plain, SweepError

#: Seconds without a sign of life after which a worker on another machine counts as dead.
LEASE = 120.0


@dataclass(frozen=True)
class Claim:
    """A cell that this worker owns, and the state of its predecessor if it has one."""

    cell: Cell
    start: bytes | None


@dataclass(frozen=True)
class CellResult:
    """What became of a cell: a result, or an error."""

    result: str | None
    error: str | None
    state: bytes | None
    warnings: str | None
    seconds: float


@dataclass(frozen=True)
class Counts:
    """How many cells have each status, and the mean seconds of a done one."""

    waiting: int
    running: int
    done: int
    failed: int
    seconds: float

    @property
    def total(self) -> int:
        """All cells."""
        return self.waiting + self.running + self.done + self.failed


class Store:
    """One connection to a sweep's store. Open one in each process (and thread); close it, or use it in ``with``."""

    def __init__(self, path: str | os.PathLike[str], *, check: bool = True) -> None:
        """Open a store that exists; ``check`` looks through the whole file for damage."""
        self.path = Path(file_path(path))
        if not os.path.isfile(self.path):
            raise FileAccessError(f"There is no sweep store {self.path}. Check the path, or run the sweep first.")
        with sentences(self.path):
            self.connection = connect(self.path)
            try:
                self._check_format(check)
                self.connection.execute("BEGIN")  # another process may add cells to the axes and the grid meanwhile
                check_schema(self.connection)
                self.definition: Plain = read_definition(self._meta("definition"))
                self.name = self._meta("name")
                if check:
                    check_cells(self.connection)
                    check_grid(self.connection, self.definition)
                self.connection.execute("COMMIT")
            except FileFormatError:
                self.connection.close()
                raise
            except (ValueError, TypeError, RecursionError) as error:
                self.connection.close()
                raise FileFormatError(
                    f"{self.path} does not have the contents of a sweep: {error!s:.200}. Restore the file, or begin with "
                    "another store."
                ) from error
            except BaseException:
                self.connection.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what is committed stays."""
        self.connection.close()

    @classmethod
    def for_sweep(cls, path: str | os.PathLike[str], sweep: Sweep, *, extend: bool = False) -> Store:
        """The store of this sweep: made where there is none, refused where it belongs to another definition.

        With ``extend`` the axes may have grown since; their new cells are added.
        """
        file = Path(path)
        definition = sweep.definition()
        with sentences(file):
            create(file, sweep, definition)
        store = cls(file)
        try:
            store._match(sweep, definition, extend)
        except BaseException:
            store.close()
            raise
        return store

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its beginning, so that what it reads is what it changes."""
        with sentences(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back by itself after some errors
                    self.connection.execute("ROLLBACK")
                raise

    def _check_format(self, thorough: bool) -> None:
        application = self.connection.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION:
            raise FileFormatError(f"{self.path} is an SQLite file of something else, not a sweep store.")
        version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        if version != FORMAT:
            raise FileFormatError(
                f"{self.path} has the store format {version}; this version of fieldfit reads format {FORMAT}."
            )
        verdict = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0] if thorough else "ok"
        if verdict != "ok":
            raise FileFormatError(
                f"{self.path} is damaged ({verdict}). Restore the file, or begin with another store."
            )

    def _meta(self, name: str) -> str:
        row = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise FileFormatError(f"{self.path} does not have the contents of a sweep: {name!r:.80} is missing.")
        return str(row[0])

    def _match(self, sweep: Sweep, definition: Plain, extend: bool) -> None:
        if canonical(definition) == canonical(self.definition):
            return
        changed = differences(self.definition, definition)
        grown = has_grown(self.definition, definition)
        if extend and grown:
            with self._transaction() as connection:
                connection.execute("UPDATE meta SET value = ? WHERE name = 'definition'", (json.dumps(definition),))
                insert_cells(connection, sweep)
            self.definition = json.loads(json.dumps(definition))
            return
        advice = (
            "Only values were added to axes: run with --extend (extend=True) to add those cells."
            if grown
            else "Its results would not belong together with new ones: use another store, or undo the change."
        )
        raise SweepError(
            f"The store {self.path} was made by another definition of this sweep: {'; '.join(changed)}. {advice}"
        )

    # --- work -------------------------------------------------------------------------------------------------------

    def begin_run(self, jobs: int, versions: dict[str, str]) -> str:
        """Note that a run begins; its id marks the cells that it computes."""
        run = uuid.uuid4().hex
        with self._transaction() as connection:
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", (run, now(), jobs, json.dumps(versions)))
        return run

    def register_worker(self, run: str) -> str:
        """Note that this process takes part in a run."""
        process = ProcessName.current()
        worker = uuid.uuid4().hex
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO workers VALUES (?, ?, ?, ?, ?, ?)",
                (worker, run, process.host, process.pid, process.started, time.time()),
            )
        return worker

    def heartbeat(self, worker: str) -> None:
        """A sign of life, for processes on other machines."""
        with self._transaction() as connection:
            connection.execute("UPDATE workers SET heartbeat = ? WHERE id = ?", (time.time(), worker))

    def claim(self, worker: str, key: str | None = None) -> Claim | None:
        """Take the next waiting cell (or the one with that key); None where there is none."""
        with self._transaction() as connection:
            return _claim(connection, worker, key)

    def finish(self, worker: str, cell: Cell, outcome: CellResult, *, claim_next: bool) -> tuple[bool, Claim | None]:
        """Commit a cell and, in the same transaction, take the next one.

        The first value is False where the cell belongs to another worker by now; the outcome is then thrown away.
        """
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE cells SET status = ?, result = ?, error = ?, state = ?, warnings = ?, seconds = ?, finished = ?,"
                " worker = NULL, suspect = 0 WHERE key = ? AND status = 'running' AND worker = ?",
                (
                    "done" if outcome.error is None else "failed",
                    outcome.result,
                    outcome.error,
                    outcome.state,
                    outcome.warnings,
                    outcome.seconds,
                    now(),
                    cell.key,
                    worker,
                ),
            )
            return changed.rowcount == 1, _claim(connection, worker, None) if claim_next else None

    def release(self, worker: str) -> None:
        """Give back the cells that a worker has not finished."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE cells SET status = 'waiting', worker = NULL, attempts = attempts - 1 WHERE worker = ?",
                (worker,),
            )

    def release_run(self, run: str) -> None:
        """Give back the cells of all workers of a run that has ended, alive or not."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE cells SET status = 'waiting', worker = NULL, attempts = attempts - 1 WHERE status = 'running'"
                " AND run = ?",
                (run,),
            )

    def take_over(self, *, crashed_run: str | None = None) -> int:
        """Make the running cells of dead processes wait again; those of ``crashed_run`` become suspects."""
        rows = self._rows(
            "SELECT DISTINCT w.id, w.run, w.host, w.pid, w.started, w.heartbeat FROM cells c JOIN workers w"
            " ON w.id = c.worker WHERE c.status = 'running'"
        )
        taken = 0
        for worker, run, host, pid, started, heartbeat in rows:
            process = ProcessName(host, pid, started)
            # A sign of life far in the future is none: no run may wait for it.
            if process.alive if process.is_local else abs(time.time() - heartbeat) < LEASE:
                continue
            with self._transaction() as connection:
                # The condition on the heartbeat: a worker far away may have come back since it was read.
                changed = connection.execute(
                    "UPDATE cells SET status = 'waiting', worker = NULL, suspect = max(suspect, ?) WHERE worker = ?"
                    " AND EXISTS (SELECT 1 FROM workers WHERE id = ? AND heartbeat = ?)",
                    (int(run == crashed_run), worker, worker, heartbeat),
                )
                taken += changed.rowcount
        return taken

    def suspects(self) -> list[str]:
        """Keys of waiting cells whose process died under them: they are tried alone."""
        return [
            row[0]
            for row in self._rows("SELECT key FROM cells WHERE suspect = 1 AND status = 'waiting' ORDER BY position")
        ]

    def condemn(self, key: str, error: str) -> None:
        """Record a waiting suspect as failed."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE cells SET status = 'failed', error = ?, suspect = 0, finished = ? WHERE key = ?"
                " AND status = 'waiting'",
                (error, now(), key),
            )

    def retry_failed(self) -> int:
        """Let failed cells wait again; how many."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE cells SET status = 'waiting', error = NULL, warnings = NULL, finished = NULL, seconds = NULL,"
                " attempts = 0 WHERE status = 'failed'"
            )
            return changed.rowcount

    # --- reading ----------------------------------------------------------------------------------------------------

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with sentences(self.path):
            return self.connection.execute(query, values).fetchall()

    def _object(self, text: str) -> Plain:
        """A JSON object of a cell."""
        try:
            value = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise FileFormatError(f"A cell of {self.path} is not JSON ({error!s:.200}).") from error
        if not isinstance(value, dict):
            raise FileFormatError(f"A cell of {self.path} has {text!r:.80}, which is not a JSON object.")
        return value

    def counts(self) -> Counts:
        """How far the sweep is."""
        counts: dict[str, int] = dict(self._rows("SELECT status, COUNT(*) FROM cells GROUP BY status"))
        mean = self._rows("SELECT AVG(seconds) FROM cells WHERE status = 'done'")[0][0]
        waiting, running, done, failed = (counts.get(name, 0) for name in ("waiting", "running", "done", "failed"))
        return Counts(waiting, running, done, failed, float(mean or 0.0))

    def records(self) -> list[Plain]:
        """Every cell in the grid's order: coordinates, result, and what the engine knows with names ``cell_…``."""
        rows = self._rows(
            "SELECT c.coordinates, c.result, c.status, c.seed, c.seconds, c.finished, c.error, c.warnings, r.versions"
            " FROM cells c LEFT JOIN runs r ON r.id = c.run ORDER BY c.position"
        )
        records = []
        for coordinates, result, status, seed, seconds, finished, error, warned, versions in rows:
            record: Plain = self._object(coordinates) | (self._object(result) if result else {})
            record["cell_status"], record["cell_seed"] = status, seed
            record["cell_seconds"], record["cell_finished"] = seconds, finished
            record["cell_error"], record["cell_warnings"] = error, warned
            record["cell_versions"] = versions if status in ("done", "failed") else None
            records.append(record)
        return records


def _claim(connection: sqlite3.Connection, worker: str, key: str | None) -> Claim | None:
    # Fewest attempts first: a cell that takes its process down does not keep the others from being done.
    row = connection.execute(
        "SELECT c.key, c.position, c.coordinates, c.seed, c.predecessor, p.state FROM cells c"
        " LEFT JOIN cells p ON p.key = c.predecessor WHERE c.status = 'waiting'"
        " AND (p.key IS NULL OR p.status IN ('done', 'failed'))"
        + (" AND c.suspect = 0 ORDER BY c.attempts, c.position LIMIT 1" if key is None else " AND c.key = ?"),
        () if key is None else (key,),
    ).fetchone()
    if row is None:
        return None
    connection.execute(
        "UPDATE cells SET status = 'running', worker = ?, attempts = attempts + 1,"
        " run = (SELECT run FROM workers WHERE id = ?) WHERE key = ?",
        (worker, worker, row[0]),
    )
    return Claim(Cell(row[0], row[1], json.loads(row[2]), row[3], row[4]), row[5])
