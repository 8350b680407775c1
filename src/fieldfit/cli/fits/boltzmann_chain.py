"""`fieldfit fit boltzmann-chain`: labels and symbols jointly, from a file of labelled sentences."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldfit.cli.chain_training import TrainingOptions, say_fit, training_options
from fieldfit.cli.chains import Format, LabelledFile, SeparatorOption, as_sigma2, read_sentences
from fieldfit.cli.shared import takes


@takes(training_options)
def boltzmann_chain(
    train: LabelledFile,
    symbol: Annotated[
        int, typer.Option("--symbol", min=0, metavar="COLUMN", help="The column of the symbols, from 0.")
    ] = 0,
    separator: SeparatorOption = None,
    *,
    common: TrainingOptions,
) -> None:
    """Fit a Boltzmann chain (labels, and a symbol for each) to labelled sentences; the label is the last column."""
    from fieldfit.cli.output import collected_warnings, print_json, print_table, say
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.showing import parameter_rows
    from fieldfit.cli.weighting import weights_option
    from fieldfit.data.columns import ColumnText
    from fieldfit.estimators.symbol_tagger import SymbolTagger
    from fieldfit.report.table import PlainTable
    from fieldfit.types import FieldfitError

    common.prepare()
    penalty = as_sigma2(common.sigma2)
    if isinstance(penalty, str | list):
        raise FieldfitError(f"--sigma2 {common.sigma2}: a Boltzmann chain takes one number, or none.")
    text = read_sentences(train, Format.columns, separator)
    assert isinstance(text, ColumnText)
    target = common.tol * (len(text.offsets) - 1)
    with (
        collected_warnings() as warned,
        shown_progress(common.progress, common.json, common.max_iter, target) as progress,
    ):
        tagger = SymbolTagger.train(
            text,
            common.policy,
            symbol=symbol,
            sigma2=penalty,
            l1=common.l1,
            weights=weights_option(common.weights),
            random_state=common.seed,
            tol=common.tol,
            max_iter=common.max_iter,
            progress=progress,
        )
    fit, symbols = tagger.fit_, tagger.model_.n_symbols
    if common.out is not None:
        tagger.save(common.out)
    largest = parameter_rows(fit, common.rows)
    if common.json:
        document = {**fit.report(), "labels": tagger.classes_, "symbols": symbols, "symbol_column": symbol}
        document |= {"sigma2": penalty, **common.described(warned)}
        print_json(document | {"largest": [{"name": name, "estimate": value} for name, value in largest]})
    else:
        say_fit(fit, len(tagger.classes_), f"{symbols:,} symbols", penalty)
        if largest:
            say("")
            print_table(PlainTable("", ("parameter", "estimate"), tuple(largest), "", ("", ".4f")))
        common.say_saved()
    common.check_ended(fit)


def register(app: typer.Typer) -> None:
    """Add `fit boltzmann-chain`."""
    app.command("boltzmann-chain")(boltzmann_chain)
