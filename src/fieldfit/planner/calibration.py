"""Seconds for each kind of operation on this machine, from short runs whose result is cached.

A dozen small problems are compiled and evaluated; the rates are the non-negative numbers that explain their times
best in relative error (`fieldfit.models.work` counts the operations). The file lies in the user's cache folder, or in
FIELDFIT_CACHE, and is keyed by machine, version and number of threads. Where it cannot be written, the calibration
(less than a second) is run again by each process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.data.atomic import atomic_writer
from fieldfit.data.samples import Table
from fieldfit.models.boltzmann import BoltzmannMachine
from fieldfit.models.field import FieldModel
from fieldfit.models.potts import Potts
from fieldfit.models.work import Work, combine, family_work
from fieldfit.policies import Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError

#: Raised when the kinds of operations or the runs below change.
_FORMAT = 3
_KNOWN: dict[str, Calibration] = {}
#: Evaluations of each run: at most so many, and no more after so many seconds.
_REPEATS, _SECONDS = 15, 0.03


@dataclass(frozen=True)
class Calibration:
    """Seconds for one operation of each kind, and how well they explain the runs they come from."""

    rates: Mapping[str, float]
    error: float  # median |log(predicted/measured)| over the calibration's own runs
    source: str  # "measured now" or the file

    def evaluation_seconds(self, work: Work) -> float:
        """Seconds of one evaluation of value and gradient."""
        return sum(
            amount * self.rates.get(kind, 0.0) for kind, amount in work.items() if not kind.startswith("setup")
        )

    def setup_seconds(self, work: Work) -> float:
        """Seconds for drawing Z and compiling."""
        return sum(amount * self.rates.get(kind, 0.0) for kind, amount in work.items() if kind.startswith("setup"))


def calibration(*, fresh: bool = False) -> Calibration:
    """The rates of this machine: known to the process, else from the cache, else measured and cached."""
    key = _key()
    if not fresh and key in _KNOWN:
        return _KNOWN[key]
    path = cache_folder() / f"calibration-{key}.json"
    found = None if fresh else _read(path)
    if found is None:
        found = measure()
        with contextlib.suppress(OSError, FieldfitError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_writer(path) as file:
                file.write(json.dumps({"rates": dict(found.rates), "error": found.error}, indent=1).encode())
    _KNOWN[key] = found
    return found


def cache_folder() -> Path:
    """FIELDFIT_CACHE, else the platform's folder for caches."""
    chosen = os.environ.get("FIELDFIT_CACHE")
    if chosen:
        return Path(chosen)
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fieldfit" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fieldfit"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fieldfit"


def _key() -> str:
    from fieldfit import __version__

    parts = (_FORMAT, __version__, platform.machine(), platform.node(), _processor(), os.cpu_count(), get_threads())
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _read(path: Path) -> Calibration | None:
    """The cached rates; None where there is no file or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rates = {str(kind): float(rate) for kind, rate in document["rates"].items()}
        error = float(document["error"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not rates or any(not 0 <= rate < 1 for kind, rate in rates.items() if not kind.endswith("seconds")):
        return None
    return Calibration(rates, error, str(path))


def _runs() -> list[tuple[FieldModel, int, str]]:
    """Small problems that together use every kind of operation; the same kind at several sizes."""
    ten, thirty, grid = BoltzmannMachine(10), BoltzmannMachine(30, biases=True), BoltzmannMachine.grid(7, 7)
    potts = Potts.grid(3, 3, 3)
    return [
        (ten, 64, "PL1"), (thirty, 3000, "PL1"), (grid, 4000, "PL1"), (BoltzmannMachine(150), 600, "PL1"),
        (thirty, 1000, "PL2"), (grid, 300, "PL2"), (ten, 400, "PL3"), (BoltzmannMachine(14), 300, "PL3"),
        (ten, 200, "PL4"), (thirty, 3000, "0.3*PL1"), (thirty, 1000, "0.2*PL2"), (grid, 300, "0.2*PL2"),
        (thirty, 1500, "Partition(3)"), (thirty, 600, "Partition(4)"), (BoltzmannMachine(12), 400, "FL"),
        (BoltzmannMachine.grid(5, 5), 400, "FL"), (BoltzmannMachine(3), 100, "FL"),
        (potts, 300, "PL1"), (potts, 300, "PL2(connected)"), (Potts.grid(4, 4, 4), 200, "PL1"),
    ]  # fmt: skip


def measure() -> Calibration:
    """Time the runs and solve for the rates."""
    from scipy.optimize import nnls

    works, times = [], []
    for model, n, text in _runs():
        work, seconds, setup = timed_run(model, n, text)
        works += [
            {kind: amount for kind, amount in work.items() if kind.startswith("setup") == is_setup}
            for is_setup in (False, True)
        ]
        times += [seconds, setup]
    kinds = sorted({kind for work in works for kind in work})
    design = np.array([[work.get(kind, 0.0) for kind in kinds] for work in works])
    measured = np.array(times)
    # Each row divided by its time: the sum of squared relative errors. Columns scaled for the solver.
    relative = design / measured[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    rates = nnls(relative / scale, np.ones(len(measured)))[0] / scale
    error = float(np.median(np.abs(np.log(np.maximum(design @ rates, 1e-300) / measured))))
    found = {kind: float(rate) for kind, rate in zip(kinds, rates, strict=True)} | {
        "seconds": 1.0,
        "setup_seconds": 1.0,
    }
    return Calibration(found, error, "measured now")


def timed_run(model: FieldModel, n: int, text: str, repeats: int = _REPEATS) -> tuple[Work, float, float]:
    """The counted work of a policy, the least seconds of an evaluation and of drawing and compiling.

    Other programs can only add to a time, so the least is nearest to what the work itself takes.
    """
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, c, n) for c in model.graph.cardinalities], axis=1).astype(np.int32)
    table = Table(codes, model.names, model.states)
    theta = rng.normal(size=model.n_parameters) * 0.1
    evaluations, setups = run_times(model, table, text, theta, repeats)
    return run_work(model, table, text, theta), min(evaluations), min(setups)


def run_work(model: Any, table: Table, text: str, theta: Any) -> Work:
    """The work of a policy on these samples."""
    bound = Policy.parse(text).bind(model.structure(table))
    parts = []
    for family, lam in zip(bound.families, bound.lams(), strict=True):
        problem = model.compile(table, Selection(table.n, (FamilySelection(family, 1.0),)))
        law = "partition" if text.startswith("Partition") else "whole" if "/row" in text else "single"
        parts.append(family_work(problem, family, table.codes, table.n, theta, 0.0).work(float(np.mean(lam)), law))
    return combine(parts)


def run_times(
    model: Any, table: Table, text: str, theta: Any, repeats: int, most_seconds: float = _SECONDS
) -> tuple[list[float], list[float]]:
    """Seconds of evaluations, and of drawing and compiling."""
    bound = Policy.parse(text).bind(model.structure(table))
    setups: list[float] = []
    evaluations: list[float] = []
    for _ in range(2):
        began = time.perf_counter()
        problem = model.compile(table, bound.draw(0, 0, table.n))
        setups.append(time.perf_counter() - began)
    problem.value_grad(theta)
    deadline = time.perf_counter() + most_seconds
    while len(evaluations) < 3 or (len(evaluations) < repeats and time.perf_counter() < deadline):
        began = time.perf_counter()
        problem.value_grad(theta)
        evaluations.append(time.perf_counter() - began)
    return evaluations, setups
