"""How much memory this process may use, and how large numbers and models may be."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fieldfit.types import ModelError, WidthError

#: Parameters, features and offsets are at most this large in size: products of two are finite, and sums of many of them.
LARGEST_NUMBER = 1e150
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


def refuse_parameters(count: int, model: str, bytes_of_parameter: int = 8) -> None:
    """Raise ModelError, before anything is allocated, if this many parameters of a model do not fit into memory."""
    needed, memory = bytes_of_parameter * count, memory_limit()
    if needed > (1 << 47 if memory is None else memory):
        available = "" if memory is None else f", and there are {memory:,} bytes of memory"
        raise ModelError(
            f"{model} has {count:,} parameters, which take at least {needed:,} bytes before any fit{available}. Use fewer "
            f"states, or factors with fewer variables."
        )


def refuse_tables(entries: int) -> None:
    """Raise WidthError, before anything is allocated, if the log tables of all factors do not fit into memory."""
    needed, memory = 8 * entries, memory_limit()
    if memory is not None and needed > memory:
        raise WidthError(
            f"The tables of all factors take {needed:,} bytes, and there are {memory:,} bytes of memory. Use fewer states."
        )
