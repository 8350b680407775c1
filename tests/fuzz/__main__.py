"""Fuzz every reader: python -m tests.fuzz [--cases 1000000] [--seconds S] [--first 0] [--target NAME] [--jobs N].

Exits with 1 if a case failed.
"""

import argparse
import math
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

import fieldfit
from tests.fuzz.targets import SEEDS, beginnings, run_case

#: Files in memory, where the system has them.
_MEMORY = "/dev/shm"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="cases of each target")
    parser.add_argument("--seconds", type=float, default=math.inf, help="processor time for each target, at most")
    parser.add_argument("--first", type=int, default=0, help="number of the first case: cases are repeatable")
    parser.add_argument("--target", choices=[target.__name__ for target in SEEDS], help="only this target")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with a target of its own")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    options = parser.parse_args()
    if options.list:
        print("\n".join(target.__name__ for target in SEEDS))
        return 0
    chosen = [target.__name__ for target in SEEDS if options.target in (None, target.__name__)]
    failed = 0
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as workers:
        limits = (options.first, options.cases, options.seconds)
        for wrong, text in workers.map(fuzz, chosen, *([limit] * len(chosen) for limit in limits)):
            print(text, flush=True)
            failed += wrong
    return 1 if failed else 0


def fuzz(name, first, cases, seconds):
    """The number of cases of a target that failed, and what to say of them all."""
    if os.access(_MEMORY, os.W_OK):
        tempfile.tempdir = _MEMORY  # stores wait for the disk otherwise
    fieldfit.set_threads(1)  # the cases are small: a second thread only waits
    target = next(target for target in SEEDS if target.__name__ == name)
    seeds, refused, wrong = beginnings(target), 0, 0
    began, number = time.process_time(), first
    while number < first + cases and time.process_time() - began < seconds:
        try:
            refused += run_case(target, seeds, number)
        except Exception as error:
            wrong += 1
            if wrong <= 5:
                print(f"{name} case {number}: {type(error).__name__}: {error}", file=sys.stderr)
                traceback.print_exc(limit=-3)
        number += 1
    spent = time.process_time() - began
    return wrong, f"{name}: {number - first:,} cases, {refused:,} refused, {wrong:,} failed, {spent:.0f} CPU s"


if __name__ == "__main__":
    sys.exit(main())
