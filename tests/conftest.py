"""Put the tests' own modules (oracle.py) on the path, and keep the number of threads as it was."""

import sys
from pathlib import Path

import pytest

import fieldfit

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def default_threads():
    yield
    fieldfit.set_threads(None)
