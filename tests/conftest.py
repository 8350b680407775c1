"""Put the tests' own modules (oracle.py) on the path, keep the number of threads, and let Ctrl-C through.

A runner that starts the tests in the background has them ignore interrupts, and every child would inherit that.
"""

import signal
import sys
from pathlib import Path

import pytest

import fieldfit

sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    fieldfit.set_threads(None)
