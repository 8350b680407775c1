"""Products run on one thread inside the context, also with a library that was loaded after its first use."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
from fieldfit.threads import one_blas_thread
with one_blas_thread():
    pass
import scipy.linalg
from threadpoolctl import threadpool_info
with one_blas_thread():
    print(max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"))
"""


@pytest.mark.slow
def test_a_library_that_comes_later_is_limited_too():
    two = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}  # also on a machine with one core
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=two)
    assert ran.stdout.strip() == "1"


@pytest.mark.slow
def test_a_context_inside_another_leaves_the_limit_to_the_outer_one():
    nested = """
from threadpoolctl import threadpool_info
from fieldfit.threads import one_blas_thread
import scipy.linalg
def most():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
print(most(), end=" ")
with one_blas_thread():
    with one_blas_thread():
        inside = most()
    print(inside, most(), end=" ")
print(most())
"""
    two = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    ran = subprocess.run([sys.executable, "-c", nested], capture_output=True, text=True, check=True, env=two)
    before, inside, between, after = map(int, ran.stdout.split())
    assert (inside, between, after) == (
        1,
        1,
        before,
    )  # before is 2, or 1 where the process may use one processor only
