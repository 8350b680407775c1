"""Worker processes end soon after the process that started them was killed, and leave nothing behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the processes of a session"),
]

HERE = Path(__file__).parent
#: Idle workers of joblib wait for five minutes.
PATIENCE = 60

SWEEP = f"""
import sys
sys.path.insert(0, {str(HERE / "sweep")!r})
import sweep_cells
from fieldfit.sweep import run_sweep
if __name__ == "__main__":
    run_sweep(sweep_cells.make("log", seconds=1.0, a=3, b=1), "s.sweep", n_jobs=3)
"""
BOOTSTRAP = """
import numpy as np
import fieldfit as ff
if __name__ == "__main__":
    model = ff.BoltzmannMachine(3)
    x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    ff.fit(model, x, "PL1").bootstrap(10**6, n_jobs=2, progress=lambda *_: open("log", "w").close())
"""


def session(number):
    """The processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, leader = path.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(leader) == number and state != "Z":
            found.append(int(path.name))
    return found


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("code", [SWEEP, BOOTSTRAP])
def test_workers_end_after_their_parent_was_killed(tmp_path, code):
    (tmp_path / "run.py").write_text(code)
    with open(tmp_path / "said", "w+") as said:
        process = subprocess.Popen(
            [sys.executable, "run.py"], cwd=tmp_path, start_new_session=True, stdout=said, stderr=said
        )
        try:
            wait_until((tmp_path / "log").exists, "the work to begin")
            assert process.poll() is None
            process.kill()
            process.wait()
            wait_until(lambda: not session(process.pid), "the workers to end")
        finally:
            for left in session(process.pid):
                os.kill(left, 9)
        said.seek(0)
        assert said.read() == ""
    own = [name for name in os.listdir("/dev/shm") if f"_{process.pid}_" in name or f"-{process.pid}-" in name]
    assert own == []
    if code is SWEEP:  # the cells that were running have been finished
        log = (tmp_path / "log").read_text()
        assert log.count("end") == log.count("start") > 0
