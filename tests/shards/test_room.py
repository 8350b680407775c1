"""What stays in memory: measured after the libraries have taken what they need."""

import subprocess
import sys


def test_libraries_take_their_buffers_before_the_memory_is_measured():
    """SciPy's linear algebra stood still where it was loaded after shards had filled the memory."""
    code = """
import sys
from fieldfit.shards import room

def measured():
    loaded.append("scipy.linalg" in sys.modules)
    return left

for left in (1 << 20, 1 << 40):
    loaded = []
    room.memory_left = measured
    assert room.Measured().for_problems()
    assert loaded == ([False, False] if left == 1 << 20 else [False, True, True])
"""
    subprocess.run([sys.executable, "-c", code], check=True)
