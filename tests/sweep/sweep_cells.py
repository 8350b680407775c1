"""Cells for the sweep tests, and a command that runs a sweep of them: python sweep_cells.py STORE LOG JOBS."""

import os
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def note(log, word, coordinates):
    """One line, written at once and behind all others."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{word} {coordinates['a']} {coordinates['b']}\n".encode())
    os.close(descriptor)


def slow(coordinates, seed):
    note(coordinates["log"], "start", coordinates)
    time.sleep(coordinates["seconds"])
    note(coordinates["log"], "end", coordinates)
    return {"product": coordinates["a"] * coordinates["b"], "seed_seen": seed}


def large(coordinates, seed):
    """A result that makes the store grow."""
    return slow(coordinates, seed) | {"text": "x" * 3000}


def swallow(coordinates, seed):
    """Like a fit that answers Ctrl-C with what it has so far."""
    try:
        return slow(coordinates, seed)
    except KeyboardInterrupt:
        return {"product": -1, "seed_seen": seed}


def deadly(coordinates, seed):
    if coordinates["a"] == 1 and coordinates["b"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return {"product": coordinates["a"] * coordinates["b"]}


def lines(log, word):
    """(a, b) of the lines with this word, in order."""
    if not Path(log).exists():
        return []
    split = [line.split() for line in Path(log).read_text().splitlines()]
    return [(int(a), int(b)) for own, a, b in split if own == word]


def make(log, function="slow", seconds=0.1, a=4, b=6):
    from fieldfit.sweep import Sweep

    return Sweep(
        f"sweep_cells:{function}",
        {"a": list(range(a)), "b": list(range(b))},
        {"log": str(log), "seconds": seconds},
        seed=7,
        folder=HERE,
    )


if __name__ == "__main__":
    from fieldfit.sweep import run_sweep

    store, log, jobs, function = sys.argv[1:5]
    summary = run_sweep(make(log, function), store, n_jobs=int(jobs))
    print(summary, flush=True)
    sys.exit(130 if summary.interrupted else 0)
