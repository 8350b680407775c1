"""The exception family, warnings and array types that every layer shares.

An error message is a sentence that says what was given, what was expected and what to do about it.
"""

from __future__ import annotations

# Every part of fieldfit imports this module: forks wait from then on, also for the import of NumPy.
import fieldfit.forks  # noqa: F401

# isort: split
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
SingleArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
#: An array of any type.
Array = NDArray[Any]
#: The arrays of a file by name, and values that JSON can represent by name: the two parts of what is saved.
Arrays = dict[str, Array]
Plain = dict[str, Any]


class FieldfitError(Exception):
    """Base of every error that fieldfit raises on purpose."""


class DataError(FieldfitError, ValueError):
    """The data cannot be read as samples of the model."""


class MissingDataError(DataError):
    """A data set of the catalogue is not on this machine."""


class ModelError(FieldfitError, ValueError):
    """The model is not well formed, or its parameters have the wrong shape."""


class PolicyError(FieldfitError, ValueError):
    """The policy's text, families, probabilities or weights are not valid."""


class WidthError(FieldfitError, ValueError):
    """An exact sum would need a table larger than the limit.

    ``rows`` are the samples concerned where missing values are the reason, else None.
    """

    def __init__(self, message: str, rows: IntArray | None = None) -> None:
        super().__init__(message)
        self.rows = rows


class IdentifiabilityError(FieldfitError, ValueError):
    """The selected components do not determine the parameters (Definition 3 of the paper)."""


class FileFormatError(FieldfitError, ValueError):
    """A file is truncated, damaged, hostile or of another format."""


class FileAccessError(FieldfitError, OSError):
    """A file cannot be opened, read or written: it is missing, the disk is full, or permission is denied."""


class ClusterError(FieldfitError, RuntimeError):
    """The cluster of a distributed fit is gone, or has no worker that answers."""


class OutOfMemoryError(FieldfitError, MemoryError):
    """The memory that this process may use does not suffice."""


class SweepError(FieldfitError, ValueError):
    """A sweep is not well formed, or a store belongs to another one."""


class FieldfitWarning(UserWarning):
    """Base of every warning of fieldfit."""


class ConvergenceWarning(FieldfitWarning):
    """The optimiser stopped before its criterion held."""


class SeparationWarning(FieldfitWarning):
    """The unpenalised optimum lies at infinity for the parameters named."""


class FewSamplesWarning(FieldfitWarning):
    """There are few samples for each parameter, so that p-values of large samples are too small."""


class StrongPenaltyWarning(FieldfitWarning):
    """A penalty is so strong that one step does not remove its shrinkage, and debiased intervals miss θ₀."""


class RunawayWarning(FieldfitWarning):
    """Simulated samples of the fitted model leave the data."""
