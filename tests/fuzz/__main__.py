"""Fuzz every reader: python -m tests.fuzz [--cases 1000000] [--seconds S] [--first 0] [--target NAME] [--jobs N].

Exits with 1 if a case failed.
"""

import argparse
import math
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.fuzz.campaign import fuzz
from tests.fuzz.targets import SEEDS


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


if __name__ == "__main__":
    sys.exit(main())
