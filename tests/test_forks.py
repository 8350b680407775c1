"""Forks while other threads import for fieldfit: the new process finds no module locked."""

import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

# The alarm ends processes that wait for a lock. `fieldfit.value` is imported from a module of the test.
BEGIN = """
import os, signal, sys, threading
import fieldfit
from fieldfit import forks
sys.path.insert(0, sys.argv[1])
signal.alarm(40)
forks._LONGEST_WAIT = 1000.0
fieldfit._HOMES["value"] = "late"

def end(child):
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
"""

WHILE_ANOTHER_THREAD_IMPORTS = """
fieldfit.begun = threading.Event()
thread = threading.Thread(target=lambda: fieldfit.value)
thread.start()
fieldfit.begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(fieldfit.value)
end(child)
"""

LATE = """
import logging, time
import fieldfit
fieldfit.begun.set()
time.sleep(0.05)
logging.getLogger("late")  # its lock is also taken before a fork
value = 7
"""

FROM_AN_IMPORT = """
import late
"""

FORKS = """
import os, sys, threading, time
import fieldfit

def waits():
    frame = sys._current_frames().get(thread.ident)
    return frame is not None and frame.f_code.co_name == "acquire"

thread = threading.Thread(target=lambda: fieldfit.value, daemon=True)
thread.start()
while not waits():
    time.sleep(0.001)
child = os.fork()
if not child:
    os._exit(7)
sys.modules["__main__"].end(child)
"""


@pytest.mark.parametrize(
    ("program", "late"), [(WHILE_ANOTHER_THREAD_IMPORTS, LATE), (FROM_AN_IMPORT, FORKS)], ids=["another", "own"]
)
def test_a_fork_waits_for_imports_of_other_threads_unless_they_wait_for_it(tmp_path, program, late):
    (tmp_path / "late.py").write_text(late)
    code = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + program, str(tmp_path)]
    ran = subprocess.run(code, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (7, "")


@pytest.mark.slow
def test_a_process_forked_during_the_first_fit_of_another_thread_fits():
    code = """
import os, signal, sys, threading, time
import fieldfit
import numpy as np

def fit():
    return fieldfit.fit(fieldfit.BoltzmannMachine(3), np.eye(3, dtype=int), "PL1 >> optimal", sigma2=1.0).theta.tobytes()

thread = threading.Thread(target=fit)
thread.start()
children = []
while thread.is_alive() and len(children) < 4:
    time.sleep(0.05)
    children.append(os.fork())
    if not children[-1]:
        signal.alarm(60)
        fit()
        os._exit(7)
thread.join()
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7 for child in children))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


USERS_IMPORT = """
import os, signal, sys, threading, time
import fieldfit
signal.alarm(40)

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            begun.set()
            time.sleep(0.3)

begun = threading.Event()
sys.meta_path.insert(0, Slow())

def use():
    from fieldfit import threads

thread = threading.Thread(target=use)
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    from fieldfit.types import Array
    os._exit(7)
_, status = os.waitpid(child, 0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("slow", ["numpy", "numpy.typing"])
def test_a_fork_waits_from_the_first_import_of_a_part_of_fieldfit(slow):
    """The thread asks for a module of fieldfit by its name, not for a name in `fieldfit`."""
    code = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", USERS_IMPORT, slow]
    ran = subprocess.run(code, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (7, "")


def test_forks_wait_from_the_import_where_there_may_be_threads():
    """The command line has no threads when it starts; it must handle Ctrl-C as soon as it can."""
    for before, waits in (("", False), ("import threading; ", True)):
        code = f"{before}import sys, fieldfit; sys.exit('fieldfit.forks' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == waits


def test_the_body_of_a_module_of_fieldfit_is_inside_an_import():
    """A user's thread imports a module of fieldfit, which imports nothing at this moment."""
    from fieldfit.forks import _imports_for_fieldfit

    for name, inside in (("fieldfit.networks", True), ("networks", False)):
        code = compile("import sys\nframe = sys._getframe()", "body.py", "exec")
        body: dict[str, Any] = {"__name__": name}
        exec(code, body)
        assert _imports_for_fieldfit(body["frame"]) == inside


def test_an_interrupt_does_not_end_the_wait():
    """Python forgets what is raised before a fork and forks all the same; the new process must not find a lock."""
    program = USERS_IMPORT.replace("time.sleep(0.3)", "time.sleep(1.0)").replace(
        "child = os.fork()", "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\nchild = os.fork()"
    )
    code = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, "numpy.typing"]
    ran = subprocess.run(code, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 7, ran.stderr


def test_first_uses_in_two_threads_do_not_find_half_of_numpy():
    """One thread begins with ``numpy.typing``, which is slow here, and another one with NumPy itself."""
    code = """
import sys, threading, time
import fieldfit

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy._typing":
            begun.set()
            time.sleep(0.3)

def use(name):
    getattr(fieldfit, name)
    used.append(name)

begun, used = threading.Event(), []
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=use, args=("fit",))
first.start()
begun.wait()
use("BoltzmannMachine")
first.join()
sys.exit(len(used))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (2, "")
