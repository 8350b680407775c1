"""How many threads the kernels use. Results never depend on it: sums run over fixed chunks, reduced in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from fieldfit.types import FieldfitError

_chosen: int | None = None


def set_threads(count: int | None) -> None:
    """Set the number of threads of this process. Results never depend on it.

    Parameters
    ----------
    count : int or None
        Number of threads. None: the default, which is FIELDFIT_NUM_THREADS or the number of processors.

    Examples
    --------
    >>> import fieldfit as ff
    >>> ff.set_threads(2)
    >>> ff.set_threads(None)
    """
    global _chosen
    if count is not None and (int(count) != count or count < 1):
        raise FieldfitError(f"The number of threads must be a whole number of at least 1; got {count!r}.")
    _chosen = None if count is None else int(count)


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Use ``count`` threads inside the block (None: no change)."""
    before = _chosen
    if count is not None:
        set_threads(count)
    try:
        yield
    finally:
        set_threads(before)


#: Operations below which starting a second thread costs more than it brings.
_SMALL_WORK = 300_000


def get_threads(work: float = float("inf")) -> int:
    """The number of threads: `set_threads`, else FIELDFIT_NUM_THREADS, else the processors of this process.

    ``work`` is a rough number of operations: small work gets one thread.
    """
    if work < _SMALL_WORK:
        return 1
    if _chosen is not None:
        return _chosen
    text = os.environ.get("FIELDFIT_NUM_THREADS")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise FieldfitError(f"FIELDFIT_NUM_THREADS must be a whole number of at least 1; it is {text!r}.")
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _blas_pools(scipy_is_loaded: bool) -> Any:
    """The libraries that are there now; SciPy brings one of its own, which comes with its first import."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy's products use one thread.

    BLAS threads keep spinning for a while after a product, and two pools on the same processors take turns: even a dot
    product between two evaluations made each of them half as slow again. The libraries are looked up once without
    and once with SciPy, so that entering takes microseconds.
    """
    loaded = "scipy.linalg" in sys.modules
    limit: AbstractContextManager[Any] = _blas_pools(loaded).limit(limits=1, user_api="blas")
    return limit
