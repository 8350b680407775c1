"""What the report page of a family says: its predicted contacts, its cautions, and how to fit it again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fieldfit.api.fit_page import Purpose
from fieldfit.api.summary import cautions_of_course
from fieldfit.data.alignments import ALPHABETS
from fieldfit.report.contact_map import contact_chart
from fieldfit.report.table import PlainTable
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.proteins.family import FamilyFit
    from fieldfit.report.page import Page

#: Where standard errors of single parameters come from.
_SOME_ERRORS = (
    "family.strongest_couplings(20) in Python, or --couplings 20 of fieldfit contacts, computes those of the 20 largest "
    "couplings, and family.standard_errors([…]) in Python those of others."
)
#: Least distance of a pair along the sequence, in columns, and most pairs in the table.
_SEPARATION, _LISTED = 6, 20


def purpose_of(family: FamilyFit) -> Purpose:
    """What the page of a family has in place of that of any fit."""
    return Purpose(
        size=f"{counted(family.alignment.n, 'sequences')} with an effective number of {family.effective:,.1f}, "
        + counted(family.model.n_parameters, "parameters"),
        cautions=_cautions(family),
        errors=_SOME_ERRORS,
        add=partial(add_contacts, family=family),
        python=family_lines(family),
    )


def _cautions(family: FamilyFit) -> list[str]:
    """Cautions about the estimate, and about the standard errors that families have."""
    fit = family.fit
    cautions = cautions_of_course(fit)
    if family.effective < family.alignment.length:
        cautions.append(
            f"The effective number of sequences, {family.effective:,.1f}, is below the number of columns, "
            f"{family.alignment.length}: most scores are noise."
        )
    caution = family.caution_of_errors
    if caution:
        cautions.append(caution)
    held = int(fit.held.sum())
    if held:
        cautions.append(
            f"{counted(held, 'parameters')} of letters that never occur in a column, or never together, {_has(held)} no "
            "standard error: only the penalty keeps them finite."
        )
    fields, couplings = family.penalty.strengths(family.model.m, family.model.q)
    cautions.append(
        f"The penalty (λ_h = {fields:g}, λ_J = {couplings:g}) shrinks the estimates towards 0. Standard errors do not "
        "include this bias."
    )
    return cautions


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def family_lines(family: FamilyFit) -> str:
    """Python that fits the family again."""
    alignment = family.alignment
    if alignment.focus is None and alignment.width not in (
        None,
        alignment.length,
    ):  # the file does not name its focus
        return 'family = ff.proteins.load_family("model.ff", "family.fasta")'
    fields, couplings = family.penalty.strengths(family.model.m, family.model.q)
    name = next((name for name, letters in ALPHABETS.items() if letters == alignment.alphabet), alignment.alphabet)
    options = [] if name == "protein" else [f"alphabet={name!r}"]
    if alignment.focus is not None:
        options.append(f"focus={alignment.names[alignment.focus]!r}")
    reading = ", ".join(['"family.fasta"', *options])
    return (
        f"alignment = ff.proteins.read_alignment({reading})  # the file of the family\n"
        f"penalty = ff.proteins.Penalty(fields={fields!r}, couplings={couplings!r})\n"
        "family = ff.proteins.fit_family(\n"
        f"    alignment, identity={family.identity}, penalty=penalty, {_stopping(family)}\n)"
    )


def _stopping(family: FamilyFit) -> str:
    """The arguments that say when the fit stops, and its precision."""
    ended, precision = family.fit.convergence, family.model.precision
    single = "" if precision == "double" else f", precision={precision!r}"
    return f"tol={ended.tol!r}, max_iter={ended.max_iter}{single}"


def add_contacts(page: Page, family: FamilyFit, separation: int = _SEPARATION) -> None:
    """Add the pairs with the highest scores, as many as there are columns, as a picture and a table."""
    page.heading("Predicted contacts")
    length = family.alignment.length
    table = family.scores()
    table = table[table["j"] - table["i"] >= separation].head(length)
    if table.empty:
        page.note(f"No pair of columns is {separation} or more apart.")
        return
    alignment = family.alignment
    pairs = alignment.numbers[table[["i", "j"]].to_numpy()]
    counted_as = "Columns are counted from 0." if alignment.positions is None else f"Numbers: {alignment.axis}."
    page.chart(
        contact_chart(pairs, table["score"].to_numpy(), alignment.numbers, alignment.axis),
        f"The {len(table)} pairs of columns with the highest scores, at least {separation} columns apart; stronger colour: "
        f"higher score. {counted_as}",
    )
    lines = tuple(
        (int(i), int(j), float(norm), float(score))
        for (i, j), norm, score in zip(pairs[:_LISTED], table["norm"], table["score"], strict=False)
    )
    told = "Norm: Frobenius norm of the couplings in the zero-sum gauge. Score: after the average product correction."
    names = (alignment.axis, alignment.axis, "norm", "score")
    page.table(PlainTable(f"The first {len(lines)} of them", names, lines, told, ("d", "d", ".3f", ".3f")))
