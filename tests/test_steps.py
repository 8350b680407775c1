"""Counted steps: what is shown, when, and where."""

import io
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pytest

import fieldfit as ff
from fieldfit import steps


class Terminal(io.StringIO):
    """A stream that keeps what is written, and says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when told to. Commands with --json that ran before in this process switched progress off."""
    ff.show_progress(None)
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    yield now
    ff.show_progress(None)


def _shown(monkeypatch, clock, seconds, terminal=True):
    """What four steps of so many seconds write on stderr."""
    stream = Terminal() if terminal else io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with steps.steps("standard errors", 4) as step:
            for _ in range(4):
                clock[0] += seconds
                with steps.steps("inner", 1) as inner:
                    inner()
                step()
    return stream.getvalue()


def test_the_time_left_is_that_of_the_pace(clock, monkeypatch):
    text = _shown(monkeypatch, clock, 3.0)
    assert "standard errors: 1 of 4, about 9 s left" in text
    assert "standard errors: 3 of 4, about 3 s left" in text
    assert "inner" not in text
    assert text.endswith("\r\x1b[K")


def _failing():
    with steps.stepped("abandoned", [1, 2]) as counted:
        for _ in counted:
            raise ValueError


def test_steps_that_an_exception_left_do_not_silence_later_ones(clock, monkeypatch):
    """A notebook keeps the last traceback, with the frames of the loop in it."""
    with pytest.raises(ValueError) as held:
        _failing()
    assert "standard errors: 1 of 4" in _shown(monkeypatch, clock, 3.0)
    assert held.tb is not None


def test_the_first_of_many_steps_does_not_count_for_the_time_left(clock, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with steps.steps("goodness of fit", 100) as step:
        for seconds in (20.0, 1.0, 1.0):
            clock[0] += seconds
            step()
    assert "\rgoodness of fit: 1 of 100\x1b" in stream.getvalue()  # loading and compiling
    assert "goodness of fit: 3 of 100, about 97 s left" in stream.getvalue()


def _all_of(terminal: int) -> str:
    """All that was written to a terminal whose other end is closed; it may come in parts."""
    parts = []
    with suppress(OSError):  # the end, on Linux
        while part := os.read(terminal, 10_000):
            parts.append(part)
    return b"".join(parts).decode()


def test_work_without_steps_shows_the_seconds_that_have_passed():
    """On a real terminal, from another thread."""
    pty = pytest.importorskip("pty", reason="terminals of Unix")
    code = (
        "import time; from fieldfit import steps; steps._PATIENCE = 0.05\n"
        "with steps.waiting('plan'), steps.waiting('inner'): time.sleep(0.3)\n"
        "print('end')"
    )
    leader, follower = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=follower) as process:
        assert process.stdout.read() == b"end\n"
    os.close(follower)
    text = _all_of(leader)
    assert text.startswith("\rplan: 0 s\x1b[K")
    assert "inner" not in text
    assert text.endswith("\r\x1b[K")


def test_short_work_shows_nothing(clock, monkeypatch):
    assert _shown(monkeypatch, clock, 0.3) == ""


def test_nothing_without_a_terminal_unless_asked(clock, monkeypatch):
    assert _shown(monkeypatch, clock, 3.0, terminal=False) == ""
    ff.show_progress(True)
    assert "2 of 4" in _shown(monkeypatch, clock, 3.0, terminal=False)


def test_switched_off(clock, monkeypatch):
    ff.show_progress(False)
    assert _shown(monkeypatch, clock, 3.0) == ""


def test_a_notebook_shows_a_bar(clock, monkeypatch):
    shown = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, html):
            shown.append(html)

    class Module:
        HTML = str

        @staticmethod
        def get_ipython():
            return ZMQInteractiveShell()

        @staticmethod
        def display(html, display_id):
            return Handle()

    monkeypatch.setitem(sys.modules, "IPython", Module)
    monkeypatch.setitem(sys.modules, "IPython.display", Module)
    _shown(monkeypatch, clock, 3.0)
    assert shown[0] == '<progress value="0.250" max="1"></progress> standard errors: 1 of 4, about 9 s left'
    assert shown[-1] == ""


def _spoken(monkeypatch, clock, work):
    """What a piece of the library's own work shows, with a clock that moves by a second at each reading."""
    stream = Terminal()

    def later():
        clock[0] += 1.0
        return clock[0]

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setattr(time, "perf_counter", later)
        work()
    return stream.getvalue()


MODEL = ff.BoltzmannMachine(4)
X = MODEL.sample([0.5, -0.5, 0.2, 0.1, 0.3, -0.2], 60, random_state=0).values


