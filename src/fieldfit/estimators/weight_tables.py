"""The weights of a chain CRF by name: as tables of the largest ones and of transitions, and as a start for another CRF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.arguments import instance_of
from fieldfit.data.encoders import FeatureNames
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_layout import ChainLayout, label_name
from fieldfit.types import FloatArray, IntArray, ModelError

if TYPE_CHECKING:
    import pandas as pd


def state_places(layout: ChainLayout) -> tuple[IntArray, IntArray]:
    """Feature and label of every state weight, in the order of θ."""
    if layout.pair_ptr is None or layout.pair_labels is None:
        features, labels = np.divmod(np.arange(layout.n_state), layout.n_labels)
        return features, labels
    features = np.repeat(np.arange(layout.n_features), np.diff(layout.pair_ptr))
    return features, layout.pair_labels.astype(np.int64)


def top_features(model: ChainCRF, theta: FloatArray, n: int, label: int | None) -> pd.DataFrame:
    """The ``n`` largest |w(feature, label)|, of one label if it is given."""
    import pandas as pd

    weights = theta[: model.layout.n_state]
    features, labels = state_places(model.layout)
    chosen = np.arange(len(weights)) if label is None else np.flatnonzero(labels == label)
    largest = chosen[np.argsort(-np.abs(weights[chosen]), kind="stable")[:n]]
    return pd.DataFrame(
        {
            "feature": _feature_names(model, features[largest]),
            "label": [_label(model, code) for code in labels[largest]],
            "weight": weights[largest],
        }
    )


def used_features(model: ChainCRF, theta: FloatArray) -> list[str]:
    """The features that have a weight other than 0 with some label, in their order."""
    features, _ = state_places(model.layout)
    return _feature_names(model, np.unique(features[theta[: model.layout.n_state] != 0]))


def _feature_names(model: ChainCRF, codes: IntArray) -> list[str]:
    names = model.features
    if names is None:
        return [f"x{code}" for code in codes]
    return list(names.of(codes)) if isinstance(names, FeatureNames) else [names[code] for code in codes]


def transition_table(model: ChainCRF, theta: FloatArray) -> pd.DataFrame:
    """Weights from (rows) and to (columns), ``^`` before the first label and ``$`` after the last."""
    import pandas as pd

    layout = model.layout
    K = layout.n_labels
    a, b, c, d, _ = layout.bounds
    table = np.full((K + 1, K + 1), np.nan)
    rows, columns = np.divmod(layout.transition_pairs, K)
    table[rows, columns] = theta[a:b]
    if layout.start:
        table[K, :K] = theta[b:c]
    if layout.end:
        table[:K, K] = theta[c:d]
    names = [_label(model, code) for code in range(K)]
    kept_rows, kept_columns = slice(None) if layout.start else slice(K), slice(None) if layout.end else slice(K)
    return pd.DataFrame(
        table[kept_rows, kept_columns],
        index=pd.Index([*names, "^"][kept_rows], name="from"),
        columns=pd.Index([*names, "$"][kept_columns], name="to"),
    )


def triple_table(model: ChainCRF, theta: FloatArray) -> pd.DataFrame:
    """The weights of label triples: the two labels before, the label and the weight."""
    import pandas as pd

    layout = model.layout
    if layout.triples is None:
        raise ModelError("A first-order chain has no weights for triples of labels; fit with order=2.")
    first = layout.bounds[-1]
    names = [model.parameter_names[place] for place in range(first, layout.n_parameters)]
    parts = [name.rpartition("->") for name in names]
    return pd.DataFrame(
        {"before": [part[0] for part in parts], "label": [part[2] for part in parts], "weight": theta[first:]}
    )


def _label(model: ChainCRF, code: int) -> str:
    return label_name(model.labels, int(code))


def transferred(fit: Fit, model: ChainCRF) -> FloatArray:
    """θ of ``model`` with the weights of ``fit`` wherever both models have one."""
    instance_of(fit, Fit, "The start of a CRFTagger is a CRFTagger or a Fit")
    old = fit.model.as_crf("The start of a CRFTagger")
    label = _matched(old.labels, model.labels, old.n_labels, model.n_labels, "labels")
    feature = _matched(old.features, model.features, old.n_features, model.n_features, "features")
    theta = np.zeros(model.n_parameters)
    source, target = old.layout, model.layout
    a, b, c, d, e = source.bounds
    A, B, C, D, E = target.bounds
    K, old_K = target.n_labels, source.n_labels

    features, labels = state_places(source)
    own_features, own_labels = state_places(target)
    keys = _keys(feature[features], label[labels], K)
    _place(own_features * K + own_labels, keys, fit.theta[:a], theta[:A])

    before, after = np.divmod(source.transition_pairs, old_K)
    _place(target.transition_pairs, _keys(label[before], label[after], K), fit.theta[a:b], theta[A:B])
    known = label >= 0
    if source.start and target.start:
        theta[B:C][label[known]] = fit.theta[b:c][known]
    if source.end and target.end:
        theta[C:D][label[known]] = fit.theta[c:d][known]
    if source.column_pairs is not None and target.column_pairs is not None:
        assert source.column_ptr is not None
        assert target.column_ptr is not None
        before, after = np.divmod(source.column_pairs, old_K)
        pairs = _keys(label[before], label[after], K)
        features = np.repeat(np.arange(source.n_features), np.diff(source.column_ptr))
        owners = np.repeat(np.arange(target.n_features), np.diff(target.column_ptr))
        _place(
            owners * K * K + target.column_pairs, _keys(feature[features], pairs, K * K), fit.theta[d:e], theta[D:E]
        )
    if source.triples is not None and target.triples is not None:
        codes = _keys(*_triple_parts(source.triples, np.append(label, K), old_K), K)
        _place(target.triples, codes, fit.theta[e:], theta[E:])
    return theta


def _triple_parts(triples: IntArray, label: IntArray, n_labels: int) -> tuple[IntArray, IntArray]:
    """The two labels before and the label of each triple, in the target's codes; −1 where one is unknown."""
    left, last = np.divmod(triples, n_labels)
    first, second = np.divmod(left, n_labels + 1)
    return _keys(label[first], label[second], int(label[-1]) + 1), label[last]


def _matched(
    old: Sequence[str] | None, new: Sequence[str] | None, old_size: int, new_size: int, what: str
) -> IntArray:
    """The new code of each old name, −1 where there is none; without names, the codes must agree."""
    if old is None or new is None:
        if old_size != new_size:
            raise ModelError(f"The models have {old_size} and {new_size} {what} without names to match them by.")
        return np.arange(old_size)
    place = {name: code for code, name in enumerate(new[: len(new)])}
    return np.array([place.get(name, -1) for name in old[: len(old)]], dtype=np.int64)


def _keys(first: IntArray, second: IntArray, radix: int) -> IntArray:
    return np.where((first >= 0) & (second >= 0), first * radix + second, -1)


def _place(target_keys: IntArray, keys: IntArray, weights: FloatArray, out: FloatArray) -> None:
    """out[i] = the weight whose key is ``target_keys[i]``; the target keys are sorted."""
    if not len(target_keys):
        return
    place = np.minimum(np.searchsorted(target_keys, keys), len(target_keys) - 1)
    shared = target_keys[place] == keys
    out[place[shared]] = weights[shared]
