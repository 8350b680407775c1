"""A sweep: one experiment at every point of a grid of named axes.

    cells = axis_1 × axis_2 × …,    seed of a cell = hash(seed of the sweep, coordinates without paired axes)

The seed depends on nothing else, so that results depend neither on the order of the cells nor on who computes them. A
sweep is a Python object or a small TOML file; see docs/sweeps.md.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.arguments import file_path
from fieldfit.data.textfile import read_bytes
from fieldfit.sweep.experiment import Experiment, find_experiment, takes_start
from fieldfit.types import FileAccessError, Plain, SweepError

#: What a coordinate may be.
Scalar = str | int | float | bool | None

#: Tables and lists inside each other in a sweep file, at most.
_MAX_DEPTH = 32
#: Text of one line in a TOML file, which ends with the line at the latest, and a part of a key such as a."b".c.
_TOML_TEXT = r'"(?:[^"\\\n]|\\.)*+(?:"|(?=\n)|\Z)|\'[^\'\n]*+(?:\'|(?=\n)|\Z)'
_TOML_PART = rf"(?:[A-Za-z0-9_-]++|{_TOML_TEXT})"
_TOML_PARTS = re.compile(_TOML_PART, re.DOTALL)
#: Texts of several lines, comments, and keys; a number or a text by itself counts as a key of one or two parts.
_TOML_TOKENS = re.compile(
    rf'"""(?:[^\\]|\\.)*?(?:"{{3,5}}|\Z)|\'\'\'.*?(?:\'{{3,5}}|\Z)|#[^\n]*'
    rf"|(?P<key>{_TOML_PART}(?:[ \t]*\.[ \t]*{_TOML_PART})*+)",
    re.DOTALL,
)
_KEYS = {"name", "experiment", "seed", "version", "warm_start_axis", "paired", "constants", "axes"}
_RANGE_KEYS = {"start", "stop", "count", "scale"}
_MOST_SWEEP_CELLS = 1_000_000


def canonical(value: object) -> str:
    """JSON in one spelling: sorted keys, no spaces, 1.0 written as 1; so equal values have equal text."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def digest(value: object, size: int = 16) -> str:
    """A hash of a plain value that is the same on every machine and in every process."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=size).hexdigest()


def seed_of(seed: int, coordinates: Mapping[str, object]) -> int:
    """Compute a seed that belongs to some coordinates.

    Parameters
    ----------
    seed : int
        The seed of the whole sweep.
    coordinates : mapping
        Names and values. Their order does not count.

    Returns
    -------
    int
        From 0 to 2^63 − 1, the same on every machine.

    Examples
    --------
    >>> from fieldfit.sweep import seed_of
    >>> seed_of(0, {"lam": 0.5, "n": 100}) == seed_of(0, {"n": 100, "lam": 0.5})
    True
    """
    if not isinstance(coordinates, Mapping):
        raise SweepError(f"The coordinates are {coordinates!r:.80}; they must be a mapping from names to values.")
    try:
        return int(digest({"seed": seed, "coordinates": coordinates}, 8), 16) >> 1
    except (TypeError, ValueError) as error:
        raise SweepError(
            f"The seed and the coordinates of a cell must be plain values (finite numbers, text, lists): {error}."
        ) from None


@dataclass(frozen=True)
class Cell:
    """One point of the grid. ``predecessor`` is the cell whose state it may start from, or None."""

    key: str
    position: int
    coordinates: dict[str, Scalar]
    seed: int
    predecessor: str | None


