"""`fieldfit fit crf`: a linear-chain CRF from a file of labelled sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldfit.cli.chains import (
    Format,
    LabelledFile,
    SeparatorOption,
    as_sigma2,
    load_tagger,
    read_sentences,
)
from fieldfit.cli.shared import Json, Out, Seed, Threads, takes, use_threads

if TYPE_CHECKING:
    from fieldfit.data.attributes import AttributeText
    from fieldfit.data.columns import ColumnText
    from fieldfit.estimators.crf_tagger import CRFTagger


class Metric(StrEnum):
    """What is measured on the development data."""

    accuracy = "accuracy"
    f1 = "f1"


@dataclass(frozen=True)
class TrainingOptions:
    """How the fit is made, as given."""

    policy: str
    sigma2: str
    l1: float | None
    weights: str | None
    seed: int
    tol: float
    max_iter: int
    dev: Path | None
    patience: int
    check_every: int
    metric: str
    start: Path | None
    threads: int | None
    progress: bool | None
    rows: int
    out: Path | None
    json: bool


def training_options(
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="What is selected, such as 'PL1@0.5 + 0.2*FL@0.5'.")
    ] = "FL",
    sigma2: Annotated[
        str,
        typer.Option("--sigma2", metavar="V", help="Variance of the penalty; none; cv; or V1,V2,… to choose from."),
    ] = "10",
    l1: Annotated[float | None, typer.Option("--l1", min=0, help="Weight of the L1 penalty (none).")] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="B1,B2,…", help="β of each term, or auto.")
    ] = None,
    seed: Seed = 0,
    tol: Annotated[float, typer.Option("--tol", help="Largest gradient entry for each sentence at the end.")] = 1e-4,
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Iterations at most.")] = 1000,
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Stop when this file is tagged no better.")
    ] = None,
    patience: Annotated[int, typer.Option("--patience", min=1, help="Iterations without a better score.")] = 10,
    check_every: Annotated[int, typer.Option("--check-every", min=1, help="Tag --dev every so many iterations.")] = 5,
    metric: Annotated[Metric, typer.Option("--metric", help="The score on --dev.")] = Metric.accuracy,
    start: Annotated[
        Path | None, typer.Option("--start", metavar="MODEL.ff", help="Start from the weights of a saved tagger.")
    ] = None,
    threads: Threads = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show each iteration (on a terminal).")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Features to print.")] = 10,
    out: Out = None,
    json: Json = False,
) -> TrainingOptions:
    """Collect the options of training."""
    return TrainingOptions(
        policy, sigma2, l1, weights, seed, tol, max_iter, dev, patience, check_every, metric.value, start, threads,
        progress, rows, out, json,
    )  # fmt: skip


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
    *,
    common: TrainingOptions,
) -> None:
    """Fit a linear-chain CRF (a tagger) to labelled sentences; the label is the last column."""
    from fieldfit.cli.output import InterruptedFitError, check_folder, collected_warnings, note, print_json
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.weighting import weights_option
    from fieldfit.estimators.crf_tagger import CRFTagger
    from fieldfit.policies import Policy

    use_threads(common.threads)
    Policy.parse(common.policy)
    check_folder(common.out)
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
        metric=common.metric,
        patience=common.patience,
        check_every=common.check_every,
        random_state=common.seed,
        features=features if kind is Format.columns else None,
    )
    begin = None if common.start is None else load_tagger(common.start)
    text = read_sentences(train, kind, separator)
    development = None if common.dev is None else read_sentences(common.dev, kind, separator)
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
        if common.out is not None:
            note(f"saved: {common.out}")
    if tagger.fit_.message == "stopped: interrupted":
        kept = f"; {common.out} has the estimate so far" if common.out else ""
        raise InterruptedFitError(f"Interrupted after {tagger.n_iter_} iterations: not converged{kept}.")


def _count(text: ColumnText | AttributeText) -> int:
    offsets = getattr(text, "offsets", None)
    return len(text.rows.offsets if offsets is None else offsets) - 1  # type: ignore[union-attr]


def _document(tagger: CRFTagger, warned: list[str], options: TrainingOptions) -> dict[str, Any]:
    document = {
        **tagger.fit_.report(),
        "labels": tagger.classes_,
        "features": tagger.encoder_.n_features,
        "sigma2": tagger.sigma2_,
        "l1": options.l1,
        "file": None if options.out is None else str(options.out),
        "warnings": list(warned),
        "top_features": tagger.top_features(options.rows).to_dict("records"),
    }
    if hasattr(tagger, "cv_results_"):
        document["cross_validation"] = tagger.cv_results_.to_dict("records")
    if hasattr(tagger, "development_scores_"):
        document["development_scores"] = tagger.development_scores_
    return document


def _print(tagger: CRFTagger, rows: int) -> None:
    from fieldfit.cli.output import print_table, say
    from fieldfit.cli.weighting import print_weights
    from fieldfit.report.table import PlainTable

    fit = tagger.fit_
    say(
        f"{fit.model.kind}: {fit.n:,} sentences, {len(tagger.classes_)} labels, {tagger.encoder_.n_features:,} features, "
        f"{fit.model.n_parameters:,} weights"
    )
    say(f"policy: {fit.policy}; sigma2: {'none' if tagger.sigma2_ is None else format(tagger.sigma2_, 'g')}")
    say(f"{fit.message} ({fit.iterations} iterations, {fit.evaluations} evaluations, {fit.seconds:.2f} s)")
    say(f"objective {fit.objective:.6f}, gradient norm {fit.gradient_norm:.3g}")
    if fit.weights is not None:
        print_weights(fit.weights)
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
