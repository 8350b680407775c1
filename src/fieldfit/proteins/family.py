"""Fit a Potts model to an alignment by pseudo-likelihood, and read contacts and mutation effects from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import accuracy_with, score_variance
from fieldfit.api.advice import Advice, advised
from fieldfit.api.checkpoint import Checkpoint
from fieldfit.api.fitting import fit
from fieldfit.api.functionals import unit_rows
from fieldfit.api.result import Fit
from fieldfit.arguments import count_of, instance_of, whole_number
from fieldfit.asymptotics import Accuracy
from fieldfit.asymptotics.meat import ENOUGH_FOR_PARAMETER
from fieldfit.data.alignment_record import AlignmentRecord
from fieldfit.data.alignments import Alignment, identifiers_of, sequence_weights
from fieldfit.data.samples import Table
from fieldfit.docstrings import filled
from fieldfit.models.potts import Potts
from fieldfit.models.potts_preconditioner import state_frequencies
from fieldfit.named import places_of
from fieldfit.optim import Progress
from fieldfit.properties import cached_property
from fieldfit.proteins.couplings import average_product_correction, frobenius_norms
from fieldfit.proteins.parameter_file import PlmcParameters, write_plmc
from fieldfit.proteins.penalties import Penalty, as_penalty
from fieldfit.steps import stepped
from fieldfit.types import DataError, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from fieldfit.planner.result import Plan


def fit_family(
    alignment: Alignment,
    *,
    identity: float | None = 0.8,
    penalty: Penalty | str | float = "evcouplings",
    tol: float = 1e-4,
    max_iter: int = 500,
    precision: str = "double",
    progress: Callable[[Progress], object] | bool | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
) -> FamilyFit:
    """Fit a Potts model with fields and all couplings to an alignment by penalised pseudo-likelihood.

    Parameters
    ----------
    alignment : Alignment
        From `read_alignment`.
    identity : float or None, default 0.8
        Sequences that are equal in at least this share of columns share one weight; None gives every sequence weight 1.
    penalty : str, float or Penalty, default "evcouplings"
        Strength of the penalty: "evcouplings", "plmc", "ccmpred", a number for λ_J (with λ_h = 0.01), or a `Penalty`.
    precision : {"double", "single"}, default "double"
        Precision of the conditional probabilities; see `fieldfit.Potts`.
    tol, max_iter, progress, checkpoint
        As in `fieldfit.fit`. A gradient of 1e-3 for each sequence is enough for contacts and for standard errors.

    Returns
    -------
    FamilyFit

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> random = np.random.default_rng(0)
    >>> codes = random.integers(1, 5, (200, 4)).astype(np.uint8)
    >>> codes[:150, 3] = codes[:150, 0]
    >>> family = proteins.Alignment(tuple(f"s{i}" for i in range(200)), codes, "-ACGU", np.arange(4))
    >>> fitted = proteins.fit_family(family, identity=None, penalty="ccmpred")
    >>> fitted.fit.converged
    True
    """
    instance_of(alignment, Alignment, "fit_family needs an Alignment")
    length, letters = alignment.length, alignment.alphabet
    chosen = as_penalty(penalty)
    names = [str(column) for column in alignment.columns]
    model = Potts(length, len(letters), states=tuple(letters), names=names, precision=precision)
    model.refuse_size(alignment.n)  # before any array of the length of θ is allocated
    _refuse_nothing_to_learn(alignment)
    weights = np.ones(alignment.n) if identity is None else sequence_weights(alignment, identity)
    frequencies = state_frequencies(np.ascontiguousarray(alignment.codes.T), len(letters), weights)
    start = np.zeros(model.n_parameters)
    logs = np.log(frequencies)
    start[model.n_couplings :] = (logs - logs.mean(axis=1, keepdims=True)).ravel()
    with advised(_advice(chosen.strengths(length, len(letters))[1])):
        fitted = fit(
            model,
            family_table(model, alignment, weights),
            "PL1",
            sigma2=chosen.variances(model),
            start=start,
            tol=tol,
            max_iter=max_iter,
            progress=progress,
            checkpoint=checkpoint,
        )
    fitted = replace(fitted, alignment=AlignmentRecord.of(alignment, identity))
    return FamilyFit(alignment, weights, chosen, fitted, identity)


def _refuse_nothing_to_learn(alignment: Alignment) -> None:
    """Refuse an alignment that says nothing about couplings."""
    if (alignment.codes == alignment.codes[:1]).all():
        what = (
            f"has {alignment.n:,} sequence"
            if alignment.n < 2
            else f"has {alignment.n:,} sequences, all of gaps"
            if not alignment.codes.any()
            else f"has {alignment.n:,} sequences that are all equal"
        )
        raise DataError(f"The alignment {what}: there is no variation from which to learn couplings.")


def _advice(coupling_strength: float) -> Advice:
    """What to do about a fit that does not converge, or a model that runs away from its family."""
    return Advice(
        penalty=f"a stronger penalty (penalty=…; λ_J is {coupling_strength:g} here)",
        runaway="Contact scores and the effects of single substitutions do not need samples: they follow from the "
        "conditional probabilities that were fitted. For a model to simulate from, use a stronger penalty (penalty=…): "
        f"λ_J is {coupling_strength:g} here.",
    )


def family_table(model: Potts, alignment: Alignment, weights: FloatArray) -> Table:
    """The sequences of an alignment with their weights, as samples of a Potts model."""
    return Table(alignment.codes.astype(np.int32), model.names, model.states, sample_weight=weights)


#: What the examples of methods begin with.
_EXAMPLE = {
    "fitted": """\
