"""Accuracy of tokens, and precision, recall and F1 of each label by itself (labels without chunks, such as POS)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fieldfit.data.chunks import paired_labels
from fieldfit.data.label_lists import Label
from fieldfit.data.scores import Scores


def token_accuracy(gold: Sequence[Sequence[Label]], predicted: Sequence[Sequence[Label]]) -> float:
    """The fraction of tokens whose predicted label is the gold one."""
    return label_scores(gold, predicted).accuracy


def label_scores(gold: Sequence[Sequence[Label]], predicted: Sequence[Sequence[Label]]) -> Scores:
    """Compute precision, recall and F1 of each label over tokens; in total all three equal the accuracy.

    Parameters
    ----------
    gold : sequence of sequences of labels
        The true labels of each sentence.
    predicted : sequence of sequences of labels
        The predicted labels.

    Returns
    -------
    Scores

    Examples
    --------
    >>> from fieldfit.chains import label_scores
    >>> scores = label_scores([["D", "N"], ["V"]], [["D", "N"], ["N"]])
    >>> dict(zip(scores.names, scores.recalls.tolist()))
    {'D': 1.0, 'N': 1.0, 'V': 0.0}
    """
    flat_gold, flat_predicted, _ = paired_labels(gold, predicted)
    names = tuple(sorted({*flat_gold, *flat_predicted}))
    codes = {name: code for code, name in enumerate(names)}
    right = np.fromiter(map(codes.__getitem__, flat_gold), np.int64, len(flat_gold))
    guessed = np.fromiter(map(codes.__getitem__, flat_predicted), np.int64, len(flat_gold))
    correct = right[right == guessed]
    return Scores(
        unit="label",
        names=names,
        n_gold=np.bincount(right, minlength=len(names)),
        n_predicted=np.bincount(guessed, minlength=len(names)),
        n_correct=np.bincount(correct, minlength=len(names)),
        n_tokens=len(flat_gold),
        n_tokens_correct=len(correct),
    )
