"""`fieldfit contacts FAMILY.fasta`: contacts and mutation effects from an alignment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.checkpoints import (
    CheckpointEvery,
    CheckpointOption,
    Resume,
    checkpoint_from_options,
    told_interrupts,
)
from fieldfit.cli.options import Json, Threads, limit_threads
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas

    from fieldfit.report.table import PlainTable


def contacts(
    path: Annotated[Path, typer.Argument(metavar="FAMILY", help="Alignment: a FASTA, A2M or A3M file.")],
    distances: Annotated[
        Path | None,
        typer.Option(
            "--distances",
            metavar="FILE",
            help="CSV file with two columns of the alignment, counted from 0, and their distance in Å. Default: none.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder for tables, plot and parameters. Default: no files."
        ),
    ] = None,
    alphabet: Annotated[
        str, typer.Option("--alphabet", help="protein, rna, dna, or a list of letters that starts with the gap.")
    ] = "protein",
    focus: Annotated[
        str | None,
        typer.Option(
            "--focus",
            metavar="NAME",
            help="Keep only the columns in which this sequence has a letter. Default: all columns.",
        ),
    ] = None,
    identity: Annotated[
        float,
        typer.Option("--identity", help="Sequences equal in at least this fraction of columns share one weight."),
    ] = 0.8,
    penalty: Annotated[
        str,
        typer.Option(
            "--penalty",
            metavar="NAME|NUMBER",
            help="Strength of the penalty: evcouplings, plmc, ccmpred, or λ_J of the couplings (with λ_h = 0.01).",
        ),
    ] = "evcouplings",
    closest: Annotated[
        float, typer.Option("--closest", min=0, help="Pairs below this distance in Å are in contact.")
    ] = 8.0,
    separation: Annotated[
        int, typer.Option("--separation", min=1, help="Smallest distance of a pair along the sequence, in columns.")
    ] = 6,
    tol: Annotated[float, typer.Option("--tol", help="Largest gradient entry per sequence at convergence.")] = 1e-3,
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Largest number of iterations.")] = 200,
    couplings: Annotated[
        int,
        typer.Option(
            "--couplings",
            min=0,
            metavar="COUNT",
            help="Number of largest single couplings to list with standard errors. Each takes about 25 evaluations.",
        ),
    ] = 0,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of pairs to print, highest scores first.")] = 20,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEvery = 60.0,
    resume: Resume = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Predict contacts from a family of sequences. With --distances they are compared with a structure."""
    import numpy as np

    from fieldfit import proteins
    from fieldfit.cli.invocation import signed
    from fieldfit.cli.output import InterruptedFitError, collected_warnings, note, print_json, print_table
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.saving import save_here_or_elsewhere, what_is_kept, with_state
    from fieldfit.data.atomic import write_text
    from fieldfit.report.figures import make_folder, save_figure
    from fieldfit.report.table import PlainTable

    limit_threads(threads)
    kept = checkpoint_from_options(checkpoint, checkpoint_every, resume)
    folder = None if out is None else make_folder(out)
    known = None
    with collected_warnings():
        family = proteins.read_alignment(path, alphabet=alphabet, focus=focus)
        if distances is not None:
            of_file = proteins.read_distances(distances, family.width or family.length)
            known = of_file[np.ix_(family.columns, family.columns)]
    with told_interrupts(kept), collected_warnings(), shown_progress(None, json, max_iter) as progress:
        fitted = proteins.fit_family(
            family, identity=identity, penalty=_name_or_number(penalty), tol=tol, max_iter=max_iter,
            progress=progress, checkpoint=kept,
        )  # fmt: skip
    if fitted.fit.interrupted and kept is not None:
        raise InterruptedFitError(
            f"Interrupted after {fitted.fit.iterations} iterations: not converged{what_is_kept(None, kept)}."
        )
    edges, scores = fitted.model.edge_array, fitted.contact_scores
    precision = {}
    if known is not None:
        precision = proteins.contact_precision(scores, edges, known, closest=closest, separation=separation)
    table = fitted.scores()
    table = table[table["j"] - table["i"] >= separation]
    if known is not None:
        table = table.assign(distance=known[table["i"], table["j"]])
    with collected_warnings():
        strongest = fitted.strongest_couplings(couplings, separation=separation) if couplings else None

    def write(target: Path) -> None:
        make_folder(target)
        write_text(target / "contacts.csv", table.to_csv(index=False))
        if strongest is not None:
            write_text(target / "couplings.csv", strongest.to_csv(index=False))
        write_text(target / "mutations.csv", fitted.mutations().to_csv(index=False))
        fitted.to_plmc(target / "parameters.plmc")
        signed(fitted.fit).save(target / "model.ff")
        drawing = fitted.plot_contacts(known, closest=closest, separation=separation)
        save_figure(drawing, target, "contact_map")

    failure = None if folder is None else save_here_or_elsewhere(write, folder, "All files were")
    shown = {f"L*{share:g}": value for share, value in precision.items()}
    if json:
        print_json(
            {
                "sequences": family.n,
                "dropped": len(family.dropped),
                "columns": family.length,
                "effective": fitted.effective,
                "objective": fitted.fit.objective,
                "converged": fitted.fit.converged,
                "evaluations": fitted.fit.evaluations,
                "precision": shown,
                "pairs": table.head(rows).to_dict("records"),
                **({} if strongest is None else {"couplings": strongest.to_dict("records")}),
            }
        )
        if failure is not None:
            raise with_state(failure, kept)
        return
    columns = tuple(map(str, table.columns))
    formats = tuple(".3f" if name in ("norm", "score", "distance") else "d" for name in columns)
    told = f"{counted(family.n, 'sequences')} (effective number {fitted.effective:.1f}), {family.length} columns."
    if family.dropped:
        were = "was" if len(family.dropped) == 1 else "were"
        told += f" {counted(len(family.dropped), 'sequences')} with letters outside the alphabet {were} left out."
    if fitted.effective < family.length:
        told += " Caution: the effective number is below the number of columns, so that most scores are noise."
    if table.empty:
        told += f" No pair is at least {separation} columns apart; see --separation."
    if precision:
        told += " Share of contacts among the top " + ", ".join(f"{name}: {p:.2f}" for name, p in shown.items()) + "."
        compared = int(table["distance"].notna().sum())
        if compared < family.length:
            told += f" Caution: {counted(compared, 'pairs')} at least {separation} columns apart "
            told += f"{'has' if compared == 1 else 'have'} a known distance, fewer than L = {family.length}."
    lines = tuple(tuple(line) for line in table.head(rows).itertuples(index=False))
    print_table(PlainTable(f"Pairs with the highest scores in {path.name}", columns, lines, told, formats))
    if strongest is not None:
        print_table(_couplings_table(strongest, separation, fitted.caution_of_errors))
    if failure is not None:
        raise with_state(failure, kept)
    if folder is not None:
        files = "contacts.csv, mutations.csv, parameters.plmc, model.ff, contact_map.png and contact_map.svg"
        note(f"Wrote {files if strongest is None else f'couplings.csv, {files}'} to {folder}.")


def _couplings_table(couplings: pandas.DataFrame, separation: int, caution: str) -> PlainTable:
    """The largest single couplings with their standard errors."""
    from fieldfit.report.table import PlainTable

    columns = tuple(map(str, couplings.columns))
    numbers = {"coupling": ".3f", "standard_error": ".3f", "z": ".1f"}
    places = dict.fromkeys(("column_i", "column_j", "position_i", "position_j"), "d")
    formats = tuple((numbers | places).get(name, "") for name in columns)
    told = "Errors do not include the bias caused by the penalty." + (f" Caution: {caution}" if caution else "")
    return PlainTable(
        f"Largest couplings of single letters, at least {separation} columns apart",
        columns,
        tuple(tuple(line) for line in couplings.itertuples(index=False)),
        told,
        formats,
    )


def _name_or_number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
