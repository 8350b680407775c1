"""Seconds for each kind of operation on this machine, from short runs whose result is cached.

Two dozen small problems are compiled and evaluated on one thread; the rates are the non-negative numbers that explain
their times best in relative error (`fieldfit.models.work` counts the operations). Times are medians (of set-ups the
least) of several passes over all runs,
in CPU time of the thread: other programs can only add to them. What threads bring is measured on its own:

    seconds = Σ serial + Σ parallel / s(tasks) + fork,     s(t) = 1 + (t/⌈t/threads⌉ − 1) × gain

The file lies in the user's cache folder, or in FIELDFIT_CACHE, and is keyed by machine, version and number of threads.
Rates that do not explain their own runs, or were measured while other programs kept the processors busy, are used by the
process that measured them, and not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fieldfit.data.atomic import atomic_writer
from fieldfit.models.work import ELIMINATION, SERIAL, TASKS, Work
from fieldfit.threads import get_threads
from fieldfit.types import FieldfitError

#: Raised when the kinds of operations or the runs of `calibration_runs` change.
_FORMAT = 5
_KNOWN: dict[str, Calibration] = {}
#: Median relative error over the calibration's own runs up to which it is kept.
_WORTH_KEEPING = 0.25
#: Share of waiting for other programs above which it is not kept: what threads bring cannot be seen then.
_BUSY = 0.3


@dataclass(frozen=True)
class Calibration:
    """Seconds for one operation of each kind, what threads bring, and how well the rates explain their own runs."""

    rates: Mapping[str, float]
    error: float  # median |log(predicted/measured)| over the calibration's own runs
    source: str  # "measured now" or the file
    threads: int = 1
    gain: float = 1.0  # share of the ideal speed-up that threads reach
    fork: float = 0.0  # seconds to start and join them
    waited: float = 0.0  # seconds that other programs had the processor, for each second of the calibration's own

    def evaluation_seconds(self, work: Work) -> float:
        """Seconds of one evaluation of value and gradient."""
        serial, blocks, sums = 0.0, 0.0, 0.0
        for kind, amount in work.items():
            if kind.startswith("setup") or kind in TASKS:
                continue
            seconds = amount * self.rates.get(kind, 0.0)
            if kind in ELIMINATION:
                sums += seconds
            elif kind in SERIAL or kind == "seconds":  # sequences are timed with the threads that they use
                serial += seconds
            else:
                blocks += seconds
        return serial + self._shared(blocks, work.get(TASKS[0], 1.0)) + self._shared(sums, work.get(TASKS[1], 1.0))

    def _shared(self, seconds: float, tasks: float) -> float:
        if self.threads < 2 or tasks < 2:
            return seconds
        ideal = tasks / math.ceil(tasks / self.threads)
        return seconds / (1 + (ideal - 1) * self.gain) + self.fork

    def setup_seconds(self, work: Work) -> float:
        """Seconds for drawing Z and compiling."""
        return sum(amount * self.rates.get(kind, 0.0) for kind, amount in work.items() if kind.startswith("setup"))


def calibration(*, fresh: bool = False) -> Calibration:
    """The rates of this machine: known to the process, else from the cache, else measured and cached."""
    key = _key()
    if not fresh and key in _KNOWN:
        return _KNOWN[key]
    path = cache_folder() / f"calibration-{key}.json"
    rates = None if fresh else _read(path)
    if rates is None:
        from fieldfit.planner.calibration_runs import measure

        rates = measure()
        if rates.error <= _WORTH_KEEPING and rates.waited <= _BUSY:
            _write(path, rates)
    _KNOWN[key] = rates
    return rates


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


def _write(path: Path, rates: Calibration) -> None:
    document = {
        "rates": dict(rates.rates),
        "error": rates.error,
        "threads": rates.threads,
        "gain": rates.gain,
        "fork": rates.fork,
    }
    with contextlib.suppress(OSError, FieldfitError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(path) as file:
            file.write(json.dumps(document, indent=1).encode())


def _read(path: Path) -> Calibration | None:
    """The cached rates; None where there is no file or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rates = {str(kind): float(rate) for kind, rate in document["rates"].items()}
        error, gain, fork = (float(document[name]) for name in ("error", "gain", "fork"))
        threads = int(document["threads"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not rates or any(not 0 <= rate < 1 for kind, rate in rates.items() if not kind.endswith("seconds")):
        return None
    if not (0 <= gain <= 1 and 0 <= fork < 1 and threads >= 1):
        return None
    return Calibration(rates, error, str(path), threads, gain, fork)
