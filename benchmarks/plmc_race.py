"""A whole fit of a Potts field against plmc, to the same objective: processor seconds and memory.

    python benchmarks/plmc_race.py --plmc path/to/plmc --plmc32 path/to/plmc32 [--sequences 5000] [--columns 100]

plmc (https://github.com/debbiemarkslab/plmc) is built from its source and is not part of this project: `make all-openmp`
(doubles, against our fit in double precision) and `make all-openmp32` (against ours in single precision). A build without
OpenMP has no option for the number of threads. Both programs read the same simulated alignment of 21 letters. Every
sequence counts once; the penalties are λ_h = 0.01 and, for couplings, that of EVcouplings. plmc runs until it stops by
itself. We run until our objective is at most that of the parameters that plmc has written, evaluated by our code. One
thread each, one run each, each in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit import proteins
from fieldfit.proteins.parameter_file import read_plmc
from fieldfit.threads import use_threads

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"


def alignment(n: int, columns: int) -> np.ndarray:
    """Descendants of a random sequence: six generations, then a star; mutations follow the profile of the column."""
    random = np.random.default_rng(0)
    profile = random.dirichlet(np.full(21, 0.3), columns)
    sums = profile.cumsum(axis=1)

    def fresh(count: int) -> np.ndarray:
        return np.asarray((random.random((count, columns))[:, :, None] > sums).sum(axis=2).clip(0, 20))

    family = fresh(1)
    for _ in range(6):
        family = np.repeat(family, 2, axis=0)
        family = np.where(random.random(family.shape) < 0.15, fresh(len(family)), family)
    family = family[random.integers(0, len(family), n)]
    # Pairs of neighbouring columns mutate together.
    together = np.repeat(random.random((n, (columns + 1) // 2)) < 0.4, 2, axis=1)[:, :columns]
    return np.where(together, fresh(n), family)


def finished(command: list[str]) -> tuple[float, float]:
    """Processor seconds and megabytes of a command."""
    process = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)],
    )
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{command[0]} failed.")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def penalty(columns: int) -> tuple[float, float]:
    return proteins.Penalty(for_each_column_and_letter=0.01).strengths(columns, 21)


def child(path: Path, goal: float, precision: str) -> None:
    """Our fit, until the objective is ``goal``; the seconds of reading and starting are in those of the process."""
    seen = []

    def tell(state: ff.Progress) -> bool:
        seen.append(state.value)
        return bool(state.value <= goal)

    with use_threads(1):
        fitted = proteins.fit_family(
            proteins.read_alignment(path),
            identity=None,
            penalty="evcouplings",
            tol=1e-9,
            precision=precision,
            progress=tell,
        )
    path.with_suffix(".ours").write_text(f"{seen[-1]!r} {fitted.fit.evaluations}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plmc", type=Path, default=os.environ.get("PLMC"), help="double precision; default: $PLMC")
    parser.add_argument("--plmc32", type=Path, default=os.environ.get("PLMC32"), help="single; default: $PLMC32")
    parser.add_argument("--sequences", type=int, default=5000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--child", nargs=3, metavar=("FASTA", "GOAL", "PRECISION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child[0]), float(options.child[1]), options.child[2])
        return
    programs = {"double": options.plmc, "single": options.plmc32}
    if not any(programs.values()):
        raise SystemExit("Give the path of a plmc binary: --plmc path/to/plmc, or the environment variable PLMC.")
    n, columns = options.sequences, options.columns
    fields, couplings = penalty(columns)
    print(f"{n:,} sequences of {columns} columns, 21 letters, λ_h = {fields:g}, λ_J = {couplings:g}, one thread")
    with tempfile.TemporaryDirectory() as folder:
        fasta = Path(folder) / "x.fasta"
        lines = ["".join(LETTERS[code] for code in row) for row in alignment(n, columns)]
        fasta.write_text("".join(f">s{place}\n{line}\n" for place, line in enumerate(lines)))
        (Path(folder) / "weights.txt").write_text("1\n" * n)
        for precision, program in programs.items():
            if program is not None:
                race(program, precision, fasta, (fields, couplings))


def race(program: Path, precision: str, fasta: Path, strengths: tuple[float, float]) -> None:
    """One run of plmc until it stops, and one of ours to the same objective."""
    weights, parameters = fasta.with_name("weights.txt"), fasta.with_suffix(".params")
    settings = ["-w", str(weights), "-lh", f"{strengths[0]:g}", "-le", f"{strengths[1]:g}", "-n", "1", "-m", "1000"]
    began = time.perf_counter()
    theirs = finished([str(program), *settings, "-o", str(parameters), str(fasta)])
    seconds = [time.perf_counter() - began]
    goal = objective(fasta, parameters)
    began = time.perf_counter()
    ours = finished([sys.executable, __file__, "--child", str(fasta), repr(goal), precision])
    seconds.append(time.perf_counter() - began)
    value, evaluations = fasta.with_suffix(".ours").read_text().split()
    print(f"{precision} precision")
    print(f"  plmc: {theirs[0]:.1f} CPU s, {seconds[0]:.0f} s on the wall, {theirs[1]:.0f} MB, objective {goal:,.1f}")
    print(
        f"  fieldfit: {ours[0]:.1f} CPU s, {seconds[1]:.0f} s on the wall, {ours[1]:.0f} MB, objective "
        f"{float(value):,.1f}, {evaluations} evaluations, Python and imports included"
    )
    print(f"  CPU seconds: ratio {theirs[0] / ours[0]:.1f}; memory {ours[1] / theirs[1]:.2f} of plmc's", flush=True)


def objective(fasta: Path, parameters: Path) -> float:
    """Our objective at the parameters that plmc has written."""
    family, found = proteins.read_alignment(fasta), read_plmc(parameters)
    assert found.alphabet == family.alphabet == LETTERS
    model = ff.Potts(family.length, 21)
    selection = ff.Policy.parse("PL1").bind(model.structure()).draw(0, 0, family.n)
    with use_threads(1):
        value, _ = model.compile(model.read(family.codes), selection).value_grad(found.theta)
    fields, couplings = penalty(family.length)
    return fields * float(np.sum(found.fields**2)) + couplings * float(np.sum(found.couplings**2)) - value


if __name__ == "__main__":
    main()
