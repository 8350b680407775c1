"""Tagging one sentence at a time, as services do: from attributes or columns to labels in one call of a kernel."""

from __future__ import annotations

from weakref import finalize

from fieldfit import _kernels
from fieldfit.api.result import Fit
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.encoders import Encoder
from fieldfit.data.label_lists import Label

SentenceTagger = _kernels.AttributeTagger | _kernels.TemplateTagger
#: The compiled taggers of fits that are still in use, by identity; None: this fit cannot have one.
_TAGGERS: dict[int, SentenceTagger | None] = {}


def tag_single(fit: Fit, encoder: Encoder, classes: list[Label], sentence: object) -> list[Label] | None:
    """The best labels of a sentence; None where the general way must be taken (which also explains errors)."""
    key = id(fit)
    try:
        tagger = _TAGGERS[key]
    except KeyError:
        tagger = _TAGGERS[key] = _compiled(fit, encoder, classes)
        finalize(fit, _TAGGERS.pop, key, None)
    return None if tagger is None or sentence is None else tagger.tag(sentence)


def _compiled(fit: Fit, encoder: Encoder, classes: list[Label]) -> SentenceTagger | None:
    model = fit.model.as_crf("A tagger")
    layout = model.layout
    if layout.triples is not None or layout.n_labels < 2:
        return None
    kind: type[SentenceTagger]
    reader: _kernels.NameTable | _kernels.TemplateEncoder
    if isinstance(encoder, AttributeEncoder):
        kind, reader, n_features = _kernels.AttributeTagger, encoder.table, encoder.n_features
    elif isinstance(encoder, ColumnEncoder):
        kind, reader = _kernels.TemplateTagger, encoder.kernel
        n_features = encoder.n_features + encoder.n_pair_features
    else:
        return None
    if layout.n_features != n_features:
        return None
    state, transitions, base, start, end, columns = layout.unpack(model.check_theta(fit.theta))
    pair_ptr, pair_labels = layout.kernel_pairs()
    return kind(
        reader=reader,
        names=list(classes),
        state=state,
        transitions=transitions,
        base=base,
        start=start,
        end=end,
        pair_ptr=pair_ptr,
        pair_labels=pair_labels,
        columns=None if layout.column_ptr is None else columns,
        column_ptr=layout.column_ptr,
        column_places=layout.kernel_columns,
    )
