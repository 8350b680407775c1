"""Fixed rates in place of a calibration: nothing in these tests depends on the machine."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.planner import calibration as calibrating

RATES = {
    "call": 6e-5, "field_call": 8e-5, "panel": 1e-10, "dense": 1.4e-10, "edge": 1.2e-9, "single": 1e-9,
    "entry1": 1e-8, "entry2": 2e-8, "entry3": 3e-8, "entry4": 6e-8, "flip2": 4e-10, "flip3": 1.5e-9, "flip4": 1.6e-9,
    "eliminate": 1e-8, "configuration": 1e-8, "table": 1e-7, "setup_block": 5e-8, "setup_call": 5e-4,
    "setup_component": 5e-4, "setup_configuration": 6e-6, "setup_entry": 2e-7, "setup_pack": 7e-9, "setup_pair": 3e-7,
    "seconds": 1.0, "setup_seconds": 1.0,
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
