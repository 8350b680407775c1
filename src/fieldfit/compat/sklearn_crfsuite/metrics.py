"""Scores of label sequences, by scikit-learn's metrics over all tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import chain
from typing import TypeVar

from sklearn import metrics

from fieldfit.data.label_lists import Label

Labels = Iterable[Sequence[Label]]
Score = TypeVar("Score")


def flatten(y: Labels) -> list[Label]:
    """Join the labels of all sentences into one list.

    Parameters
    ----------
    y : list of lists
        Labels of each sentence.

    Returns
    -------
    list

    Examples
    --------
    >>> from fieldfit.compat.sklearn_crfsuite.metrics import flatten
    >>> flatten([["D", "N"], ["V"]])
    ['D', 'N', 'V']
    """
    return list(chain.from_iterable(y))


def _over_tokens(score: Callable[..., Score]) -> Callable[..., Score]:
    """The metric of scikit-learn, applied to the tokens of all sentences."""

    @wraps(score)
    def flat(y_true: Labels, y_pred: Labels, *args: object, **options: object) -> Score:
        return score(flatten(y_true), flatten(y_pred), *args, **options)

    return flat


flat_accuracy_score = _over_tokens(metrics.accuracy_score)
flat_precision_score = _over_tokens(metrics.precision_score)
flat_recall_score = _over_tokens(metrics.recall_score)
flat_f1_score = _over_tokens(metrics.f1_score)


@_over_tokens
def flat_fbeta_score(y_true: list[Label], y_pred: list[Label], beta: float, **options: object) -> object:
    """F-beta over all tokens; the options are those of `sklearn.metrics.fbeta_score`."""
    return metrics.fbeta_score(y_true, y_pred, beta=beta, **options)


@_over_tokens
def flat_classification_report(
    y_true: list[Label], y_pred: list[Label], labels: Sequence[Label] | None = None, **options: object
) -> object:
    """Precision, recall and F1 of each label; the options are those of `sklearn.metrics.classification_report`."""
    return metrics.classification_report(y_true, y_pred, labels=labels, **options)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Compute the share of sentences in which every label is right.

    Parameters
    ----------
    y_true, y_pred : list of lists
        True and predicted labels of each sentence.

    Returns
    -------
    float
        0 if there are no sentences.

    Examples
    --------
    >>> from fieldfit.compat.sklearn_crfsuite.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["D", "N"], ["V"]], [["D", "V"], ["V"]])
    0.5
    """
    right = [list(true) == list(predicted) for true, predicted in zip(y_true, y_pred, strict=True)]
    return sum(right) / len(right) if right else 0.0
