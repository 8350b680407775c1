"""The weights of a chain CRF as tables: the largest state weights, and the transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
    codes, names = features[largest], model.features
    if names is None:
        shown = [f"x{code}" for code in codes]
    else:
        shown = names.of(codes) if isinstance(names, FeatureNames) else [names[code] for code in codes]
    return pd.DataFrame(
        {"feature": shown, "label": [_label(model, code) for code in labels[largest]], "weight": weights[largest]}
    )


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
