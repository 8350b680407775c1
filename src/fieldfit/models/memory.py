"""How large numbers and models may be."""

from __future__ import annotations

from fieldfit.data.memory import memory_limit
from fieldfit.types import ModelError, WidthError

#: Parameters, features and offsets are at most this large in size: products of two are finite, and sums of many of them.
LARGEST_NUMBER = 1e150


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
