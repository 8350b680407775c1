"""How much memory this process may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fieldfit.types import DataError
from fieldfit.words import counted

#: Files with the memory limit of a container (control groups, versions 2 and 1).
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_limit() -> int | None:
    """Bytes that this process may use: the machine's memory, or less where the process or its container has a limit."""
    limits = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ImportError):
        import resource  # not on Windows

        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    for path in _CONTAINER_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" where there is none
            limits.append(int(path.read_text(encoding="ascii")))
    return min((limit for limit in limits if limit > 0), default=None)


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
