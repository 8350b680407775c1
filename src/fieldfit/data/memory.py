"""How much memory this process may use, and how much of it is left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from fieldfit.types import DataError, OutOfMemoryError
from fieldfit.words import counted

#: What the system says of this process and of the machine.
_PROCESS, _MACHINE = Path("/proc/self"), Path("/proc/meminfo")
#: Where the control groups of containers and jobs are: versions 2 and 1.
_GROUPS = Path("/sys/fs/cgroup")
#: Files of a control group with its limit and its use, and the entries of its ``memory.stat`` with pages of files, which
#: the system takes back where they are needed: versions 2 and 1.
_VERSION_2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


def memory_limit() -> int | None:
    """Bytes that this process may use: the machine's memory, or less where the process or its container has a limit."""
    return min((limit for limit, _ in _limits()), default=None)


def memory_left() -> int | None:
    """Bytes that this process may still take: the least that any limit leaves."""
    return min((max(limit - used, 0) for limit, used in _limits()), default=None)


def _limits() -> Iterator[tuple[int, int]]:
    """Each limit of memory in bytes, with what is used of it; 0 where that is not known."""
    for limit, used in (_of_machine(), *_of_process(), *_of_groups()):
        if limit > 0:  # −1 is none
            yield limit, used


def _of_machine() -> tuple[int, int]:
    """The machine's memory, and what is not available of it."""
    total = 0
    with contextlib.suppress(AttributeError, ValueError, OSError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        for line in _MACHINE.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return total, total - 1024 * int(line.split()[1])
    return total, 0


def _of_process() -> list[tuple[int, int]]:
    """The limits of this process (``ulimit -v`` and ``ulimit -d``): of its addresses, and of its data."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    addresses = data = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = [int(count) for count in (_PROCESS / "statm").read_text(encoding="ascii").split()]
        addresses, data = pages[0] * resource.getpagesize(), pages[5] * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_DATA)[0]
    return [(limits[0], addresses), (limits[1], data)]


def _of_groups() -> Iterator[tuple[int, int]]:
    """The limits of the control groups that this process is in, and of those that these are in."""
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROCESS / "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _upwards(_GROUPS, path, *_VERSION_2)
            elif "memory" in controllers.split(","):
                yield from _upwards(_GROUPS / "memory", path, *_VERSION_1)


def _upwards(root: Path, path: str, most: str, used: str, reclaimed: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """The limit and the use of a control group and of all above it; a container may see the last alone."""
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
            yield int((folder / most).read_text(encoding="ascii")), _in_use(folder, used, reclaimed)
        if folder == root:
            return


def _in_use(folder: Path, used: str, reclaimed: tuple[str, ...]) -> int:
    """The bytes that a control group uses, without pages of files."""
    with contextlib.suppress(OSError, ValueError):
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        pages = sum(int(stat[name]) for name in reclaimed if name in stat)
        return int((folder / used).read_text(encoding="ascii")) - pages
    return 0


@contextlib.contextmanager
def told_lack(advice: Callable[[], str]) -> Iterator[None]:
    """A sentence where memory runs out in the block; ``advice()`` is another one on what to do."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"There is not enough memory. {advice()}") from error


def beyond_memory(needed: int) -> str | None:
    """``at least 2,000 bytes, and there are 1,000 bytes of memory`` if ``needed`` bytes do not fit; None if they may."""
    memory = memory_limit()
    if memory is None or needed <= memory:
        return None
    return f"at least {needed:,} bytes, and there are {memory:,} bytes of memory"


def refuse_beyond_memory(needed: int, what: str, advice: str) -> None:
    """DataError if ``needed`` bytes do not fit; ``what`` takes them, and ``advice`` is a sentence on what to do."""
    if lacking := beyond_memory(needed):
        raise DataError(f"{what} takes {lacking}. {advice}")


def refuse_large_draws(n: int, m: int) -> None:
    """Refuse ``n`` draws of ``m`` variables, 32-bit codes, that do not fit."""
    refuse_beyond_memory(4 * n * m, f"Drawing {n:,} samples of {counted(m, 'variables')}", "Draw fewer at a time.")
