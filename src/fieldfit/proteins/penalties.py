"""Strengths of the penalty λ_h Σ h² + λ_J Σ J² as other programs set them, by name.

Each J_jk(a, b) counts once. In this library's terms σ² = 1 / (2λ). L is the number of columns, q the number of letters.

| name        | λ_h  | λ_J                  | who                                    |
|-------------|------|----------------------|----------------------------------------|
| evcouplings | 0.01 | 0.01 (q − 1) (L − 1) | EVcouplings, which runs plmc           |
| plmc        | 0.01 | 100                  | plmc without options                   |
| ccmpred     | 0.01 | 0.2 (L − 1)          | CCMpred without options                |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.arguments import number_from_zero, positive_number
from fieldfit.models.potts import Potts
from fieldfit.types import FloatArray, ModelError


@dataclass(frozen=True)
class Penalty:
    """Strengths λ_h of fields and λ_J of couplings.

    λ_J is the sum of a constant, a number for each further column (L − 1), and one for each further column and letter
    ((L − 1)(q − 1)).

    Parameters
    ----------
    fields : float, default: 0.01
        λ_h.
    couplings : float, default: 0.0
        The constant in λ_J.
    for_each_column : float, default: 0.0
        Factor of L − 1 in λ_J.
    for_each_column_and_letter : float, default: 0.0
        Factor of (L − 1)(q − 1) in λ_J.

    Examples
    --------
    >>> from fieldfit import proteins
    >>> proteins.PENALTIES["ccmpred"] == proteins.Penalty(fields=0.01, for_each_column=0.2)
    True
    """

    fields: float = 0.01
    couplings: float = 0.0
    for_each_column: float = 0.0
    for_each_column_and_letter: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, number_from_zero(value, name, ModelError))

    def strengths(self, length: int, letters: int) -> tuple[float, float]:
        """Compute (λ_h, λ_J) for a size of the alignment.

        Parameters
        ----------
        length : int
            Number of columns L.
        letters : int
            Number of letters q.

        Returns
        -------
        tuple of float
            λ_h and λ_J.

        Examples
        --------
        >>> from fieldfit import proteins
        >>> proteins.PENALTIES["ccmpred"].strengths(51, 21)
        (0.01, 10.0)
        """
        columns = length - 1
        couplings = self.couplings + self.for_each_column * columns
        couplings += self.for_each_column_and_letter * columns * (letters - 1)
        if not (self.fields > 0 and couplings > 0):
            raise ModelError(f"The penalties are λ_h = {self.fields} and λ_J = {couplings}; both must be above 0.")
        return self.fields, couplings

    def variances(self, model: Potts) -> FloatArray:
        """Compute σ² = 1 / (2λ) of each parameter of a Potts model.

        Parameters
        ----------
        model : Potts
            The model.

        Returns
        -------
        ndarray of shape (r,)
            It cannot be changed, so that fits need no copy of it.

        Examples
        --------
        >>> import fieldfit as ff
        >>> from fieldfit import proteins
        >>> proteins.PENALTIES["plmc"].variances(ff.Potts(2, 2))
        array([5.e-03, 5.e-03, 5.e-03, 5.e-03, 5.e+01, 5.e+01, 5.e+01, 5.e+01])
        """
        fields, couplings = self.strengths(model.m, model.q)
        sigma2 = np.full(model.n_parameters, 1.0 / (2.0 * couplings))
        sigma2[model.n_couplings :] = 1.0 / (2.0 * fields)
        sigma2.flags.writeable = False
        return sigma2


PENALTIES = {
    "evcouplings": Penalty(for_each_column_and_letter=0.01),
    "plmc": Penalty(couplings=100.0),
    "ccmpred": Penalty(for_each_column=0.2),
}


def as_penalty(penalty: Penalty | str | float) -> Penalty:
    """A penalty by its name or its λ_J, or as it is."""
    if isinstance(penalty, Penalty):
        return penalty
    if isinstance(penalty, str) and penalty in PENALTIES:
        return PENALTIES[penalty]
    if isinstance(penalty, str):
        raise ModelError(
            f"The penalty {penalty!r:.80} is unknown; use {', '.join(map(repr, PENALTIES))}, a Penalty, or a "
            "number for λ_J."
        )
    return Penalty(couplings=positive_number(penalty, "penalty"))
