"""What a cell computes: a function of (coordinates, seed) that returns a flat dict of numbers, text and small arrays.

`experiment` registers a function under a short name with a version. Any other function is named ``module:function`` and has
a hash of its source as version. From Python both are given as functions.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldfit.types import Plain, SweepError

CellFunction = Callable[..., Mapping[str, Any]]
Inputs = Callable[[Mapping[str, object]], Plain]

#: Modules that register built-in experiments when they are imported.
_EXPERIMENT_HOMES = {"fit-table": "fieldfit.sweep.fit_table"}
_registry: dict[str, Experiment] = {}


def _no_inputs(constants: Mapping[str, object]) -> Plain:
    return {}


@dataclass(frozen=True)
class Experiment:
    """The function of a cell with its name and version.

    Parameters
    ----------
    name : str
        Its name.
    function : callable
        A function of (coordinates, seed) that returns a flat dict.
    version : str
        Version of the function. A store refuses results of another one.
    paths : sequence of str, default: ()
        Constants that hold paths of files.
    inputs : callable
        A function of the constants that returns a fingerprint of what is read from outside, such as a hash of the data, so
        that a store notices a change. By default an empty dict.

    Examples
    --------
    >>> from fieldfit.sweep import Experiment
    >>> half = Experiment("half", lambda coordinates, seed: {"y": coordinates["x"] / 2}, "1")
    >>> half.function({"x": 4}, 0)
    {'y': 2.0}
    """

    name: str
    function: CellFunction
    version: str
    paths: Sequence[str] = ()
    inputs: Inputs = field(default=_no_inputs)

    @property
    def address(self) -> str:
        """``module:function``, by which another process can import the function."""
        return _address(self.function)


def _address(function: CellFunction) -> str:
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__name__)}"


def takes_start(function: CellFunction) -> bool:
    """Whether the function can start from the state that a neighbouring cell returned."""
    return "start" in inspect.signature(function).parameters


def experiment(
    name: str, *, version: int, paths: Sequence[str] = (), inputs: Inputs = _no_inputs
) -> Callable[[CellFunction], CellFunction]:
    """Register an experiment under a name. Use it as a decorator.

    Parameters
    ----------
    name : str
        The name by which a sweep finds it.
    version : int
        Raise it whenever the results change their meaning.
    paths : sequence of str, default: ()
        Constants that hold paths of files.
    inputs : callable
        A function of the constants that returns a fingerprint of what is read from outside. By default an empty dict.

    Returns
    -------
    callable
        The decorator, which returns the function itself.

    Examples
    --------
    >>> from fieldfit.sweep import Sweep, experiment
    >>> @experiment("square", version=1)
    ... def square(coordinates, seed):
    ...     return {"y": coordinates["x"] ** 2}
    >>> Sweep("square", {"x": [1, 2]}).experiment.name
    'square'
    """

    def register(function: CellFunction) -> CellFunction:
        _registry[name] = Experiment(name, function, str(version), tuple(paths), inputs)
        return function

    return register


def find_experiment(wanted: Experiment | CellFunction | str, folder: Path | None = None) -> Experiment:
    """The experiment of that name, that function, or that ``module:function`` (also looked for in ``folder``)."""
    if isinstance(wanted, Experiment):
        return wanted
    if callable(wanted):
        return _registered(wanted) or Experiment(_address(wanted), wanted, _source_version(wanted))
    if not isinstance(wanted, str):
        raise SweepError(f"An experiment is a function, a name or 'module:function'; got {type(wanted).__name__}.")
    if ":" in wanted:
        function = _imported(wanted, folder)
        return _registered(function) or Experiment(wanted, function, _source_version(function))
    if wanted in _EXPERIMENT_HOMES:
        importlib.import_module(_EXPERIMENT_HOMES[wanted])
    if wanted not in _registry:
        names = sorted({*_EXPERIMENT_HOMES, *_registry})
        raise SweepError(
            f"There is no experiment {wanted!r:.80}; built in are {names}, others are 'module:function'."
        )
    return _registry[wanted]


def _registered(function: CellFunction) -> Experiment | None:
    return next((known for known in _registry.values() if known.function is function), None)


def _imported(wanted: str, folder: Path | None) -> CellFunction:
    module_name, _, function_name = wanted.partition(":")
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # a sweep file may bring its experiment in a module beside it
    try:
        attribute = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, ValueError) as error:
        raise SweepError(f"The experiment {wanted!r:.80} cannot be imported: {error}.") from error
    except AttributeError:
        raise SweepError(f"The module {module_name!r:.80} has no function {function_name!r:.80}.") from None
    if not callable(attribute):
        raise SweepError(f"The experiment {wanted!r:.80} is not a function.")
    function: CellFunction = attribute
    return function


def _source_version(function: CellFunction) -> str:
    """A hash of the function's source without comments and layout, or of its byte code where there is no source."""
    try:
        text = ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):
        code = getattr(function, "__code__", None)
        if code is None:
            return "unknown"
        text = f"{code.co_code.hex()} {[c for c in code.co_consts if not inspect.iscode(c)]!r} {code.co_names!r}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
