"""`fieldfit fit crf` and `fieldfit plan crf`: a linear-chain CRF from a file of labelled sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldfit.cli.chain_training import TrainingOptions, say_fit
from fieldfit.cli.chains import (
    Format,
    LabelledFile,
    SeparatorOption,
    as_separator,
    as_sigma2,
    load_tagger,
    read_sentences,
)
from fieldfit.cli.checkpoints import told_interrupts
from fieldfit.cli.cluster import Cluster, ShardsOption, Workers, WorkerTimeout, check_backend, opened_backend
from fieldfit.cli.invocation import signed
from fieldfit.cli.options import with_options
from fieldfit.cli.planning import ChainPlanOptions, run_plan

if TYPE_CHECKING:
    from fieldfit.data.attributes import AttributeText
    from fieldfit.data.columns import ColumnText
    from fieldfit.data.sequences import Sequences
    from fieldfit.estimators.crf_tagger import CRFTagger
    from fieldfit.models.chain_crf import ChainCRF
    from fieldfit.shards.backend import Backend
    from fieldfit.shards.pieces import Pieces
    from fieldfit.shards.sentence_files import SentenceFiles
    from fieldfit.types import Plain


class Metric(StrEnum):
    """What is measured on the development data."""

    accuracy = "accuracy"
    f1 = "f1"


class ChainMethod(StrEnum):
    """Optimisers of a tagger."""

    auto = "auto"
    lbfgs = "lbfgs"
    sgd = "sgd"


@dataclass(frozen=True)
class CRFOptions:
    """How sentences are read, and which weights the CRF has."""

    features: Annotated[
        str,
        typer.Option(
            "--features", help="Features: columns, tagger, chunker, conll2000, or a file of CRF++ templates."
        ),
    ] = "columns"
    kind: Annotated[Format, typer.Option("--format", help="Format of the file: columns, or CRFsuite's text.")] = (
        Format.columns
    )
    separator: SeparatorOption = None
    min_count: Annotated[
        int, typer.Option("--min-count", min=1, help="Leave out features that occur less often than this.")
    ] = 1
    all_pairs: Annotated[
        bool,
        typer.Option("--all-pairs/--observed-pairs", help="Weights for every feature and label, or those observed."),
    ] = False
    all_transitions: Annotated[
        bool | None,
        typer.Option(
            "--all-transitions/--observed-transitions",
            help="Weights for every pair of labels, or those observed. Default: every pair.",
        ),
    ] = None
    start_end: Annotated[
        bool | None,
        typer.Option("--start-end/--no-start-end", help="Weights of the first and the last label. Default: yes."),
    ] = None
    order: Annotated[
        int,
        typer.Option(
            "--order", min=1, max=2, help="Order of the chain. 2: also weights for triples of adjacent labels."
        ),
    ] = 1
    forbid_unseen: Annotated[
        bool,
        typer.Option(
            "--forbid-unseen/--allow-unseen",
            help="With --order 2: forbid label triples that do not occur in the file. This is faster.",
        ),
    ] = False
    crfsuite: Annotated[
        bool, typer.Option("--crfsuite", help="Use CRFsuite's weights: observed transitions, no start and end.")
    ] = False

    def tagger(self, **training: Any) -> CRFTagger:
        """The estimator with these options, and with those of training."""
        from fieldfit.estimators.crf_tagger import CRFTagger

        return CRFTagger(
            min_count=self.min_count,
            all_pairs=self.all_pairs,
            all_transitions=self.all_transitions,
            start_end=self.start_end,
            order=self.order,
            unseen_transitions="forbidden" if self.forbid_unseen else "zero",
            crfsuite_compatible=self.crfsuite,
            features=self.features if self.kind is Format.columns else None,
            **training,
        )

    def text(self, path: Path) -> ColumnText | AttributeText:
        """The sentences of a file."""
        return read_sentences(path, self.kind, self.separator)

    def files(self, path: Path) -> SentenceFiles | None:
        """The files of a folder or of a pattern; None for one file."""
        from glob import has_magic

        from fieldfit.shards.making_sentences import ENDING
        from fieldfit.shards.sentence_files import SentenceFiles

        pattern = str(path / f"*{ENDING}") if path.is_dir() else str(path)
        if not has_magic(pattern) or path.is_file():
            return None
        return SentenceFiles.matching(pattern, separator=as_separator(self.separator), format=self.kind.value)

    def read(self, path: Path, opened: Callable[[], Backend | None]) -> tuple[ChainCRF, Sequences | Pieces]:
        """The model and the sentences; those of several files are read on the workers, which ``opened`` starts."""
        files = self.files(path)
        _, model, sentences = self.tagger().prepare(
            self.text(path) if files is None else files, backend=None if files is None else opened()
        )
        return model, sentences


@dataclass(frozen=True)
class StoppingOptions:
    """When a fit stops by its score on other sentences, and where it starts."""

    dev: Annotated[
        Path | None,
        typer.Option(
            "--dev",
            metavar="FILE",
            help="Stop when the score on this file no longer improves. Default: no early stopping.",
        ),
    ] = None
    patience: Annotated[
        int, typer.Option("--patience", min=1, help="Stop after this many iterations without a better score.")
    ] = 10
    check_every: Annotated[
        int, typer.Option("--check-every", min=1, help="Iterations between two scores on --dev.")
    ] = 5
    score_tol: Annotated[
        float, typer.Option("--score-tol", min=0, help="Least improvement of the score that counts.")
    ] = 0.0
    metric: Annotated[Metric, typer.Option("--metric", help="Score on --dev.")] = Metric.accuracy
    start: Annotated[
        Path | None,
        typer.Option(
            "--start", metavar="MODEL.ff", help="Saved tagger with the starting weights. Default: start from 0."
        ),
    ] = None


@with_options
def fit(
    train: LabelledFile,
    model: CRFOptions,
    stopping: StoppingOptions,
    options: TrainingOptions,
    method: Annotated[
        ChainMethod, typer.Option("--method", help="Optimiser; sgd: stochastic gradients, good after few iterations.")
    ] = ChainMethod.auto,
    workers: Workers = None,
    cluster: Cluster = None,
    worker_timeout: WorkerTimeout = None,
    shards: ShardsOption = None,
) -> None:
    """Fit a linear-chain CRF (a tagger) to sentences. The label is the last column of the file.

    FILE may be a pattern such as 'data/*.conll', or a folder that `fieldfit shard --sentences` made: the files are then
    read by the workers, one shard each.
    """
    from fieldfit.cli.output import collected_warnings, print_json
    from fieldfit.cli.progress import shown_progress
    from fieldfit.cli.weighting import weights_option

    check_backend(workers, cluster, worker_timeout)
    checkpoint = options.prepare()
    tagger = model.tagger(
        policy=options.policy,
        sigma2=as_sigma2(options.sigma2),
        l1=options.l1,
        weights=weights_option(options.weights),
        method=method.value,
        max_iter=options.max_iter,
        tol=options.tol,
        metric=stopping.metric.value,
        patience=stopping.patience,
        check_every=stopping.check_every,
        score_tol=stopping.score_tol,
        random_state=options.seed,
    )
    begin = None if stopping.start is None else load_tagger(stopping.start)
    data: SentenceFiles | ColumnText | AttributeText | None = model.files(train)
    if data is None:
        data = model.text(train)
    development = None if stopping.dev is None else model.text(stopping.dev)
    with (
        opened_backend(workers, cluster, worker_timeout) as backend,
        collected_warnings() as warned,
        shown_progress(options.progress, options.json, options.max_iter) as progress,
        told_interrupts(checkpoint),
    ):
        tagger.fit(
            data,
            X_dev=development,
            start=begin,
            progress=progress,
            backend=backend,
            shards=shards,
            checkpoint=checkpoint,
        )
    if options.out is not None:
        tagger.fit_ = signed(tagger.fit_)
    failure = options.saved(tagger)
    if options.json:
        print_json(_document(tagger, options) | options.described(warned, failure))
    else:
        _print(tagger, options)
    options.end(tagger.fit_, checkpoint, failure)


@with_options
def plan(train: LabelledFile, model: CRFOptions, options: ChainPlanOptions) -> None:
    """Compare policies for a linear-chain CRF (a tagger).

    FILE may be a pattern or a folder, as for fit crf.
    """
    run_plan(lambda opened: model.read(train, opened), options)


def _document(tagger: CRFTagger, options: TrainingOptions) -> Plain:
    document = {
        **tagger.fit_.report(),
        "labels": tagger.classes_,
        "features": tagger.encoder_.n_features,
        "sigma2": tagger.sigma2_,
        "top_features": tagger.top_features(options.rows).to_dict("records"),
    }
    if hasattr(tagger, "cv_results_"):
        document["cross_validation"] = tagger.cv_results_.to_dict("records")
    if hasattr(tagger, "development_scores_"):
        document["development_scores"] = tagger.development_scores_
    return document


def _print(tagger: CRFTagger, options: TrainingOptions) -> None:
    from fieldfit.cli.output import print_table, say
    from fieldfit.report.table import PlainTable

    say_fit(tagger.fit_, len(tagger.classes_), f"{tagger.encoder_.n_features:,} features", tagger.sigma2_, options.l1)
    if hasattr(tagger, "cv_results_"):
        lines = tuple(
            tuple(float(value) for value in row)
            for row in tagger.cv_results_[["sigma2", "nll", "excess", "excess_std_error"]].to_numpy(dtype=float)
        )
        say("")
        print_table(PlainTable("Cross-validation", ("sigma2", "held-out NLL", "excess", "std. error"), lines))
    if options.rows:
        largest = tagger.top_features(options.rows)
        shown = tuple(zip(largest["feature"], largest["label"], map(float, largest["weight"]), strict=True))
        say("")
        print_table(PlainTable("", ("feature", "label", "weight"), shown, "", ("", "", ".4f")))
