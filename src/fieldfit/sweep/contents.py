"""Whether the contents of a store can be those of a sweep, and what has changed between two definitions of one.

They are checked when the store is opened, so that no run waits forever. A ValueError says what is wrong.

A waiting cell must be reachable: its predecessor exists and comes before it. A running cell must have a worker that can
be checked for signs of life. Numbers must be numbers.
"""

from __future__ import annotations

import json
import math
import sqlite3

from fieldfit.sweep.grid import canonical, digest, seed_of
from fieldfit.types import Plain

#: What a definition must have, and of which type each entry is.
_DEFINITION: dict[str, type] = {
    "experiment": str,
    "inputs": dict,
    "axes": dict,
    "constants": dict,
    "seed": int,
}
#: What is wrong with a cell, and the condition that finds one.
_WRONG = {
    "a cell has a text or a number of the wrong type": (
        "typeof(key) <> 'text' OR typeof(position) <> 'integer' OR typeof(coordinates) <> 'text' OR typeof(seed) <>"
        " 'integer' OR typeof(attempts) <> 'integer' OR typeof(predecessor) NOT IN ('text', 'null') OR"
        " typeof(result) NOT IN ('text', 'null') OR typeof(error) NOT IN ('text', 'null') OR typeof(warnings) NOT IN"
        " ('text', 'null') OR typeof(state) NOT IN ('blob', 'null') OR typeof(seconds) NOT IN ('real', 'integer',"
        " 'null') OR typeof(finished) NOT IN ('text', 'null')"
    ),
    "a cell has a status that no sweep has": "status NOT IN ('waiting', 'running', 'done', 'failed')",
    "a cell has a mark that no sweep makes": "suspect NOT IN (0, 1)",
    "a running cell has no worker": (
        "status = 'running' AND (worker IS NULL OR worker NOT IN (SELECT id FROM workers))"
    ),
    "a cell starts from a cell that does not come before it": (
        "predecessor IS NOT NULL AND NOT EXISTS (SELECT 1 FROM cells p WHERE p.key = cells.predecessor AND"
        " p.position < cells.position)"
    ),
}
_WRONG_WORKER = (
    "typeof(id) <> 'text' OR typeof(host) <> 'text' OR typeof(pid) <> 'integer' OR typeof(started) <> 'text' OR"
    " typeof(heartbeat) NOT IN ('real', 'integer')"
)


def read_definition(text: str) -> Plain:
    """The definition of a sweep from its JSON text; ValueError where it is not one."""
    definition = json.loads(text)
    if not isinstance(definition, dict):
        raise ValueError("its definition is not a JSON object")
    for name, kind in _DEFINITION.items():
        if not isinstance(definition.get(name), kind):
            raise ValueError(f"its definition has no valid {name!r:.80}")
    if not all(isinstance(values, list) for values in definition["axes"].values()):
        raise ValueError("an axis of its definition is not a list")
    paired = definition.get("paired", [])
    if not isinstance(paired, list) or not all(isinstance(name, str) for name in paired):
        raise ValueError("its definition has no valid 'paired'")
    return definition


def check_schema(connection: sqlite3.Connection) -> None:
    """Refuse views and triggers: a store has none, and SQLite would run the statements in them."""
    row = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
    ).fetchone()
    if row is not None:
        raise ValueError(f"it has the {row[0]} {row[1]!r:.60}")


def check_cells(connection: sqlite3.Connection) -> None:
    """Refuse cells that no sweep writes."""
    for problem, condition in _WRONG.items():
        row = connection.execute(f"SELECT position FROM cells WHERE {condition} LIMIT 1").fetchone()
        if row is not None:
            raise ValueError(f"{problem} (position {row[0]!r:.40})")
    if connection.execute(f"SELECT 1 FROM workers WHERE {_WRONG_WORKER} LIMIT 1").fetchone() is not None:
        raise ValueError("a worker has a text or a number of the wrong type")


def check_grid(connection: sqlite3.Connection, definition: Plain) -> None:
    """Refuse a store whose cells are not those of its definition.

    Cells that are gone, that are twice or that lie outside the axes; keys and seeds of other coordinates; results that no
    experiment returns.
    """
    axes, paired = definition["axes"], definition.get("paired", [])
    allowed = {name: {canonical(value) for value in values} for name, values in axes.items()}
    seen: set[str] = set()
    for position, key, text, seed, status, result in connection.execute(
        "SELECT position, key, coordinates, seed, status, result FROM cells"
    ):
        coordinates = json.loads(text)
        inside = isinstance(coordinates, dict) and coordinates.keys() == allowed.keys()
        if not inside or any(canonical(value) not in allowed[name] for name, value in coordinates.items()):
            problem = "a cell lies outside the axes"
        elif key != digest(coordinates):
            problem = "a cell has the key of other coordinates"
        elif seed != seed_of(definition["seed"], {n: value for n, value in coordinates.items() if n not in paired}):
            problem = "a cell has a seed that is not that of its coordinates"
        elif (status == "done" or result is not None) and not _is_result(result, coordinates):
            problem = "a cell has a result that no experiment returns"
        else:
            seen.add(canonical(coordinates))
            continue
        raise ValueError(f"{problem} (position {position!r:.40})")
    count = connection.execute("SELECT COUNT(*) FROM cells").fetchone()[0]
    expected = math.prod(len(values) for values in axes.values())
    if len(seen) != expected or count != expected:
        raise ValueError(f"its axes have {expected:,} cells, and it has {len(seen):,} of them")


def _is_result(text: str | None, coordinates: Plain) -> bool:
    """Whether this is the JSON text of a result: an object whose names are its own."""
    try:
        result = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(result, dict) and not any(name in coordinates or name.startswith("cell_") for name in result)


def differences(old: Plain, new: Plain) -> list[str]:
    """What has changed between two definitions, as text."""
    differences = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if canonical(before) == canonical(after):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            for key in dict.fromkeys((*before, *after)):
                if canonical(before.get(key)) != canonical(after.get(key)):
                    differences.append(f"{name}.{key} was {_short(before.get(key))} and is {_short(after.get(key))}")
            if list(before) != list(after) and canonical(before) == canonical(after):
                differences.append(f"{name} are in another order")
        elif name == "experiment_version":
            differences.append("the experiment's own code has changed")
        else:
            differences.append(f"{name} was {_short(before)} and is {_short(after)}")
    return differences or ["it differs"]


def _short(value: object) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def has_grown(old: Plain, new: Plain) -> bool:
    """Whether the only change is that axes have more values than before."""
    rest = [canonical({k: v for k, v in d.items() if k != "axes"}) for d in (old, new)]
    if rest[0] != rest[1] or set(old["axes"]) != set(new["axes"]):
        return False
    return all({canonical(v) for v in old["axes"][n]} <= {canonical(v) for v in new["axes"][n]} for n in new["axes"])
