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
from fieldfit.types import ModelError


def load_family(fit: str | os.PathLike[str] | Fit, alignment: str | os.PathLike[str] | Alignment) -> FamilyFit:
    r"""Load a saved fit of a family with its alignment.

    Columns, focus sequence, numbers of residues and the threshold of the weights are those of the fit.

    Parameters
    ----------
    fit : str, Path or Fit
        The file that ``fitted.save`` or ``fieldfit contacts`` wrote, or the fit loaded from it.
    alignment : str, Path or Alignment
        The alignment that was fitted; its file is enough.

    Returns
    -------
    FamilyFit

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import proteins
    >>> size = Path("family.fasta").write_text(">a/11-13\nA-DE\n>b\nAC-E\n>c\nGCDW\n")
    >>> proteins.fit_family(proteins.read_alignment("family.fasta", focus="a")).save("family.ff")
    >>> proteins.load_family("family.ff", "family.fasta").alignment.positions
    array([11, 12, 13])
    """
    loaded = fit if isinstance(fit, Fit) else load(fit)
    model, record = loaded.model, loaded.alignment
    if not isinstance(model, Potts) or record is None:
        raise ModelError("The fit is not that of a family: `fit_family` and `fieldfit contacts` make such fits.")
    if not isinstance(alignment, Alignment):
        alignment = read_alignment(alignment, alphabet="".join(map(str, model.states[0])))
    alignment, identity = record.completed(alignment, model.names), record.identity
    weights = np.ones(alignment.n) if identity is None else sequence_weights(alignment, identity)
    fields, couplings = loaded.sigma2[-1], loaded.sigma2[0]
    penalty = Penalty(1.0 / (2.0 * float(fields)), 1.0 / (2.0 * float(couplings)))
    return FamilyFit(alignment, weights, penalty, attach(loaded, family_table(model, alignment, weights)), identity)
