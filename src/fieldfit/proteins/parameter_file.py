"""The binary parameter file of plmc: export for tools that read it, and import of its fits.

Little-endian: five int32 (sites, letters, sequences, skipped sequences, iterations), five float32 (θ, λ_h, λ_J, group λ,
effective sequences), the letters, the neighbours of each sequence (float32), the target sequence, its numbering (int32),
then float32 tables: frequencies and fields (L, q), pair frequencies and couplings (L (L − 1) / 2, q, q), pairs in
row-major order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from fieldfit.arguments import file_path, instance_of
from fieldfit.data.atomic import atomic_writer
from fieldfit.data.textfile import read_bytes
from fieldfit.types import FileAccessError, FileFormatError, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PlmcParameters:
    """The content of plmc's parameter file. Pairs are in row-major order, as the edges of a complete Potts model.

    Parameters
    ----------
    alphabet : str
        The letters, the gap first.
    target : str
        The target sequence.
    numbering : ndarray of shape (L,)
        Numbers of the columns' residues in the target sequence, or of the columns without one; the first is 1.
    weights : ndarray of shape (sequences,)
        1 / neighbours of each sequence; 0 for skipped ones.
    frequencies : ndarray of shape (L, q)
        Frequencies of the letters.
    fields : ndarray of shape (L, q)
        Fields.
    pair_frequencies : ndarray of shape (pairs, q, q)
        Frequencies of pairs of letters.
    couplings : ndarray of shape (pairs, q, q)
        Couplings.
    skipped : int, default: 0
        Number of sequences that were left out.
    iterations : int, default: 0
        Number of iterations of the fit.
    divergence : float, default: 0.2
        Sequences that differ in less than this share of the columns are neighbours.
    lambda_fields, lambda_couplings, lambda_groups : float, default: 0.0
        Strengths of the penalties.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> tables, pair = np.zeros((2, 2)), np.zeros((1, 2, 2))
    >>> parameters = proteins.PlmcParameters("-A", "AA", np.arange(2), np.ones(3), tables, tables, pair, pair)
    >>> parameters.theta.shape
    (8,)
    """

    alphabet: str
    target: str
    numbering: IntArray  # (L,)
    weights: FloatArray  # (sequences,) 1 / neighbours, 0 for skipped ones
    frequencies: FloatArray  # (L, q)
    fields: FloatArray  # (L, q)
    pair_frequencies: FloatArray  # (pairs, q, q)
    couplings: FloatArray  # (pairs, q, q)
    skipped: int = 0
    iterations: int = 0
    divergence: float = 0.2
    lambda_fields: float = 0.0
    lambda_couplings: float = 0.0
    lambda_groups: float = 0.0

    def __repr__(self) -> str:
        length, q = self.fields.shape
        return f"<PlmcParameters: {length} columns, {q} letters, {len(self.weights):,} sequences>"

    @property
    def theta(self) -> FloatArray:
        """θ of `Potts(L, q)`: the couplings, then the fields."""
        return np.concatenate([self.couplings.ravel(), self.fields.ravel()])


def write_plmc(path: str | os.PathLike[str], parameters: PlmcParameters) -> None:
    """Write plmc's parameter file.

    Parameters
    ----------
    path : str or path
        The file.
    parameters : PlmcParameters
        Its content. Tables are written in single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> tables, pair = np.zeros((2, 2)), np.zeros((1, 2, 2))
    >>> parameters = proteins.PlmcParameters("-A", "AA", np.arange(2), np.ones(3), tables, tables, pair, pair)
    >>> proteins.write_plmc("family.params", parameters)
    >>> proteins.read_plmc("family.params").target
    'AA'
    """
    instance_of(parameters, PlmcParameters, "write_plmc needs PlmcParameters")
    p = parameters
    length, q = p.fields.shape
    kept = p.weights[p.weights > 0]
    neighbours = np.divide(1.0, p.weights, out=np.zeros_like(p.weights), where=p.weights > 0)
    head = np.array([length, q, len(p.weights) - p.skipped, p.skipped, p.iterations], dtype="<i4")
    numbers = [p.divergence, p.lambda_fields, p.lambda_couplings, p.lambda_groups, float(kept.sum())]
    with atomic_writer(path) as file:
        file.write(head.tobytes())
        file.write(np.array(numbers, dtype="<f4").tobytes())
        file.write(p.alphabet.encode("ascii"))
        file.write(neighbours.astype("<f4").tobytes())
        file.write(p.target.encode("ascii"))
        file.write(p.numbering.astype("<i4").tobytes())
        for table in (p.frequencies, p.fields, p.pair_frequencies, p.couplings):
            file.write(table.astype("<f4").tobytes())


def read_plmc(path: str | os.PathLike[str]) -> PlmcParameters:
    """Read plmc's parameter file.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    PlmcParameters

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> tables, pair = np.zeros((2, 2)), np.zeros((1, 2, 2))
    >>> parameters = proteins.PlmcParameters("-A", "AA", np.arange(2), np.ones(3), tables, tables, pair, pair)
    >>> proteins.write_plmc("family.params", parameters)
    >>> proteins.read_plmc("family.params").target
    'AA'
    """
    shown = file_path(path)
    try:
        data = read_bytes(shown)
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"{shown} cannot be opened: {error.strerror}. Check the path.") from error
    wrong = FileFormatError(f"{shown} is not a parameter file of plmc, or it is truncated.")
    if len(data) < 40:
        raise wrong
    length, q, sequences, skipped, iterations = np.frombuffer(data, "<i4", 5).tolist()
    divergence, fields, couplings, groups, _ = np.frombuffer(data, "<f4", 5, 20).tolist()
    if min(length, q, sequences, skipped) < 0 or length < 2 or q < 2:
        raise wrong
    pairs = length * (length - 1) // 2
    total = sequences + skipped
    if len(data) != 40 + q + 4 * total + 5 * length + 4 * (2 * length * q + 2 * pairs * q * q):
        raise wrong
    at = 40

    def take(kind: str, count: int) -> FloatArray:
        nonlocal at
        values = np.frombuffer(data, kind, count, at)
        at += values.nbytes
        if not np.isfinite(values).all():
            raise FileFormatError(f"{shown} has parameters that are not finite numbers: the file is damaged.")
        return values.astype(np.float64)

    alphabet = data[at : at + q].decode("ascii", errors="replace")
    at += q
    neighbours = take("<f4", total)
    target = data[at : at + length].decode("ascii", errors="replace")
    at += length
    numbering = take("<i4", length).astype(np.int64)
    return PlmcParameters(
        alphabet,
        target,
        numbering,
        np.divide(1.0, neighbours, out=np.zeros_like(neighbours), where=neighbours > 0),
        take("<f4", length * q).reshape(length, q),
        take("<f4", length * q).reshape(length, q),
        take("<f4", pairs * q * q).reshape(pairs, q, q),
        take("<f4", pairs * q * q).reshape(pairs, q, q),
        skipped,
        iterations,
        divergence,
        fields,
        couplings,
        groups,
    )
