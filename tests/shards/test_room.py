"""What stays in memory: measured after the libraries have taken what they need."""

import subprocess
import sys


def test_libraries_take_their_buffers_before_the_memory_is_measured():
    """SciPy's linear algebra stood still where it was loaded after shards had filled the memory."""
    code = """
import sys
from fieldfit.shards import room

def measured():
    assert "scipy.linalg" in sys.modules
    return 100

room.memory_left = measured
assert room.Measured().for_problems()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
