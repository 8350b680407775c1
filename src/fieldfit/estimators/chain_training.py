"""What a tagger's training decides before the fit: the model, the σ², and when to stop by development data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.checkpoint import Checkpoint, as_checkpoint
from fieldfit.api.validation import cross_validate
from fieldfit.data.chunks import chunk_scores
from fieldfit.data.encoders import Encoder, names_of
from fieldfit.data.sequences import Sequences
from fieldfit.estimators.sequence_input import encode_sequences, gold_labels, split_sentences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.optim.early_stopping import EarlyStopping
from fieldfit.policies import Policy
from fieldfit.shards.backend import Backend, LocalBackend
from fieldfit.shards.pieces import Pieces
from fieldfit.shards.sharded_dataset import read_pieces
from fieldfit.types import DataError, FloatArray, ModelError, Plain

if TYPE_CHECKING:
    import pandas as pd

#: The σ² that ``sigma2="cv"`` tries.
SIGMA2_GRID = (0.1, 1.0, 10.0, 100.0)


def chain_model(
    encoder: Encoder,
    *,
    all_pairs: bool,
    all_transitions: bool,
    start_end: bool,
    order: int,
    unseen_transitions: str,
) -> ChainCRF:
    """The chain of the encoder's features and labels; templates without a B line have no transitions at all."""
    labels, names = names_of(encoder)
    pairs = range(encoder.n_features, len(names))
    without = getattr(getattr(encoder, "spec", None), "transitions", True) is False
    if without and order == 2:
        raise ModelError("These templates have no B line, so the model has no transitions: order must be 1.")
    return ChainCRF(
        len(labels),
        len(names),
        pairs="all" if all_pairs else "observed",
        transitions="none" if without else "all" if all_transitions else "observed",
        order=order,
        unseen_transitions=unseen_transitions,
        start=start_end and not without,
        end=start_end and not without,
        label_pairs=pairs if len(pairs) else False,
        state_features=encoder.n_features,
        labels=labels,
        features=names,
    )


def completed(model: ChainCRF, data: Sequences | Pieces, backend: Backend | None) -> ChainCRF:
    """The model with the weights that occur in sentences in memory or in files."""
    if isinstance(data, Pieces):
        policy = Policy.parse("FL")
        read = read_pieces(
            model, data, policy, backend or LocalBackend(), sample_weight=None, weight_kind="importance", groups=None
        )
        return model.complete(read.seen)
    return model.complete(data)


def sigma2_grid(sigma2: object) -> list[float] | None:
    """The σ² to choose from by cross-validation; None where one is given."""
    if isinstance(sigma2, str) and sigma2 == "cv":
        return list(SIGMA2_GRID)
    return list(sigma2) if isinstance(sigma2, list | tuple) else None


def validated_sigma2(
    model: ChainCRF,
    sequences: Sequences | Pieces,
    policy: Policy | str,
    grid: Sequence[float],
    folds: int,
    sample_weight: ArrayLike | None,
    options: Plain,
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
) -> tuple[float | None, pd.DataFrame]:
    """The σ² of the least held-out negative log-likelihood, with the table of all; sentences count by their weights.

    The finished folds are in a file of their own beside the checkpoint.
    """
    if isinstance(sequences, Pieces):
        raise DataError(
            "sigma2 is chosen by cross-validation on sentences in this process, and these are in files. Give sigma2 as a "
            "number, or read the files first."
        )
    kept = as_checkpoint(checkpoint)
    table = cross_validate(
        model, sequences.weighted(sample_weight), policy, sigma2=list(grid), folds=folds,
        checkpoint=None if kept is None else kept.of_folds, **options,
    )  # fmt: skip
    best = float(table["sigma2"].iloc[0])
    return (best if best < float("inf") else None), table


def development_stopping(
    encoder: Encoder,
    model: ChainCRF,
    X: object,
    y: object,
    *,
    metric: str,
    patience: int,
    check_every: int,
    score_tol: float,
) -> EarlyStopping:
    """Stop when sentences X are tagged no better for ``patience`` iterations; they are tagged every ``check_every``."""
    sequences = encode_sequences(encoder, X, y)
    gold = gold_labels(encoder, X, y)
    names = np.array(list(encoder.labels), dtype=object)

    def score(theta: FloatArray) -> float:
        codes = model.predict(theta, sequences)
        if metric == "accuracy":  # labels never seen are −1, and so wrong
            return float(np.mean(codes == sequences.labels)) if len(codes) else 0.0
        return chunk_scores(gold, split_sentences(names[codes].tolist(), sequences.offsets)).f1

    return EarlyStopping(score, patience=-(-patience // check_every), every=check_every, tol=score_tol)
