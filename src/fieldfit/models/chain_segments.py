"""Where the selected windows of a family lie: the list behind counts, signatures and drawn factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import instance_of, whole_numbers
from fieldfit.types import DataError, IntArray

if TYPE_CHECKING:
    from fieldfit.models.chain_problem import Windows


class Segments:
    """The selected windows of one family. `fieldfit.chains.selected_windows` returns them.

    Parameters
    ----------
    offsets : ndarray of shape (n_sequences + 1,)
        The tokens of each sequence.
    family : Windows
        The drawn family.

    Attributes
    ----------
    rows : ndarray of int
        The sequence of each window.
    first : ndarray of int
        Its first token, counted over all sequences.
    width : ndarray of int
        Its number of tokens.
    has_left, has_right : ndarray of bool
        Whether a label stands beside it.

    Examples
    --------
    >>> from fieldfit import chains
    >>> data = chains.Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
    >>> (windows,) = chains.selected_windows(data, "PL1")
    >>> windows.first.tolist(), windows.has_left.tolist()
    ([0, 1, 2], [False, True, False])
    """

    def __init__(self, offsets: IntArray, family: Windows) -> None:
        from fieldfit.models.chain_problem import Windows  # which imports this module

        instance_of(family, Windows, "Segments are those of drawn Windows")
        offsets = whole_numbers(offsets, "offsets")
        if offsets.ndim != 1:
            raise DataError(f"offsets has the shape {offsets.shape}; it must be a list of numbers.")
        lengths = np.diff(offsets)
        if family.indptr is not None and family.indices is not None:
            self.rows = np.repeat(np.arange(len(lengths)), np.diff(family.indptr))
            start = family.indices
        else:
            windows = np.minimum(lengths, 1)
            if family.width > 0:
                windows = np.where(lengths > family.width, lengths - family.width + 1, windows)
            if family.rows is not None:
                windows = np.where(family.rows > 0, windows, 0)
            self.rows = np.repeat(np.arange(len(lengths)), windows)
            ends = np.cumsum(windows)
            start = np.arange(len(self.rows)) - np.repeat(ends - windows, windows)
        length = lengths[self.rows]
        self.width = length if family.width == 0 else np.minimum(family.width, length)
        self.first = offsets[self.rows] + start
        self.has_left = start > 0
        self.has_right = start + self.width < length
