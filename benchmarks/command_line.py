"""Seconds until the command line has answered, each command in a new process.

    python benchmarks/command_line.py [--turns N] [--source]

Small tables of simulated votes: `fieldfit fit` with and without missing values, `show`, and the help. Commands take turns
with `python -c "import numpy"`, so that the load of the machine is seen. The modules are compiled to bytecode first, as pip
does when it installs them. With `--source` none is (PYTHONDONTWRITEBYTECODE and an empty cache), as in a container without
bytecode. CPU seconds beside those on the wall; what other programs take of the processor is in the latter.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, VARIABLES = 500, 9


def write_tables(folder: Path) -> tuple[Path, Path]:
    """A table of correlated votes, and the same with one vote in 50 missing."""
    random = np.random.default_rng(0)
    votes = random.normal(size=(ROWS, VARIABLES)) + 1.2 * random.normal(size=(ROWS, 1)) > 0
    cells = votes.astype(int).astype(str)
    files = folder / "votes.csv", folder / "missing.csv"
    for file, lost in zip(files, (0.0, 0.02), strict=True):
        shown = np.where(random.random(cells.shape) < lost, "", cells)
        names = ",".join(f"judge{v}" for v in range(VARIABLES))
        file.write_text("\n".join([names, *(",".join(row) for row in shown)]) + "\n", encoding="utf-8")
    return files


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds on the wall and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--source", action="store_true", help="without bytecode")
    options = parser.parse_args()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        if options.source:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        table, missing = write_tables(folder)
        saved = folder / "votes.ff"
        fieldfit = [sys.executable, "-m", "fieldfit"]
        commands = {
            'python -c "import numpy"': [sys.executable, "-c", "import numpy"],
            "fieldfit --help": [*fieldfit, "--help"],
            "fieldfit fit boltzmann": [*fieldfit, "fit", "boltzmann", str(table), "--out", str(saved)],
            "the same, votes missing": [*fieldfit, "fit", "boltzmann", str(missing)],
            "fieldfit show": [*fieldfit, "show", str(saved)],
        }
        for command in commands.values():  # bytecode, and the files' pages in memory
            run(command, environment)
        seconds: dict[str, list[tuple[float, float]]] = {title: [] for title in commands}
        for _ in range(options.turns):
            for title, command in commands.items():
                seconds[title].append(run(command, environment))
    print(
        f"{ROWS} rows, {VARIABLES} variables, {'no bytecode' if options.source else 'bytecode'}, {options.turns} turns: "
        "median (lowest to highest)"
    )
    for title, found in seconds.items():
        wall, processor = zip(*found, strict=True)
        shown = [f"{statistics.median(x):.2f} s ({min(x):.2f} to {max(x):.2f})" for x in (wall, processor)]
        print(f"  {title:26s} wall {shown[0]}, CPU {shown[1]}")


if __name__ == "__main__":
    main()