>>> import numpy as np
>>> from fieldfit import proteins
>>> random = np.random.default_rng(0)
>>> codes = random.integers(1, 5, (200, 4)).astype(np.uint8)
>>> codes[:150, 3] = codes[:150, 0]
>>> family = proteins.Alignment(tuple(f"s{i}" for i in range(200)), codes, "-ACGU", np.arange(4))
>>> fitted = proteins.fit_family(family, identity=None, penalty="ccmpred")""",
}


@filled(_EXAMPLE)
@dataclass(frozen=True, eq=False, repr=False)
class FamilyFit:
    """A family and its fitted Potts model. `fit_family` returns it.

    Attributes
    ----------
    alignment : Alignment
        The sequences.
    weights : ndarray of shape (n,)
        Weights of the sequences.
    penalty : Penalty
        The penalty.
    fit : Fit
        The fit, with everything that any fit has. Its own standard errors take the sequences for independent, each
        with an importance weight; `standard_errors` does not.
    identity : float or None
        Share of equal columns from which on two sequences were neighbours. None: all weights are 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import proteins
    >>> random = np.random.default_rng(0)
    >>> codes = random.integers(1, 5, (200, 4)).astype(np.uint8)
    >>> codes[:150, 3] = codes[:150, 0]
    >>> family = proteins.Alignment(tuple(f"s{i}" for i in range(200)), codes, "-ACGU", np.arange(4))
    >>> fitted = proteins.fit_family(family, identity=None, penalty="ccmpred")
    >>> fitted.fit
    <Fit: potts by PL1, 200 samples, 170 parameters, converged>
    """

    alignment: Alignment
    weights: FloatArray
    penalty: Penalty
    fit: Fit
    identity: float | None

    def __repr__(self) -> str:
        return f"<FamilyFit: {self.alignment!r}, effective size {self.effective:,.1f}, {self.fit!r}>"

    @property
    def effective(self) -> float:
        """The effective number of sequences: the sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def model(self) -> Potts:
        """The Potts model."""
        model = self.fit.model
        assert isinstance(model, Potts)
        return model

    @property
    def couplings(self) -> FloatArray:
        """Couplings (pairs, q, q), pairs in the order of ``model.edge_array``."""
        return self.fit.theta[: self.model.n_couplings].reshape(-1, self.model.q, self.model.q)

    @property
    def fields(self) -> FloatArray:
        """Fields (L, q)."""
        return self.fit.theta[self.model.n_couplings :].reshape(self.model.m, self.model.q)

    @cached_property
    def contact_scores(self) -> FloatArray:
        """Frobenius norm with average product correction for each pair (pairs,); gaps do not count."""
        return average_product_correction(frobenius_norms(self.couplings), self.model.edge_array, self.model.m)

    def scores(self) -> pandas.DataFrame:
        """Return the scores of all pairs, the highest first.

        Returns
        -------
        DataFrame
            Columns ``i`` and ``j`` (places in the alignment), ``column_i`` and ``column_j`` (columns of the file),
            ``position_i`` and ``position_j`` (residues of the focus sequence, if there is one), ``norm`` (Frobenius norm in
            the zero-sum gauge) and ``score`` (after the average product correction).

        Examples
        --------
        %(fitted)s
        >>> fitted.scores()[["i", "j", "score"]].head(2).round(2)
           i  j  score
        0  0  3   1.47
        1  1  2   0.18
        """
        import pandas

        edges = self.model.edge_array
        frame = pandas.DataFrame(
            {
                "i": edges[:, 0],
                "j": edges[:, 1],
                **self._numbers(edges),
                "norm": frobenius_norms(self.couplings),
                "score": self.contact_scores,
            }
        )
        return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)

    def _numbers(self, pairs: IntArray) -> dict[str, IntArray]:
        """The columns of the file, and the residues of the focus sequence, if there is one, of pairs (pairs, 2)."""
        alignment = self.alignment
        numbers = {f"column_{k}": alignment.columns[pairs[:, j]] for j, k in enumerate("ij")}
        if alignment.positions is not None:
            numbers |= {f"position_{k}": alignment.positions[pairs[:, j]] for j, k in enumerate("ij")}
        return numbers

    @cached_property
    def accuracy(self) -> Accuracy:
        """Bread and meat for as many independent sequences as the sum of the weights."""
        return accuracy_with(self.fit, replace(score_variance(self.fit), counts=True))

    @property
    def caution_of_errors(self) -> str:
        """A sentence if the family has too few sequences for its standard errors to be trusted, else empty."""
        share = self.effective / len(self.fit.theta)
        if share >= ENOUGH_FOR_PARAMETER:
            return ""
        return (
            f"There are {share:.2g} sequences for each parameter: standard errors of couplings may be "
            f"{'far ' if share < 1 else ''}too small, and abs(z) too large."
        )

    def standard_errors(self, parameters: object) -> FloatArray:
        """Compute standard errors of fields and couplings.

        Parameters
        ----------
        parameters : str, sequence of str or int
            Parameters, by name (``"3=A:17=C"``), pattern or number; see ``model.parameter_names``.

        Returns
        -------
        ndarray
            NaN for letters that never occur, or never together: only the penalty keeps them finite. In models of at most
            600 parameters and 11 letters, also for couplings that share a letter with such a pair.

        Notes
        -----
        k neighbours with the weight 1/k each stand for one sequence, and the meat is Σ w ψψᵀ. Importance weights of
        independent samples enter it as w², which would make errors smaller by √k.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import proteins
        >>> random = np.random.default_rng(0)
        >>> codes = random.integers(1, 5, (200, 4)).astype(np.uint8)
        >>> family = proteins.Alignment(tuple(f"s{i}" for i in range(200)), codes, "-ACGU", np.arange(4))
        >>> proteins.fit_family(family, identity=1.0, penalty="ccmpred", tol=1e-6).standard_errors("0=A:3=C").shape
        (1,)
        """
        fitted = self.fit
        places = places_of(parameters, fitted.model.parameter_names)
        with stepped("standard errors", range(len(places))) as counted:
            rows = (unit_rows(places[[k]], len(fitted.theta)) for k in counted)
            variances = [self.accuracy.covariance_of(row)[0, 0] for row in rows]
        return np.where(fitted.held[places], np.nan, np.sqrt(np.maximum(variances, 0.0)))

    def strongest_couplings(self, count: int = 20, *, separation: int = 1) -> pandas.DataFrame:
        """Return the largest single couplings with their standard errors.

        Parameters
        ----------
        count : int, default: 20
            How many. Each takes about 25 products with the Hessian, which cost little more than evaluations of a fit.
        separation : int, default: 1
            Only pairs at least this many columns apart.

        Returns
        -------
        DataFrame
            Columns ``column_i``, ``column_j``, ``position_i`` and ``position_j`` (with a focus sequence), ``letter_i``,
            ``letter_j``, ``coupling``, ``standard_error``, ``z`` and ``note``, the largest abs(coupling) first; gaps are
            left out. The errors are sandwich errors of the penalised
            estimate (see `standard_errors`); its bias towards 0 is not in them, and with few sequences
            for each parameter they may be too small (`caution_of_errors`). Where the error is NaN, ``note`` says why.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit import proteins
        >>> random = np.random.default_rng(0)
        >>> codes = random.integers(1, 5, (200, 4)).astype(np.uint8)
        >>> codes[:150, 3] = codes[:150, 0]
        >>> family = proteins.Alignment(tuple(f"s{i}" for i in range(200)), codes, "-ACGU", np.arange(4))
        >>> fitted = proteins.fit_family(family, identity=None, penalty="ccmpred", tol=1e-6)
        >>> table = fitted.strongest_couplings(3)
        >>> table[["column_i", "column_j"]].drop_duplicates().to_numpy()
        array([[0, 3]])
        """
        import pandas

        count, separation = count_of(count, "count"), count_of(separation, "separation")
        q, edges = self.model.q, self.model.edge_array
        size = np.abs(self.couplings)
        size[:, 0], size[:, :, 0] = 0.0, 0.0
        size[np.abs(edges[:, 1] - edges[:, 0]) < separation] = 0.0
        flat = size.ravel()
        count = min(count, int(np.count_nonzero(flat)))
        places = np.argpartition(flat, -count)[len(flat) - count :] if count else np.empty(0, np.int64)
        places = places[np.argsort(-flat[places], kind="stable")]
        errors = self.standard_errors(places)  # by number: there are millions of names
        pair, entry = np.divmod(places, q * q)
        letters = np.array(list(self.alignment.alphabet))
        values = self.fit.theta[places]
        return pandas.DataFrame(
            {
                **self._numbers(edges[pair]),
                "letter_i": letters[entry // q],
                "letter_j": letters[entry % q],
                "coupling": values,
                "standard_error": errors,
                "z": values / errors,
                "note": self._why_no_error(edges[pair], entry // q, entry % q, errors),
            }
        )

    def _why_no_error(self, pairs: IntArray, first: IntArray, second: IntArray, errors: FloatArray) -> list[str]:
        """For each coupling of columns ``pairs`` and letters ``first`` and ``second``: why it has no error, or ""."""
        codes = self.alignment.codes[self.weights > 0]
        notes = [""] * len(errors)
        for k in np.flatnonzero(np.isnan(errors)).tolist():
            i, j = pairs[k]
            together = ((codes[:, i] == first[k]) & (codes[:, j] == second[k])).any()
            notes[k] = "shares a letter with a pair that never occurs" if together else "never occurs"
        return notes

    def mutations(self, sequence: int | str | None = None) -> pandas.DataFrame:
        """Return the change of log-probability of every single substitution in a sequence.

        Parameters
        ----------
        sequence : int or str, optional
            Its place or its name in the alignment, with or without its region: ``"RASH"`` is also ``RASH/5-166``.
            Default: the focus sequence, or the first one.

        Returns
        -------
        DataFrame
            Columns ``column``, ``position`` (the residue of the focus sequence, if there is one), ``from``, ``to`` and
            ``delta``: log p(mutant) − log p(sequence), negative where the model finds the substitution harmful.
            Substitutions by gaps and columns with gaps are left out.

        Examples
        --------
        %(fitted)s
        >>> fitted.mutations("s0").head(3).round(1)
           column from to  delta
        0       0    U  A   -2.0
        1       0    U  C   -1.6
        2       0    U  G   -1.3
        """
        import pandas

        place = self._place(sequence)
        codes = self.alignment.codes[place].astype(np.int64)
        m, q = self.model.m, self.model.q
        energy = self.fields.copy()  # log p of each letter at each site, up to a constant, the rest as it is
        a, b = self.model.edge_array.T
        pairs = np.arange(len(a))
        np.add.at(energy, a, self.couplings[pairs, :, codes[b]])
        np.add.at(energy, b, self.couplings[pairs, codes[a], :])
        delta = energy - energy[np.arange(m), codes][:, None]
        site, letter = np.divmod(np.arange(m * q), q)
        kept = (codes[site] != 0) & (letter != 0) & (letter != codes[site])
        letters, positions = np.array(list(self.alignment.alphabet)), self.alignment.positions
        return pandas.DataFrame(
            {
                "column": self.alignment.columns[site[kept]],
                **({} if positions is None else {"position": positions[site[kept]]}),
                "from": letters[codes[site[kept]]],
                "to": letters[letter[kept]],
                "delta": delta.ravel()[kept],
            }
        )

    def _place(self, sequence: int | str | None) -> int:
        names = self.alignment.names
        if sequence is None:
            return 0 if self.alignment.focus is None else self.alignment.focus
        if isinstance(sequence, str):
            wanted = identifiers_of(sequence, names)
            places = [place for place, name in enumerate(names) if name in wanted]
            if not places:
                raise DataError(f"The alignment has no sequence {sequence!r:.80}; the first one is {names[0]!r:.80}.")
            if (self.alignment.codes[places] != self.alignment.codes[places[0]]).any():
                raise DataError(
                    f"The alignment has {len(places)} sequences with the name {sequence!r:.80}, which differ. "
                    "Give the place "
                    f"of one of them: {', '.join(map(str, places[:5]))}{', …' if len(places) > 5 else ''}."
                )
            return places[0]
        return whole_number(sequence, "sequence", 0, len(names) - 1, DataError)

    def plot_contacts(
        self,
        distances: FloatArray | None = None,
        *,
        closest: float = 8.0,
        separation: int = 6,
        top: int | None = None,
    ) -> Figure:
        """Draw the contact map: predicted pairs above the diagonal, contacts of the structure below it.

        Parameters
        ----------
        distances : ndarray of shape (L, L), optional
            Distances of the columns in a structure, from `read_distances`.
        closest : float, default: 8.0
            Distance in Å below which a pair is in contact.
        separation : int, default: 6
            Least distance of a pair along the sequence.
        top : int, optional
            Number of predicted pairs. Default: the number of columns.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        %(fitted)s
        >>> fitted.plot_contacts(separation=1).savefig("contacts.png")
        """
        from fieldfit.report.contact_map import draw_contact_map

        return draw_contact_map(
            self.contact_scores,
            self.model.edge_array,
            self.alignment.numbers,
            distances,
            axis=self.alignment.axis,
            closest=closest,
            separation=separation,
            top=top,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        r"""Save the fit to a file, without the alignment. `load_family` loads it with the alignment.

        Parameters
        ----------
        path : str or Path
            The file. ``fit.save`` writes the same one.

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit import proteins
        >>> size = Path("family.fasta").write_text(">a\nACDE\n>b\nAC-E\n>c\nGCDW\n")
        >>> proteins.fit_family(proteins.read_alignment("family.fasta")).save("family.ff")
        >>> proteins.load_family("family.ff", "family.fasta").alignment
        <Alignment: 3 sequences, 4 columns, 21 letters>
        """
        self.fit.save(path)

    def to_html(self, path: str | os.PathLike[str], *, plan: Plan | None = None, level: float = 0.95) -> None:
        """Write a page to explore: that of the fit, with the predicted contacts.

        Parameters
        ----------
        path : str or Path
            The file. It is self-contained.
        plan : Plan or None, default: None
            A plan for the same data: adds the frontier of cost and accuracy.
        level : float, default: 0.95
            Level of the confidence intervals.

        Examples
        --------
        %(fitted)s
        >>> fitted.to_html("family.html")
        """
        from fieldfit.api.fit_page import fit_page
        from fieldfit.proteins.page import purpose_of

        fit_page(self.fit, plan, level, purpose=purpose_of(self)).write(path)

    def to_plmc(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters in plmc's binary format, for EVcouplings and other tools that read it.

        Parameters
        ----------
        path : str or path
            The file.

        Examples
        --------
        %(fitted)s
        >>> fitted.to_plmc("family.params")
        >>> proteins.read_plmc("family.params").couplings.shape
        (6, 5, 5)
        """
        alignment, q = self.alignment, self.model.q
        columns = np.ascontiguousarray(alignment.codes.T)
        total = self.weights.sum()
        single = np.stack([np.bincount(column, self.weights, q) for column in columns]) / total
        pairs = np.empty((len(self.model.edge_array), q, q))
        for place, (j, k) in enumerate(self.model.edge_array.tolist()):
            keys = columns[j].astype(np.int64) * q + columns[k]
            pairs[place] = np.bincount(keys, self.weights, q * q).reshape(q, q) / total
        fields, couplings = self.penalty.strengths(self.model.m, q)
        target = (
            alignment.alphabet[0] * self.model.m if alignment.focus is None else alignment.sequence(alignment.focus)
        )
        positions = alignment.columns + 1 if alignment.positions is None else alignment.positions
        write_plmc(
            path,
            PlmcParameters(
                alignment.alphabet, target, positions, self.weights, single, self.fields, pairs,
                self.couplings, 0, self.fit.iterations,
                -1.0 if self.identity is None else 1.0 - self.identity, fields, couplings,
            ),
        )  # fmt: skip