@dataclass(frozen=True)
class Sweep:
    """An experiment at every point of a grid of named axes.

    Parameters
    ----------
    experiment : callable, Experiment or str
        A function of (coordinates, seed) that returns a flat dict, the name of a built-in experiment, or
        ``"module:function"``. The coordinates that it gets contain the constants.
    axes : mapping
        Values of each axis, by name: numbers, text, booleans or None.
    constants : mapping
        Given to every cell along with its coordinates. By default none.
    seed : int, default: 0
        The cells' seeds come from it.
    version : int or str, default: 1
        Change it when the meaning of the experiment has changed in a way that its own source does not show.
    warm_start_axis : str or None, default: None
        Cells that differ in this axis only form a path. Each starts from the state that the one before it returned. For
        experiments that take ``start``.
    paired : sequence of str, default: ()
        Axes that do not change the seed: cells that differ only in these draw the same numbers, so that policies are
        compared on the same samples. A ``replicate`` axis that is not paired gives independent repetitions.
    name : str, default: "sweep"
        Name in messages.
    folder : Path
        Where relative paths in the constants begin. By default the working directory.

    Examples
    --------
    >>> from fieldfit.sweep import Sweep
    >>> def square(coordinates, seed):
    ...     return {"y": coordinates["x"] ** 2}
    >>> sweep = Sweep(square, {"x": [1, 2, 3]})
    >>> sweep.size
    3
    """

    experiment: Experiment | Any
    axes: Mapping[str, Sequence[Scalar]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    version: int | str = 1
    warm_start_axis: str | None = None
    paired: Sequence[str] = ()
    name: str = "sweep"
    folder: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        object.__setattr__(self, "experiment", find_experiment(self.experiment, self.folder))
        for name in ("axes", "constants"):
            if not isinstance(getattr(self, name), Mapping) or not all(
                isinstance(key, str) for key in getattr(self, name)
            ):
                raise SweepError(
                    f"The {name} of a sweep are {getattr(self, name)!r:.80}; they must be a mapping from names to values."
                )
        object.__setattr__(self, "axes", {name: _axis(name, values) for name, values in self.axes.items()})
        object.__setattr__(self, "constants", dict(self.constants))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise SweepError(f"The seed of a sweep is an integer; got {self.seed!r:.80}.")
        if not self.axes:
            raise SweepError("The sweep has no axes: give at least one, such as lam = [0.1, 0.5, 1.0].")
        both = sorted(set(self.axes) & set(self.constants))
        if both:
            raise SweepError(f"{both[0]!r:.80} is an axis and a constant of the sweep; it can be only one of them.")
        reserved = sorted(name for name in (*self.axes, *self.constants) if name.startswith("cell_"))
        if reserved:
            raise SweepError(f"Names that begin with cell_ are reserved; rename {reserved[0]!r:.80}.")
        if self.size > _MOST_SWEEP_CELLS:
            raise SweepError(f"The grid has {self.size:,} cells; a sweep may have at most {_MOST_SWEEP_CELLS:,}.")
        try:
            canonical(self.constants)
        except (TypeError, ValueError) as error:
            raise SweepError(
                f"The constants of a sweep must be plain values (numbers, text, lists): {error}."
            ) from None
        if self.warm_start_axis is not None:
            self._check_warm_start(self.warm_start_axis)
        self._check_paired()

    def _check_warm_start(self, axis: str) -> None:
        if not isinstance(axis, str) or axis not in self.axes:
            raise SweepError(
                f"warm_start_axis is {axis!r:.80}, which is not an axis; the axes are {list(self.axes)}."
            )
        if not takes_start(self.experiment.function):
            raise SweepError(
                f"The experiment {self.experiment.name!r:.80} has no parameter 'start', so it cannot start from a "
                f"neighbour's state: leave warm_start_axis out."
            )

    def _check_paired(self) -> None:
        known = isinstance(self.paired, list | tuple) and all(axis in list(self.axes) for axis in self.paired)
        if not known:
            raise SweepError(
                f"paired is {self.paired!r:.80}; it must be a list of axes, which are {list(self.axes)}."
            )
        object.__setattr__(self, "paired", tuple(axis for axis in self.axes if axis in self.paired))

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(len(values) for values in self.axes.values())

    def cells(self) -> Iterator[Cell]:
        """Go through the cells in the order of the grid, the last axis fastest.

        Yields
        ------
        Cell
            With ``key``, ``position``, ``coordinates``, ``seed`` and ``predecessor``, the key of the cell whose state
            it may start from, or None.

        Examples
        --------
        >>> from fieldfit.sweep import Sweep
        >>> def square(coordinates, seed):
        ...     return {"y": coordinates["x"] ** 2}
        >>> sweep = Sweep(square, {"x": [1, 2, 3]})
        >>> [cell.coordinates for cell in sweep.cells()]
        [{'x': 1}, {'x': 2}, {'x': 3}]
        """
        names = list(self.axes)
        ranges = [range(len(self.axes[name])) for name in names]
        path = None if self.warm_start_axis is None else names.index(self.warm_start_axis)
        for position, places in enumerate(itertools.product(*ranges)):
            coordinates = self._at(places)
            predecessor = None
            if path is not None and places[path] > 0:
                before = (*places[:path], places[path] - 1, *places[path + 1 :])
                predecessor = digest(self._at(before))
            drawn = {name: value for name, value in coordinates.items() if name not in self.paired}
            yield Cell(digest(coordinates), position, coordinates, seed_of(self.seed, drawn), predecessor)

    def _at(self, places: Sequence[int]) -> dict[str, Scalar]:
        return {name: self.axes[name][place] for name, place in zip(self.axes, places, strict=True)}

    def definition(self) -> Plain:
        """Return what the results depend on, as plain values. A store belongs to exactly one definition.

        Returns
        -------
        dict

        Examples
        --------
        >>> from fieldfit.sweep import Sweep
        >>> def square(coordinates, seed):
        ...     return {"y": coordinates["x"] ** 2}
        >>> sweep = Sweep(square, {"x": [1, 2, 3]})
        >>> sweep.definition()["axes"]
        {'x': [1, 2, 3]}
        """
        return {
            "experiment": self.experiment.name,
            "experiment_version": self.experiment.version,
            "inputs": self.experiment.inputs(self.resolved_constants()),
            "axes": {name: list(values) for name, values in self.axes.items()},
            "constants": dict(self.constants),
            "seed": self.seed,
            "version": self.version,
            "warm_start_axis": self.warm_start_axis,
            **({"paired": list(self.paired)} if self.paired else {}),
        }

    def resolved_constants(self) -> Plain:
        """Return the constants as the experiment gets them: relative paths begin in ``folder``.

        Returns
        -------
        dict

        Examples
        --------
        >>> from fieldfit.sweep import Sweep
        >>> def square(coordinates, seed):
        ...     return {"y": coordinates["x"] ** 2}
        >>> sweep = Sweep(square, {"x": [1, 2, 3]}, {"power": 2})
        >>> sweep.resolved_constants()
        {'power': 2}
        """
        constants = dict(self.constants)
        for name in self.experiment.paths:
            if isinstance(constants.get(name), str):
                constants[name] = os.fspath(self.folder / constants[name])
        return constants


def _deeper_than(most: int, document: Plain) -> bool:
    """Whether tables and lists are nested more than ``most`` deep: dotted keys nest deeper than Python can recurse."""
    level: list[dict[str, object] | list[object]] = [document]
    for _ in range(most):
        level = [
            value
            for nested in level
            for value in (nested.values() if isinstance(nested, dict) else nested)
            if isinstance(value, dict | list)
        ]
    return bool(level)


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    r"""Read a sweep from its TOML file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Sweep

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit.sweep import read_sweep
    >>> lines = ['experiment = "fit-table"', "[constants]", 'data = "votes.csv"', "[axes]", 'policy = ["PL1", "FL"]']
    >>> size = Path("votes.toml").write_text("\n".join(lines))
    >>> size = Path("votes.csv").write_text("a,b\n0,1\n1,1\n")
    >>> read_sweep("votes.toml").axes
    {'policy': ('PL1', 'FL')}
    """
    file = Path(file_path(path))
    try:
        text = read_bytes(file).decode("utf-8")
        _refuse_long_keys(text, file)
        document = tomllib.loads(text)
    except (FileAccessError, SweepError):
        raise
    except FileNotFoundError:
        raise FileAccessError(f"There is no sweep file {file}. Check the path.") from None
    except OSError as error:
        raise FileAccessError(f"The sweep file {file} cannot be read: {error.strerror or error}.") from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # bad syntax, bad text, a number with thousands of digits, deep nesting
        raise SweepError(f"{file} is not a TOML file: {error}.") from None
    if _deeper_than(_MAX_DEPTH, document):
        raise _too_deep(file)
    unknown = sorted(set(document) - _KEYS)
    if unknown:
        raise SweepError(f"{file} has the unknown key {unknown[0]!r:.80}; a sweep has the keys {sorted(_KEYS)}.")
    for key, kind, article in (
        ("experiment", str, "text"),
        ("axes", dict, "a table"),
        ("constants", dict, "a table"),
    ):
        if not isinstance(document.get(key, kind()), kind):
            raise SweepError(f"{key!r:.80} in {file} must be {article}; it is {document[key]!r:.80}.")
    for key in ("experiment", "axes"):
        if key not in document:
            raise SweepError(f"{file} lacks {key!r:.80}: a sweep needs an experiment and [axes].")
    document["axes"] = {name: _range(name, values) for name, values in document["axes"].items()}
    return Sweep(**{"name": file.stem, **document}, folder=file.resolve().parent)


def _refuse_long_keys(text: str, file: Path) -> None:
    """Refuse keys of many parts before the file is parsed: time and memory of tomllib grow with their square."""
    for token in _TOML_TOKENS.finditer(text):
        if token["key"] and len(_TOML_PARTS.findall(token["key"])) > _MAX_DEPTH:
            raise _too_deep(file)


def _too_deep(file: Path) -> SweepError:
    return SweepError(
        f"{file} has tables inside tables, {_MAX_DEPTH} deep. The values of a sweep are numbers, texts and lists."
    )


def _range(name: str, values: object) -> object:
    """A list as it is; {start, stop, count} as that many values, evenly spaced (scale = "log": in logarithm)."""
    if not isinstance(values, dict):
        return values
    if not {"start", "stop", "count"} <= set(values) <= _RANGE_KEYS or values.get("scale", "linear") not in (
        "linear",
        "log",
    ):
        raise SweepError(
            f"The axis {name!r:.80} is {values}; a range is written as "
            '{ start = 0.1, stop = 1.0, count = 10 }, with scale = "log" if wanted.'
        )
    start, stop, count = values["start"], values["stop"], values["count"]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e300 for v in (start, stop))
    if not numbers or isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise SweepError(
            f"The axis {name!r:.80} needs two numbers below 1e300 and a count of at least 2; it is {values!r:.200}."
        )
    if count > _MOST_SWEEP_CELLS:
        raise SweepError(
            f"The axis {name!r:.80} has {count:,} values; a sweep may have at most {_MOST_SWEEP_CELLS:,} cells."
        )
    if values.get("scale") == "log":
        if not (start > 0 and stop > 0):
            raise SweepError(
                f"The axis {name!r:.80} has a logarithmic scale, so its ends must be positive; it is {values}."
            )
        spaced = np.geomspace(float(start), float(stop), count)
    else:
        spaced = np.linspace(float(start), float(stop), count)
    # Twelve digits: 0.1 + 0.2 is 0.3 in a coordinate, in the file and in the exported table.
    return [float(f"{value:.12g}") for value in spaced]


def _axis(name: str, values: object) -> tuple[Scalar, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise SweepError(f"The axis {name!r:.80} needs a list of at least one value; got {values!r:.80}.")
    scalars: list[Scalar] = []
    for value in values:
        plain = value.item() if isinstance(value, np.generic) else value
        finite = not isinstance(plain, float) or math.isfinite(plain)
        if not (plain is None or isinstance(plain, str | int | float)) or not finite:
            raise SweepError(
                f"The axis {name!r:.80} has the value {value!r:.80}; values are finite numbers, text, booleans or None."
            )
        scalars.append(plain)
    if len({canonical(value) for value in scalars}) < len(scalars):
        raise SweepError(f"The axis {name!r:.80} has the same value twice: {scalars}.")
    return tuple(scalars)
