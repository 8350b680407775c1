"""Public names stay what they are, whatever was imported before them."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_submodule_does_not_hide_the_function_of_its_name():
    code = (
        "import numpy as np\nimport fieldfit as ff\nmodel = ff.BoltzmannMachine(3)\n"
        "x = model.sample(np.zeros(3), 50, 0).values\nfit = ff.fit(model, x, 'PL1')\n"
        "assert callable(ff.theory)\nassert ff.theory(model, fit.theta, 'FL').efficiency('trace') > 0.99\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
