"""`fieldfit fit boltzmann-chain`: labels and symbols jointly, from a file of labelled sentences."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldfit.cli.chains import LabelledFile, SeparatorOption, as_sigma2
from fieldfit.cli.shared import Json, Out, Seed, Threads, use_threads
from fieldfit.cli.weighting import weights_option


def boltzmann_chain(
    train: LabelledFile,
    symbol: Annotated[
        int, typer.Option("--symbol", min=0, metavar="COLUMN", help="The column of the symbols, from 0.")
    ] = 0,
    separator: SeparatorOption = None,
    policy: Annotated[str, typer.Option("--policy", "-p", help="What is selected, such as 'PL1 + 0.2*PL2'.")] = "FL",
    sigma2: Annotated[str, typer.Option("--sigma2", metavar="V", help="Variance of the penalty, or none.")] = "10",
    l1: Annotated[float | None, typer.Option("--l1", min=0, help="Weight of the L1 penalty (none).")] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="B1,B2,…", help="β of each term, or auto.")
    ] = None,
    seed: Seed = 0,
    tol: Annotated[float, typer.Option("--tol", help="Largest gradient entry for each sentence at the end.")] = 1e-4,
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Iterations at most.")] = 1000,
    threads: Threads = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show each iteration (on a terminal).")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Parameters to print.")] = 10,
    out: Out = None,
    json: Json = False,
) -> None:
    """Fit a Boltzmann chain (labels, and a symbol for each) to labelled sentences; the label is the last column."""
    from fieldfit.cli.chains import Format, read_sentences
    from fieldfit.cli.output import (
        InterruptedFitError,
        check_folder,
        collected_warnings,
        note,
        print_json,
        print_table,
        say,
    )
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.showing import parameter_rows
    from fieldfit.data.columns import ColumnText
    from fieldfit.estimators.symbol_tagger import SymbolTagger
    from fieldfit.policies import Policy
    from fieldfit.types import FieldfitError

    use_threads(threads)
    Policy.parse(policy)
    check_folder(out)
    penalty = as_sigma2(sigma2)
    if isinstance(penalty, str | list):
        raise FieldfitError(f"--sigma2 {sigma2}: a Boltzmann chain takes one number, or none.")
    text = read_sentences(train, Format.columns, separator)
    assert isinstance(text, ColumnText)
    with (
        collected_warnings() as warned,
        shown_progress(progress, json, max_iter, tol * (len(text.offsets) - 1)) as shown,
    ):
        tagger = SymbolTagger.train(
            text,
            policy,
            symbol=symbol,
            sigma2=penalty,
            l1=l1,
            weights=weights_option(weights),
            random_state=seed,
            tol=tol,
            max_iter=max_iter,
            progress=shown,
        )
    fit = tagger.fit_
    if out is not None:
        tagger.save(out)
    if json:
        document = {
            **fit.report(),
            "labels": tagger.classes_,
            "symbols": tagger.model_.n_symbols,
            "symbol_column": symbol,
        }
        document |= {"sigma2": penalty, "l1": l1, "file": None if out is None else str(out), "warnings": list(warned)}
        largest = parameter_rows(fit, rows)
        print_json(document | {"largest": [{"name": name, "estimate": value} for name, value in largest]})
    else:
        say(
            f"{fit.model.kind}: {fit.n:,} sentences, {len(tagger.classes_)} labels, {tagger.model_.n_symbols:,} symbols, "
            f"{fit.model.n_parameters:,} parameters"
        )
        say(f"policy: {fit.policy}; sigma2: {'none' if penalty is None else format(penalty, 'g')}")
        say(f"{fit.message} ({fit.iterations} iterations, {fit.evaluations} evaluations, {fit.seconds:.2f} s)")
        say(f"objective {fit.objective:.6f}, gradient norm {fit.gradient_norm:.3g}")
        if rows:
            from fieldfit.report.table import PlainTable

            say("")
            columns = ("parameter", "estimate")
            print_table(PlainTable("", columns, tuple(parameter_rows(fit, rows)), "", ("", ".4f")))
        if out is not None:
            note(f"saved: {out}")
    if fit.message == "stopped: interrupted":
        kept = f"; {out} has the estimate so far" if out else ""
        raise InterruptedFitError(f"Interrupted after {fit.iterations} iterations: not converged{kept}.")


def register(app: typer.Typer) -> None:
    """Add `fit boltzmann-chain`."""
    app.command("boltzmann-chain")(boltzmann_chain)
