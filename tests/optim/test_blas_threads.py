"""Products run on one thread inside the context, also with a library that was loaded after its first use."""

import os
import subprocess
import sys

SCRIPT = """
from fieldfit.threads import one_blas_thread
with one_blas_thread():
    pass
import scipy.linalg
from threadpoolctl import threadpool_info
with one_blas_thread():
    print(max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"))
"""


def test_a_library_that_comes_later_is_limited_too():
    two = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}  # also on a machine with one core
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=two)
    assert ran.stdout.strip() == "1"
