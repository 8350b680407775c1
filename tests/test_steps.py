"""Counted steps: what is shown, when, and where."""

import io
import sys
import time

import pytest

import fieldfit as ff
from fieldfit import steps


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when told to."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    yield now
    ff.show_progress(None)


def _shown(monkeypatch, clock, seconds, terminal=True):
    """What four steps of so many seconds write on stderr."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
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
