"""Fuzz every reader: python -m tests.fuzz [--cases 1000000] [--seconds S] [--first 0] [--target NAME].

Exits with 1 if a case failed.
"""

import argparse
import math
import os
import sys
import tempfile
import time
import traceback

from tests.fuzz.targets import SEEDS, beginnings, run_case

#: Files in memory, where the system has them.
_MEMORY = "/dev/shm"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="cases of each target")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for each target, at most")
    parser.add_argument("--first", type=int, default=0, help="number of the first case: cases are repeatable")
    parser.add_argument("--target", choices=[target.__name__ for target in SEEDS], help="only this target")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    options = parser.parse_args()
    if options.list:
        print("\n".join(target.__name__ for target in SEEDS))
        return 0
    if os.access(_MEMORY, os.W_OK):
        tempfile.tempdir = _MEMORY  # stores wait for the disk otherwise
    failed = 0
    for target in SEEDS:
        if options.target not in (None, target.__name__):
            continue
        seeds, refused, wrong, began = beginnings(target), 0, 0, time.perf_counter()
        number = options.first
        while number < options.first + options.cases and time.perf_counter() - began < options.seconds:
            try:
                refused += run_case(target, seeds, number)
            except Exception as error:
                wrong += 1
                if wrong <= 5:
                    print(f"{target.__name__} case {number}: {type(error).__name__}: {error}", file=sys.stderr)
                    traceback.print_exc(limit=-3)
            number += 1
        seconds = time.perf_counter() - began
        print(
            f"{target.__name__}: {number - options.first:,} cases, {refused:,} refused, {wrong:,} failed, {seconds:.0f} s",
            flush=True,
        )
        failed += wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
