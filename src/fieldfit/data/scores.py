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
    """Counts of what is there, what was predicted and what of it is right, for each name (a chunk type or a label).

    All rates are fractions of 1; a rate whose denominator is 0 is 0, as in conlleval.
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
        """A row for each name and a last row ``total``."""
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
        """The scores as text, rates in percent."""
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
