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
from fieldfit.models.base import Model

sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def holds_model(value, depth=3):
    """Whether a parameter is a model or has one inside: in a container or an attribute, up to this depth."""
    if isinstance(value, Model):
        return True
    if depth == 0 or isinstance(value, type):
        return False
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(holds_model(part, depth - 1) for part in (*inside, *getattr(value, "__dict__", {}).values()))


def pytest_collection_modifyitems(items):
    """Marks hold names, not models: pytest keeps marks until the interpreter ends, and compiled sums with them."""
    for item in items:
        for name, value in (item.callspec.params if hasattr(item, "callspec") else {}).items():
            if holds_model(value):
                raise pytest.UsageError(f"{item.nodeid}: the parameter {name!r} has a model; give its name instead.")


@pytest.fixture(autouse=True)
def default_threads():
    yield
    fieldfit.set_threads(None)
