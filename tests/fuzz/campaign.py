"""Many cases of one target; in a file of its own, so that processes of `python -m tests.fuzz` can import it."""

import gc
import os
import sys
import tempfile
import time
import traceback

import fieldfit
from tests.fuzz.targets import SEEDS, beginnings, run_case

#: Files in memory, where the system has them.
_MEMORY = "/dev/shm"


def fuzz(name, first, cases, seconds):
    """The number of cases of a target that failed, and what to say of them all."""
    if os.access(_MEMORY, os.W_OK):
        tempfile.tempdir = _MEMORY  # stores wait for the disk otherwise
    fieldfit.set_threads(1)  # the cases are small: a second thread only waits
    target = next(target for target in SEEDS if target.__name__ == name)
    seeds, refused, wrong = beginnings(target), 0, 0
    gc.collect()
    gc.freeze()  # imported modules and seeds stay: there is nothing to collect among them
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
