"""`fieldfit fit boltzmann-chain` and `plan boltzmann-chain`: labels and symbols jointly, from labelled sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.chain_training import TrainingOptions, say_fit
from fieldfit.cli.chains import Format, LabelledFile, SeparatorOption, as_sigma2, read_sentences
from fieldfit.cli.checkpoints import told_interrupts
from fieldfit.cli.invocation import signed
from fieldfit.cli.options import with_options
from fieldfit.cli.planning import ChainPlanOptions, run_plan

if TYPE_CHECKING:
    from fieldfit.data.columns import ColumnText


@dataclass(frozen=True)
class SymbolOptions:
    """How sentences with a symbol for each token are read."""

    symbol: Annotated[
        int, typer.Option("--symbol", min=0, metavar="COLUMN", help="Column with the symbols, counted from 0.")
    ] = 0
    separator: SeparatorOption = None

    def text(self, path: Path) -> ColumnText:
        """The columns of a file."""
        from fieldfit.data.columns import ColumnText

        text = read_sentences(path, Format.columns, self.separator)
        assert isinstance(text, ColumnText)
        return text


@with_options
def fit(train: LabelledFile, model: SymbolOptions, options: TrainingOptions) -> None:
    """Fit a Boltzmann chain (labels, and a symbol for each). The label is the last column of the file."""
    from fieldfit.cli.output import collected_warnings, print_json, print_table, say
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.showing import parameter_rows
    from fieldfit.cli.weighting import weights_option
    from fieldfit.estimators.symbol_tagger import SymbolTagger
    from fieldfit.report.table import PlainTable
    from fieldfit.types import FieldfitError

    checkpoint = options.prepare()
    penalty = as_sigma2(options.sigma2)
    if isinstance(penalty, str | list):
        raise FieldfitError(f"--sigma2 {options.sigma2}: a Boltzmann chain takes one number, or none.")
    text = model.text(train)
    with (
        collected_warnings() as warned,
        shown_progress(options.progress, options.json, options.max_iter) as progress,
        told_interrupts(checkpoint),
    ):
        tagger = SymbolTagger.train(
            text,
            options.policy,
            symbol=model.symbol,
            sigma2=penalty,
            l1=options.l1,
            weights=weights_option(options.weights),
            random_state=options.seed,
            tol=options.tol,
            max_iter=options.max_iter,
            progress=progress,
            checkpoint=checkpoint,
        )
    fitted, symbols = tagger.fit_, tagger.model_.n_symbols
    if options.out is not None:
        tagger.fit_ = signed(tagger.fit_)
    failure = options.saved(tagger)
    largest = parameter_rows(fitted, options.rows)
    if options.json:
        document = {**fitted.report(), "labels": tagger.classes_, "symbols": symbols, "symbol_column": model.symbol}
        document |= {"sigma2": penalty, **options.described(warned, failure)}
        print_json(document | {"largest": [{"name": name, "estimate": value} for name, value in largest]})
    else:
        say_fit(fitted, len(tagger.classes_), f"{symbols:,} symbols", penalty, options.l1)
        if largest:
            say("")
            print_table(PlainTable("", ("parameter", "estimate"), tuple(largest), "", ("", ".4f")))
    options.end(fitted, checkpoint, failure)


@with_options
def plan(train: LabelledFile, model: SymbolOptions, options: ChainPlanOptions) -> None:
    """Compare policies for a Boltzmann chain."""
    from fieldfit.estimators.symbol_tagger import learn_chain

    run_plan(lambda _: learn_chain(model.text(train), model.symbol)[1:], options)
