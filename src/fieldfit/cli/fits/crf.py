"""`fieldfit fit crf`: a linear-chain CRF from a file of labelled sentences."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldfit.cli.chain_training import TrainingOptions, say_fit, training_options
from fieldfit.cli.chains import (
    Format,
    LabelledFile,
    SeparatorOption,
    as_sigma2,
    load_tagger,
    read_sentences,
)
from fieldfit.cli.shared import takes

if TYPE_CHECKING:
    from fieldfit.data.attributes import AttributeText
    from fieldfit.data.columns import ColumnText
    from fieldfit.estimators.crf_tagger import CRFTagger


class Metric(StrEnum):
    """What is measured on the development data."""

    accuracy = "accuracy"
    f1 = "f1"


@takes(training_options)
def crf(
    train: LabelledFile,
    features: Annotated[
        str, typer.Option("--features", help="conll2000, tagger, columns, or a file of CRF++ templates.")
    ] = "columns",
    kind: Annotated[Format, typer.Option("--format", help="Columns, or CRFsuite's text.")] = Format.columns,
    separator: SeparatorOption = None,
    min_count: Annotated[int, typer.Option("--min-count", min=1, help="Leave out rarer features.")] = 1,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs/--observed-pairs", help="Weights for every feature and label.")
    ] = False,
    all_transitions: Annotated[
        bool | None, typer.Option("--all-transitions/--observed-transitions", help="For every pair of labels.")
    ] = None,
    start_end: Annotated[
        bool | None, typer.Option("--start-end/--no-start-end", help="For the first and the last label.")
    ] = None,
    crfsuite: Annotated[
        bool, typer.Option("--crfsuite", help="CRFsuite's model: seen transitions, no ends.")
    ] = False,
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Stop when this file is tagged no better.")
    ] = None,
    patience: Annotated[int, typer.Option("--patience", min=1, help="Iterations without a better score.")] = 10,
    check_every: Annotated[int, typer.Option("--check-every", min=1, help="Tag --dev every so many iterations.")] = 5,
    metric: Annotated[Metric, typer.Option("--metric", help="The score on --dev.")] = Metric.accuracy,
    start: Annotated[
        Path | None, typer.Option("--start", metavar="MODEL.ff", help="Start from the weights of a saved tagger.")
    ] = None,
    *,
    common: TrainingOptions,
) -> None:
    """Fit a linear-chain CRF (a tagger) to labelled sentences; the label is the last column."""
    from fieldfit.cli.output import collected_warnings, print_json
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.weighting import weights_option
    from fieldfit.estimators.crf_tagger import CRFTagger

    common.prepare()
    tagger = CRFTagger(
        common.policy,
        sigma2=as_sigma2(common.sigma2),
        l1=common.l1,
        weights=weights_option(common.weights),
        min_count=min_count,
        all_pairs=all_pairs,
        all_transitions=all_transitions,
        start_end=start_end,
        crfsuite_compatible=crfsuite,
        max_iter=common.max_iter,
        tol=common.tol,
        metric=metric.value,
        patience=patience,
        check_every=check_every,
        random_state=common.seed,
        features=features if kind is Format.columns else None,
    )
    begin = None if start is None else load_tagger(start)
    text = read_sentences(train, kind, separator)
    development = None if dev is None else read_sentences(dev, kind, separator)
    target = common.tol * _count(text)
    with (
        collected_warnings() as warned,
        shown_progress(common.progress, common.json, common.max_iter, target) as progress,
    ):
        tagger.fit(text, X_dev=development, start=begin, progress=progress)
    if common.out is not None:
        tagger.save(common.out)
    if common.json:
        print_json(_document(tagger, warned, common))
    else:
        _print(tagger, common.rows)
        common.say_saved()
    common.check_ended(tagger.fit_)


def _count(text: ColumnText | AttributeText) -> int:
    offsets = getattr(text, "offsets", None)
    return len(text.rows.offsets if offsets is None else offsets) - 1  # type: ignore[union-attr]


def _document(tagger: CRFTagger, warned: list[str], options: TrainingOptions) -> dict[str, Any]:
    document = {
        **tagger.fit_.report(),
        "labels": tagger.classes_,
        "features": tagger.encoder_.n_features,
        "sigma2": tagger.sigma2_,
        **options.described(warned),
        "top_features": tagger.top_features(options.rows).to_dict("records"),
    }
    if hasattr(tagger, "cv_results_"):
        document["cross_validation"] = tagger.cv_results_.to_dict("records")
    if hasattr(tagger, "development_scores_"):
        document["development_scores"] = tagger.development_scores_
    return document


def _print(tagger: CRFTagger, rows: int) -> None:
    from fieldfit.cli.output import print_table, say
    from fieldfit.report.table import PlainTable

    say_fit(tagger.fit_, len(tagger.classes_), f"{tagger.encoder_.n_features:,} features", tagger.sigma2_)
    if hasattr(tagger, "cv_results_"):
        lines = tuple(
            tuple(float(value) for value in row)
            for row in tagger.cv_results_[["sigma2", "nll", "excess", "excess_std_error"]].to_numpy(dtype=float)
        )
        say("")
        print_table(PlainTable("Cross-validation", ("sigma2", "held-out NLL", "excess", "std. error"), lines))
    if rows:
        largest = tagger.top_features(rows)
        shown = tuple(zip(largest["feature"], largest["label"], map(float, largest["weight"]), strict=True))
        say("")
        print_table(PlainTable("", ("feature", "label", "weight"), shown, "", ("", "", ".4f")))


def register(app: typer.Typer) -> None:
    """Add `fit crf`."""
    app.command("crf")(crf)
