"""Encoded sequences and selected windows, for experiments with chain models.

    from fieldfit import chains

    text = chains.read_columns("train.txt")
    encoder, sequences = chains.ColumnEncoder.fit(text, "conll2000")
    fit = ff.fit(ff.ChainCRF(sequences.n_labels, sequences.n_features), sequences, "PL1", sigma2=1.0)

`Sequences.recode` and `ChainCRF.keep_features` reduce a model to the features that the training data have, and
`BoltzmannChain(..., unseen=m)` does the same for symbols; both leave the fit unchanged. `selected_windows` lists the
windows that a policy has drawn.
"""

from __future__ import annotations

from fieldfit.arguments import seed
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.chunks import chunk_scores
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, join_texts, parse_columns, read_columns
from fieldfit.data.crfsuite_text import parse_crfsuite, read_crfsuite
from fieldfit.data.label_scores import label_scores
from fieldfit.data.scores import Scores
from fieldfit.data.sequences import Sequences, as_sequences
from fieldfit.data.templates import FeatureSpec, parse_templates, read_templates
from fieldfit.models.chain_problem import windows_of_selection as _windows
from fieldfit.models.chain_segments import Segments
from fieldfit.policies.policy import Policy, as_policy
from fieldfit.policies.windows import SequenceStructure
from fieldfit.shards.sentence_files import SentenceFiles

__all__ = [
    "AttributeEncoder",
    "ColumnEncoder",
    "ColumnText",
    "FeatureSpec",
    "Scores",
    "Segments",
    "SentenceFiles",
    "Sequences",
    "chunk_scores",
    "join_texts",
    "label_scores",
    "parse_columns",
    "parse_crfsuite",
    "parse_templates",
    "read_columns",
    "read_crfsuite",
    "read_templates",
    "selected_windows",
]


def selected_windows(sequences: Sequences, policy: Policy | str, random_state: int = 0) -> tuple[Segments, ...]:
    """List the windows that a policy selects, as `fit` draws them with the same random_state.

    Parameters
    ----------
    sequences : Sequences
        The sequences.
    policy : str or Policy
        A policy of windows, such as ``"PL1 + 0.2*PL2"`` or ``"FL"``.
    random_state : int, default: 0
        Seed of Z.

    Returns
    -------
    tuple of Segments
        For each term the sequence (``rows``), first token (``first``) and number of tokens (``width``) of its windows,
        and whether a label stands beside them (``has_left``, ``has_right``).

    Examples
    --------
    >>> from fieldfit import chains
    >>> data = chains.Sequences([0, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 2], None, [0, 1, 1, 0, 1], 3, 2)
    >>> pairs, whole = chains.selected_windows(data, "PL2 + FL")
    >>> pairs.first.tolist(), pairs.width.tolist(), whole.width.tolist()
    ([0, 1, 3], [2, 2, 2], [3, 2])
    """
    checked = as_sequences(sequences)
    drawn = (
        as_policy(policy).bind(SequenceStructure(checked.lengths)).draw(seed(random_state), 0, checked.n_sequences)
    )
    return tuple(Segments(checked.offsets, _windows(part)) for part in drawn.parts)
