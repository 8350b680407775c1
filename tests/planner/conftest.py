"""Fixed rates in place of a calibration: nothing in these tests depends on the machine."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.planner import calibration as calibrating

RATES = {
    "call": 1e-5, "field_call": 8e-5, "panel": 2e-9, "dense": 4e-11, "edge": 6e-10, "single": 4e-9, "sums": 1.5e-9,
    "entry1": 5e-9, "entry2": 1.7e-8, "entry3": 4e-8, "entry4": 7e-8, "flip2": 3e-10, "flip3": 1.4e-9, "flip4": 1.3e-9,
    "expand": 5e-9, "transpose": 8e-9, "scattered": 1e-8, "eliminate1": 2e-9, "eliminate8": 2e-9, "configuration": 1e-8,
    "table": 1e-8, "setup_block": 7e-8, "setup_call": 4e-4, "setup_field_call": 1e-3, "setup_program": 3e-4,
    "setup_factor": 3e-5, "setup_map": 2e-8, "setup_configuration": 3e-6, "setup_entry": 5e-8, "setup_search": 8e-9,
    "setup_shuffle": 4e-8, "setup_merge": 5e-8, "setup_pack": 7e-9, "setup_sort": 4e-9, "setup_edge": 3e-8,
    "setup_sample": 2e-7, "setup_pair": 7e-8, "setup_draw": 2e-7, "seconds": 1.0, "setup_seconds": 1.0,
    "fit": 1.5e-3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def fixed_rates(request, monkeypatch, tmp_path):
    monkeypatch.setenv("FIELDFIT_CACHE", str(tmp_path / "cache"))
    if "measured" not in request.keywords.get("usefixtures", ()) and "measured" not in request.fixturenames:
        known = calibrating.Calibration(RATES, 0.1, "fixed")
        monkeypatch.setattr(calibrating, "_KNOWN", {calibrating._key(): known})
    else:
        monkeypatch.setattr(calibrating, "_KNOWN", {})


@pytest.fixture
def measured():
    """Ask for a real calibration."""


@pytest.fixture(scope="session")
def five():
    """The paper's five-node machine with 3,000 samples."""
    model = ff.BoltzmannMachine(5)
    theta = np.repeat([-1.0, 1.0], 5)
    return model, theta, model.sample(theta, 3000, random_state=1).values
