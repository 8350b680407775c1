"""Properties that are computed once: one value for all threads, and no lock that a forked process could wait for."""

import copy
import os
import pickle
import signal
import threading
from dataclasses import FrozenInstanceError, dataclass
from typing import assert_type

import pytest

from fieldfit.properties import cached_property, state_without


@dataclass(frozen=True)
class Square:
    side: int

    @cached_property
    def cells(self) -> list[int]:
        """One for each cell."""
        return [0] * self.side**2

    @cached_property
    def by_name(self) -> dict[object, object]:
        """Filled later."""
        return {}

    @cached_property
    def count(self) -> int:
        """How many cells."""
        return len(self.cells)


class Doubled(Square):
    @cached_property
    def count(self) -> int:
        return 2 * super().count


class Plain(Square):
    @property
    def cells(self) -> list[int]:
        return super().cells


class WithSlots(Square):
    __slots__ = ("extra", "more")
    extra: int
    more: int


class Partly(Square):
    def __getstate__(self):
        return state_without(self, "count")


class Empty:
    @cached_property
    def value(self) -> int:
        return 1


def test_a_value_is_computed_once_and_belongs_to_its_object():
    one, other = Square(2), Square(3)
    assert_type(one.cells, list[int])
    assert one.cells is one.cells
    assert one.__dict__["cells"] is one.cells
    assert (one.count, other.count) == (4, 9)
    assert one == Square(2)
    with pytest.raises(FrozenInstanceError):
        one.side = 5  # type: ignore[misc]


def test_the_class_has_the_property_with_its_documentation():
    assert isinstance(Square.cells, cached_property)
    assert Square.cells.__doc__ == "One for each cell."


def test_copies_and_pickles_have_the_value():
    square = Square(2)
    cells = square.cells
    assert copy.copy(square).cells is cells
    loaded = pickle.loads(pickle.dumps(square))
    assert loaded.__dict__["cells"] == cells
    assert loaded.count == 4


def test_a_subclass_may_use_the_value_of_its_base():
    doubled, plain = Doubled(3), Plain(3)
    assert (doubled.count, doubled.count) == (18, 18)
    assert plain.cells is plain.cells


def test_an_exception_stores_nothing():
    class Once:
        calls = 0

        @cached_property
        def value(self):
            self.calls += 1
            if self.calls == 1:
                raise ValueError("first")
            return self.calls

    once = Once()
    with pytest.raises(ValueError, match="first"):
        _ = once.value
    assert (once.value, once.value) == (2, 2)


def test_threads_do_not_wait_for_each_other_and_see_one_value():
    """All of them are inside the computation at the same time: with a lock the barrier breaks."""
    inside = threading.Barrier(3, timeout=60)

    class Shared:
        @cached_property
        def value(self):
            inside.wait()
            return object()

    shared, seen = Shared(), []
    threads = [threading.Thread(target=lambda: seen.append(shared.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3
    assert set(seen) == {shared.value}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_during_the_computation_of_another_thread_computes_its_own():
    begun, end = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self):
            begun.set()
            end.wait()
            return 7

    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    begun.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)  # a process that waits for the lock ends by it
        end.set()
        os._exit(slow.value)
    _, status = os.waitpid(child, 0)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7


def test_the_state_does_not_grow_while_it_is_copied_or_pickled():
    """A value that another thread stores meanwhile: here the copy of one attribute stores it."""

    class Part:
        def __init__(self, whole: Square) -> None:
            self.whole = whole

        def __reduce__(self):
            _ = self.whole.cells
            self.whole.by_name[self] = None
            return int, ()

    for kind in (Square, Doubled, WithSlots, Partly):
        for copied in (copy.deepcopy, pickle.dumps):
            square = kind(2)
            square.__dict__["part"] = part = Part(square)
            square.by_name["part"] = part
            copied(square)
            assert "cells" in square.__dict__
            assert part in square.by_name


def test_slots_and_states_of_their_own_are_kept():
    slots = WithSlots(2)
    slots.extra, slots.more = 5, 6
    loaded = pickle.loads(pickle.dumps(slots))
    assert (loaded.extra, loaded.more, loaded.side) == (5, 6, 2)
    partly = Partly(2)
    assert partly.count == 4
    assert set(pickle.loads(pickle.dumps(partly)).__dict__) == {"side", "cells"}
    assert pickle.loads(pickle.dumps(Empty())).value == 1
