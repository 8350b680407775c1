"""Predicted contacts against a structure: distances of pairs of columns, and the precision of the top pairs."""

from __future__ import annotations

import os
import re

import numpy as np

from fieldfit.arguments import file_path, has_entries, number_from_zero, numbers_of, whole_number
from fieldfit.callers import warn_caller
from fieldfit.proteins.couplings import checked_pairs
from fieldfit.types import DataError, FieldfitWarning, FileFormatError, FloatArray, IntArray

#: No atoms of two residues are closer than this, in Å: the shortest bond between residues has 1.3.
_NEAREST = 1.0


def read_distances(path: str | os.PathLike[str], length: int) -> FloatArray:
    r"""Read distances of pairs of columns from a CSV file of column, column, distance.

    Parameters
    ----------
    path : str or path
        The file, with distances in Å, empty if unknown. Columns count from 0. The first line may have names.
    length : int
        Number of columns of the alignment.

    Returns
    -------
    ndarray of shape (length, length)
        Symmetric, NaN where unknown.

    Raises
    ------
    DataError
        If a line names a column that the alignment does not have, if a distance is not positive, if a pair has two
        distances, or if a distance is below 1 Å.
    FileFormatError
        If a line does not have two integers and a number.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import proteins
    >>> size = Path("distances.csv").write_text("i,j,distance\n0,2,5.5\n")
    >>> proteins.read_distances("distances.csv", 3)
    array([[nan, nan, 5.5],
           [nan, nan, nan],
           [5.5, nan, nan]])
    """
    from fieldfit.data.textfile import read_text

    shown = file_path(path)
    length = whole_number(length, "length", 1, 10**5)
    matrix = np.full((length, length), np.nan)
    smallest = length
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line or line.isspace():
            continue
        cells = [cell.strip() for cell in re.split("[,;\t]", line)]
        if number == 1 and _are_names(cells):
            continue
        try:
            first, second, last = cells
            j, k, distance = int(first), int(second), float(last or "nan")
        except ValueError:
            raise FileFormatError(
                f"Line {number} of {shown} is {line[:60]!r}; a line has three cells: two columns of the alignment, counted "
                "from 0, and their distance in Å."
            ) from None
        if problem := _problem(j, k, distance, matrix):
            raise DataError(f"Line {number} of {shown} {problem}.")
        matrix[j, k] = matrix[k, j] = distance
        smallest = min(smallest, j, k)
    known = matrix[np.triu_indices(length, 1)]
    if np.isnan(known).all():
        raise FileFormatError(f"{shown} has no distance of two columns.")
    if np.nanmin(known) < _NEAREST:
        raise DataError(
            f"The smallest distance in {shown} is {np.nanmin(known):g}. Residues are at least {_NEAREST:g} Å apart: give "
            "distances in Å (1 nm is 10 Å)."
        )
    if smallest == 1:
        warn_caller(
            f"No line of {shown} has the column 0, the first of the alignment. If the file counts columns from 1, "
            "subtract 1.",
            FieldfitWarning,
        )
    return matrix


def _are_names(cells: list[str]) -> bool:
    """Whether a line has the names of the three columns: no cell is a number."""
    return len(cells) == 3 and not any(re.fullmatch(r"[-+.\d].*", cell) for cell in cells)


def _problem(j: int, k: int, distance: float, matrix: FloatArray) -> str:
    """What is wrong with a distance, given those of the lines before; "" if nothing is."""
    length = len(matrix)
    if not (0 <= j < length and 0 <= k < length):
        return f"names the columns {j} and {k}; the alignment has the columns 0 to {length - 1}"
    if np.isinf(distance) or distance < 0 or (distance == 0 and j != k):
        return f"has the distance {distance:g}; distances are positive, and empty if unknown"
    earlier = matrix[j, k]
    if np.isfinite(earlier) and np.isfinite(distance) and earlier != distance:
        return f"has the distance {distance:g} for the columns {j} and {k}, and an earlier line has {earlier:g}"
    return ""


def contact_precision(
    scores: FloatArray,
    edges: IntArray,
    distances: FloatArray,
    *,
    closest: float = 8.0,
    separation: int = 6,
    shares: tuple[float, ...] = (0.2, 0.5, 1.0),
) -> dict[float, float]:
    """The share of true contacts among the pairs with the highest scores.

    Parameters
    ----------
    scores : ndarray of shape (pairs,)
        Higher is more likely a contact.
    edges : ndarray of shape (pairs, 2)
        The columns of each pair.
    distances : ndarray of shape (L, L)
        Distances in Å, NaN where unknown; such pairs do not count.
    closest : float, default 8.0
        A pair is in contact below this distance.
    separation : int, default 6
        Pairs closer than this along the sequence do not count.
    shares : tuple of float, default (0.2, 0.5, 1.0)
        How many pairs to take, as shares of the number of columns L.

    Returns
    -------
    dict
        The precision for each share.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> edges = np.array([[0, 6], [0, 7], [1, 7]])
    >>> distances = np.full((8, 8), 20.0)
    >>> distances[0, 7] = distances[7, 0] = 5.0
    >>> proteins.contact_precision(np.array([0.1, 0.9, 0.5]), edges, distances, shares=(0.125, 0.25))
    {0.125: 1.0, 0.25: 0.5}
    """
    distances = numbers_of(distances, "distances")
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1]:
        raise DataError(
            f"distances has the shape {distances.shape}; it must have a row and a column for each column."
        )
    scores, edges = checked_pairs(scores, edges, len(distances))
    separation = whole_number(separation, "separation", 0)
    closest = number_from_zero(closest, "closest")
    if not has_entries(shares):
        raise DataError(f"shares is {shares!r:.80}; it must be a list of numbers.")
    shares = tuple(number_from_zero(share, "A share of the columns") for share in shares)
    between = distances[edges[:, 0], edges[:, 1]]
    counted = (np.abs(edges[:, 1] - edges[:, 0]) >= separation) & np.isfinite(between)
    if not counted.any():
        raise DataError(f"No pair is at least {separation} columns apart and has a known distance.")
    order = np.argsort(-scores[counted], kind="stable")
    close = between[counted][order] < closest
    length = len(distances)
    return {share: float(close[: max(1, int(share * length))].mean()) for share in shares}
