"""Load a saved fit of a family with its alignment."""

from __future__ import annotations

import os

import numpy as np

from fieldfit.api.files import load
from fieldfit.api.refine import attach
from fieldfit.api.result import Fit
from fieldfit.data.alignments import Alignment, read_alignment, sequence_weights
from fieldfit.models.potts import Potts
from fieldfit.proteins.family import FamilyFit, family_table
from fieldfit.proteins.penalties import Penalty
from fieldfit.types import DataError, ModelError


def load_family(
    fit: str | os.PathLike[str] | Fit,
    alignment: str | os.PathLike[str] | Alignment,
    *,
    identity: float | None = 0.8,
) -> FamilyFit:
    r"""Load a saved fit of a family with its alignment.

    Parameters
    ----------
    fit : str, Path or Fit
        The file that ``fitted.fit.save`` or ``fieldfit contacts`` wrote, or the fit loaded from it.
    alignment : str, Path or Alignment
        The alignment that was fitted. Of a file, the columns of the fit are used, with its alphabet.
    identity : float or None, default 0.8
        As in `fit_family`; the weights of the sequences must be those of the fit.

    Returns
    -------
    FamilyFit

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import proteins
    >>> size = Path("family.fasta").write_text(">a\nACDE\n>b\nAC-E\n>c\nGCDW\n")
    >>> proteins.fit_family(proteins.read_alignment("family.fasta")).fit.save("family.ff")
    >>> proteins.load_family("family.ff", "family.fasta").scores().shape
    (6, 6)
    """
    loaded = fit if isinstance(fit, Fit) else load(fit)
    model = loaded.model
    if not isinstance(model, Potts) or not _is_family(model):
        raise ModelError("The fit is not that of a family: `fit_family` and `fieldfit contacts` make such fits.")
    if not isinstance(alignment, Alignment):
        alignment = _columns_of_fit(model, alignment)
    weights = np.ones(alignment.n) if identity is None else sequence_weights(alignment, identity)
    fields, couplings = loaded.sigma2[-1], loaded.sigma2[0]
    penalty = Penalty(1.0 / (2.0 * float(fields)), 1.0 / (2.0 * float(couplings)))
    return FamilyFit(alignment, weights, penalty, attach(loaded, family_table(model, alignment, weights)), identity)


def _is_family(model: Potts) -> bool:
    """Whether the model has letters as states, and a field and a coupling for each of them."""
    free = len(model.edge_array) * model.q**2, len(model.edge_array) * model.q**2 + model.m * model.q
    return (model.n_couplings, model.n_parameters) == free and all(len(str(state)) == 1 for state in model.states[0])


def _columns_of_fit(model: Potts, path: str | os.PathLike[str]) -> Alignment:
    letters = "".join(map(str, model.states[0]))
    whole = read_alignment(path, alphabet=letters)
    numbers = {str(column): place for place, column in enumerate(whole.columns.tolist())}
    absent = [name for name in model.names if name not in numbers]
    if absent:
        raise DataError(f"{path} has {len(whole.columns)} columns, and the fit has the column {absent[0]}.")
    places = np.array([numbers[name] for name in model.names])
    codes = np.ascontiguousarray(whole.codes[:, places])
    return Alignment(
        whole.names, codes, whole.alphabet, whole.columns[places], None, whole.dropped, None, whole.width
    )
