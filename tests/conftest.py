"""Put the tests' own modules (oracle.py) on the path, set and keep the number of threads, and let Ctrl-C through.

A runner that starts the tests in the background has them ignore interrupts, and every child would inherit that.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # one thread a worker; what depends on threads is tested with a number of them
    for library in ("FIELDFIT", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import fieldfit

sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    fieldfit.set_threads(None)
