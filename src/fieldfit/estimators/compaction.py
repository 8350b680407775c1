"""A fitted chain CRF without its zero or tiny weights, and without the features that have none left."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.api.state import Saved
from fieldfit.data.alphabet import Alphabet
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.encoders import Encoder, names_of
from fieldfit.data.sequences import Sequences
from fieldfit.data.template_blocks import Block
from fieldfit.estimators.weight_tables import state_places
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_layout import ChainLayout
from fieldfit.types import BoolArray, IntArray


@dataclass(frozen=True)
class Compaction:
    """What was dropped, and the log-likelihood (a sum over ``n_sequences``) before and after."""

    threshold: float
    parameters_before: int
    parameters_after: int
    features_before: int
    features_after: int
    n_sequences: int
    log_likelihood_before: float
    log_likelihood_after: float

    @property
    def loss(self) -> float:
        """How much log-likelihood a sentence lost in the mean."""
        return (self.log_likelihood_before - self.log_likelihood_after) / max(self.n_sequences, 1)

    def __str__(self) -> str:
        return (
            f"{self.parameters_before:,} weights became {self.parameters_after:,} (|w| > {self.threshold:g}), "
            f"{self.features_before:,} features {self.features_after:,}; the log-likelihood of a sentence fell by "
            f"{self.loss:.3g}"
        )


def compacted(fit: Fit, model: ChainCRF, threshold: float, sequences: Sequences) -> tuple[Fit, Compaction]:
    """The smaller fit and its report; the loss is that on ``sequences``."""
    layout, theta = model.layout, fit.theta
    a, b, _, d, e = layout.bounds
    kept = np.abs(theta) > threshold
    if layout.forbidden:
        kept[e:] = True  # a triple without a weight would be impossible
    kept[b:d] = True  # start and end are as many as labels: all or none
    features, labels = state_places(layout)
    column_features = None
    if layout.column_ptr is not None:
        column_features = np.repeat(np.arange(layout.n_features), np.diff(layout.column_ptr))
    used = np.zeros(layout.n_features, dtype=bool)
    used[features[kept[:a]]] = True
    if column_features is not None:
        used[column_features[kept[d:e]]] = True
    encoder = fit.encoder
    smaller_encoder = None if encoder is None else _without(encoder, used)
    if smaller_encoder is None:
        used[:] = True
    code = np.cumsum(used) - 1
    n_features = int(used.sum())
    new_layout = ChainLayout(
        layout.n_labels,
        n_features,
        layout.transition_pairs[kept[a:b]],
        _pointer(code[features[kept[:a]]], n_features),
        labels[kept[:a]].astype(np.int32),
        layout.start,
        layout.end,
        None if column_features is None else _pointer(code[column_features[kept[d:e]]], n_features),
        None if layout.column_pairs is None else layout.column_pairs[kept[d:e]],
        triples=None if layout.triples is None else layout.triples[kept[e:]],
        forbidden=layout.forbidden,
    )
    kept_encoder = encoder if smaller_encoder is None else smaller_encoder
    names = (model.labels, model.features) if kept_encoder is None else names_of(kept_encoder)
    label_pairs: bool | list[int] = False
    if model.label_pairs is True:
        label_pairs = True
    elif model.label_pairs is not False:
        label_pairs = [int(code[f]) for f in model.label_pairs if used[f]]
    smaller = ChainCRF(
        model.n_labels,
        n_features,
        pairs="observed",
        transitions="none" if model.transitions == "none" else "observed",
        order=model.order,
        unseen_transitions=model.unseen_transitions,
        start=model.start,
        end=model.end,
        label_pairs=label_pairs,
        state_features=int(used[: model.state_features].sum()),
        labels=names[0],
        features=names[1],
        layout=new_layout,
    )
    short = theta[kept]
    before = float(model.log_likelihood(theta, sequences).sum())
    after = float(smaller.log_likelihood(short, _recoded(sequences, used, code, n_features)).sum())
    report = Compaction(
        threshold, len(theta), len(short), layout.n_features, n_features, sequences.n_sequences, before, after
    )
    fitted = replace(
        fit,
        model=smaller,
        theta=short,
        free=fit.free[kept],
        penalty=fit.penalty.subset(kept),
        encoder=kept_encoder,
        weights=None,
        prepared=None,
        saved=Saved(),
    )
    return fitted, report


def _pointer(features: IntArray, n_features: int) -> IntArray:
    pointer = np.zeros(n_features + 1, dtype=np.int64)
    np.cumsum(np.bincount(features, minlength=n_features), out=pointer[1:])
    return pointer


def _recoded(sequences: Sequences, used: BoolArray, code: IntArray, n_features: int) -> Sequences:
    """The sequences with the features that are left."""
    present = used[sequences.indices]
    kept = np.concatenate(([0], np.cumsum(present))).astype(np.int64)
    return replace(
        sequences,
        indptr=kept[sequences.indptr],
        indices=code[sequences.indices[present]].astype(np.int32),
        values=None if sequences.values is None else sequences.values[present],
        n_features=n_features,
    )


def _without(encoder: Encoder, used: BoolArray) -> Encoder | None:
    """The encoder that gives the used features only; None where it cannot leave any out."""
    if isinstance(encoder, AttributeEncoder):
        names = [name for name, keep in zip(encoder.features, used.tolist(), strict=True) if keep]
        return AttributeEncoder(Alphabet(names), encoder.labels)
    if isinstance(encoder, ColumnEncoder):
        blocks, first = [], 0
        for block in encoder.state_blocks + encoder.pair_blocks:
            last = first + len(block.space)
            blocks.append(Block(block.templates, replace(block.space, keys=block.space.keys[used[first:last]])))
            first = last
        count = len(encoder.state_blocks)
        return replace(encoder, state_blocks=tuple(blocks[:count]), pair_blocks=tuple(blocks[count:]))
    return None