def test_fits_tests_and_checks_show_theirs(clock, monkeypatch):
    fit = ff.fit(MODEL, X, "PL1")
    assert "fit: iteration" in _spoken(monkeypatch, clock, lambda: ff.fit(MODEL, X, "PL1"))
    assert "bootstrap: 5 of 9" in _spoken(monkeypatch, clock, lambda: fit.bootstrap(9))
    assert "goodness of fit: 5 of 9" in _spoken(monkeypatch, clock, lambda: fit.goodness_of_fit(n_simulated=9))
    assert "bootstrap test: 5 of 9" in _spoken(monkeypatch, clock, lambda: fit.bootstrap_test("x0:x1", n_simulated=9))
    folds = _spoken(monkeypatch, clock, lambda: ff.cross_validate(MODEL, X, "PL1", folds=4))
    assert "cross-validation of PL1: 4 of 4" in folds


@pytest.mark.slow
def test_theory_and_plans_show_theirs(clock, monkeypatch):
    wide = ff.BoltzmannMachine.grid(5, 5)
    theta = 0.1 * np.ones(wide.n_parameters)
    text = _spoken(monkeypatch, clock, lambda: ff.theory(wide, theta, "PL1", n_simulated=200))
    assert "theory: 5 of " in text
    many = ff.BoltzmannMachine.grid(13, 1)  # 8,192 states
    assert "theory: 5 of 8" in _spoken(monkeypatch, clock, lambda: ff.theory(many, np.ones(12), "PL1"))
    monkeypatch.setattr(steps, "_on_terminal", lambda: False)  # as in a notebook, without a thread
    for budget in ({}, {"flops": 1e9}, {"budget": "5s"}):
        text = _spoken(monkeypatch, clock, partial(ff.plan, MODEL, X, **budget))
        assert re.search(r"plan: [\d,]+ s, (about [\d,]+ s left|longer than expected)", text), budget


@pytest.mark.slow
def test_model_based_errors_show_theirs(clock, monkeypatch):
    wide = ff.BoltzmannMachine.grid(5, 5)
    fit = ff.fit(wide, wide.sample(0.1 * np.ones(wide.n_parameters), 5000, random_state=0).values, "PL1")
    assert "standard errors: 4 of 4" in _spoken(monkeypatch, clock, lambda: fit.standard_errors("model"))


def test_a_forecast_counts_down_and_does_not_jump(clock, monkeypatch):
    busy = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: busy[0])
    work = steps.Forecast("plan")
    assert str(work) == "plan: 0 s"
    clock[0], busy[0] = 4.0, 2.0  # another program takes half of the processor
    work.expect(5.0)
    assert str(work) == "plan: 4 s, about 10 s left"
    clock[0], busy[0] = 8.0, 4.0
    assert str(work) == "plan: 8 s, about 6 s left"
    work.expect(8.0)  # 16 s by the clock: the end moves half the way
    assert str(work) == "plan: 8 s, about 11 s left"
    clock[0] = 30.0
    assert str(work) == "plan: 30 s, longer than expected"


def test_steps_inside_a_forecast_are_not_shown(clock, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with steps.forecast("plan"):
        assert _shown(monkeypatch, clock, 3.0) == ""
    assert "standard errors" not in stream.getvalue()
    assert "standard errors: 1 of 4" in _shown(monkeypatch, clock, 3.0)


def test_a_forecast_is_shown_in_a_notebook(clock, monkeypatch):
    class Kept:
        def __init__(self) -> None:
            self.texts: list[tuple[str, float]] = []

        def show(self, text: str, share: float) -> None:
            self.texts.append((text, share))

        def close(self) -> None:
            self.texts.append(("", 0.0))

    kept = Kept()
    monkeypatch.setattr(steps, "find_display", lambda: kept)
    with steps.forecast("plan"):
        steps.expect(1.0)
        clock[0] = 3.0
        steps.expect(5.0)
        clock[0] = 4.0
        with steps.steps("moments", 2) as step:
            step()
    assert kept.texts[0][0] == "plan: 3 s, about 2 s left"
    assert kept.texts[0][1] == pytest.approx(3 / 4.5)
    assert kept.texts[1][0] == "plan: 4 s, about 0 s left"
    assert kept.texts[-1] == ("", 0.0)
    steps.expect(1.0)  # outside of a forecast it does nothing


def test_forecasts_of_two_threads_end_in_any_order(monkeypatch):
    together = threading.Barrier(2, timeout=20)

    @contextmanager
    def both(title):
        together.wait()  # both threads have found no other forecast
        yield

    def work(number):
        with steps.forecast("plan"):
            together.wait()
            steps.expect(1.0)
            if number == 1:
                ended.wait(20)
            steps.expect(1.0)
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(steps, "waiting", both)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    assert steps._forecast is None
