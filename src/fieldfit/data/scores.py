"""Precision, recall and F1 for each name and in total, and the accuracy of tokens, as numbers, a table or a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of predicted labels: counts for each name, which is a type of chunks or a label, and rates from them.

    All rates are fractions of 1; a rate whose denominator is 0 is 0, as in conlleval.

    Parameters
    ----------
    unit : str
        What is counted, ``"chunk"`` or ``"label"``.
    names : tuple of str
        The types of chunks or the labels.
    n_gold, n_predicted, n_correct : ndarray of shape (n_names,)
        How many there are, how many were predicted, and how many of these are correct.
    n_tokens, n_tokens_correct : int
        Number of tokens, and of those with the correct label.

    Examples
    --------
    >>> from fieldfit.chains import label_scores
    >>> print(label_scores([["D", "N"], ["V"]], [["D", "N"], ["N"]]))
    3 tokens, accuracy 66.67%
    label  precision  recall      F1    gold  predicted  correct
    D        100.00% 100.00%  100.00       1          1        1
    N         50.00% 100.00%   66.67       1          2        1
    V          0.00%   0.00%    0.00       1          0        0
    total     66.67%  66.67%   66.67       3          3        2
    """

    unit: str
    names: tuple[str, ...]
    n_gold: IntArray
    n_predicted: IntArray
    n_correct: IntArray
    n_tokens: int
    n_tokens_correct: int

    @property
    def accuracy(self) -> float:
        """The fraction of tokens whose label is right."""
        return self.n_tokens_correct / self.n_tokens if self.n_tokens else 0.0

    @property
    def precision(self) -> float:
        """The fraction of what was predicted that is right, over all names."""
        return float(_ratio(self.n_correct.sum(), self.n_predicted.sum()))

    @property
    def recall(self) -> float:
        """The fraction of what is there that was found, over all names."""
        return float(_ratio(self.n_correct.sum(), self.n_gold.sum()))

    @property
    def f1(self) -> float:
        """2·precision·recall / (precision + recall), over all names."""
        return float(_ratio(2 * self.n_correct.sum(), self.n_predicted.sum() + self.n_gold.sum()))

    @property
    def precisions(self) -> FloatArray:
        """(n_names,) the precision of each name."""
        return _ratio(self.n_correct, self.n_predicted)

    @property
    def recalls(self) -> FloatArray:
        """(n_names,) the recall of each name."""
        return _ratio(self.n_correct, self.n_gold)

    @property
    def f1s(self) -> FloatArray:
        """(n_names,) the F1 of each name."""
        return _ratio(2 * self.n_correct, self.n_predicted + self.n_gold)

    def to_frame(self) -> pandas.DataFrame:
        """Return the scores as a DataFrame, with a row for each name and a last row ``total``.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> from fieldfit.chains import label_scores
        >>> label_scores([["D", "N"], ["V"]], [["D", "N"], ["N"]]).to_frame()["correct"].tolist()
        [1, 1, 0, 2]
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "precision": [*self.precisions, self.precision],
                "recall": [*self.recalls, self.recall],
                "f1": [*self.f1s, self.f1],
                "gold": [*self.n_gold.tolist(), int(self.n_gold.sum())],
                "predicted": [*self.n_predicted.tolist(), int(self.n_predicted.sum())],
                "correct": [*self.n_correct.tolist(), int(self.n_correct.sum())],
            },
            index=pd.Index([*self.names, "total"], name=self.unit),
        )

    def table(self) -> str:
        """Return the scores as text, with rates in percent.

        Returns
        -------
        str

        Examples
        --------
        >>> from fieldfit.chains import label_scores
        >>> print(label_scores([["D", "N"]], [["D", "N"]]).table().splitlines()[0])
        2 tokens, accuracy 100.00%
        """
        width = max([len(name) for name in self.names] + [len("total"), len(self.unit)])
        lines = [
            f"{self.n_tokens} tokens, accuracy {100 * self.accuracy:.2f}%",
            f"{self.unit:<{width}}  precision  recall      F1    gold  predicted  correct",
        ]
        rows = [
            *zip(self.names, self.precisions, self.recalls, self.f1s, self.n_gold, self.n_predicted, self.n_correct,
                 strict=True),
            ("total", self.precision, self.recall, self.f1, self.n_gold.sum(), self.n_predicted.sum(),
             self.n_correct.sum()),
        ]  # fmt: skip
        for name, precision, recall, f1, gold, predicted, correct in rows:
            lines.append(
                f"{name:<{width}}  {100 * precision:8.2f}%{100 * recall:7.2f}%{100 * f1:8.2f}{gold:8d}{predicted:11d}"
                f"{correct:9d}"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def _ratio(part: IntArray, whole: IntArray) -> FloatArray:
    result: FloatArray = np.asarray(part) / np.maximum(whole, 1)
    return result
