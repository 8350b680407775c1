"""The algorithms of CRFsuite that learn from mistakes: averaged perceptron, passive-aggressive updates, AROW.

They tag one sentence after the other, and move the weights where the tags are wrong. They maximise no likelihood, so what
they learn predicts, and has no standard errors; its probabilities are not calibrated.

- *Averaged perceptron* ("ap"; Collins, 2002): w ← w + δ, where δ is the difference of the features on the true and on the
  predicted path. The result is the average of w over all visits.
- *Passive-aggressive* ("pa"; Crammer et al., 2006): w ← w + τ δ with the smallest step τ that corrects the mistake by a
  margin, limited by c.
- *AROW* ("arow"; Crammer, Kulesza and Dredze, 2009): each weight has a variance as well, which shrinks with its updates,
  and weights with a larger variance move further.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray

#: Sentences between two looks for Ctrl-C.
_PART = 4096


class MistakeRule(IntEnum):
    """How a mistake changes the weights; the numbers are those of the kernel."""

    PERCEPTRON = 0
    PASSIVE_AGGRESSIVE = 1
    AROW = 2


@dataclass(frozen=True)
class MistakeDriven:
    """One of the algorithms, with CRFsuite's defaults.

    Parameters
    ----------
    rule
        The algorithm.
    type
        Of passive-aggressive updates: 0 (steps without a limit), 1 (at most c) or 2 (a squared penalty).
    c
        Their aggressiveness.
    error_sensitive
        Whether their margin is the square root of the number of wrong labels instead of 1.
    averaging
        Whether their result is the average of the weights over all visits.
    variance, gamma
        Of AROW: the first variance of each weight, and the trade-off between fit and caution.
    max_iterations
        Passes over the sentences.
    epsilon
        Stop when the mean loss of a pass is below this; AROW also if it is equal.
    """

    rule: MistakeRule
    type: int = 1
    c: float = 1.0
    error_sensitive: bool = True
    averaging: bool = True
    variance: float = 1.0
    gamma: float = 1.0
    max_iterations: int = 100
    epsilon: float = 0.0

    def learn(
        self, model: ChainCRF, sequences: Sequences, tell: Callable[[int, float], object] | None = None
    ) -> tuple[FloatArray, int, bool]:
        """The weights, the number of passes, and whether Ctrl-C ended them.

        The sentences of each pass are in random order, always the same one. ``tell(pass, loss)`` is called after each.
        """
        if (sequences.labels < 0).any():
            raise DataError("Sentences with missing labels can only be fitted with 'lbfgs' or 'l2sgd'.")
        weights = np.zeros(model.n_parameters)
        averages = self.rule is not MistakeRule.AROW and self.averaging
        second = np.full_like(weights, self.variance) if self.rule is MistakeRule.AROW else np.zeros_like(weights)
        random, n = np.random.default_rng(0), sequences.n_sequences
        # Visits are counted from 1.
        visits, done, interrupted = 1.0, 0, False
        try:
            while done < self.max_iterations:
                order = random.permutation(n)
                loss, mistakes = 0.0, 0
                for begin in range(0, n, _PART):
                    part = order[begin : begin + _PART]
                    lost, wrong = self._visit(model, sequences, part, weights, second, visits)
                    loss, mistakes, visits = loss + lost, mistakes + wrong, visits + len(part)
                done += 1
                if tell is not None:
                    tell(done, loss)
                mean = loss / max(n, 1)
                if mean < self.epsilon or (self.rule is MistakeRule.AROW and mean <= self.epsilon):
                    break
                if not mistakes:  # the other passes would change nothing but the number of visits
                    visits += float(n) * (self.max_iterations - done)
                    break
        except KeyboardInterrupt:
            interrupted = True
        return (weights - second / visits if averages else weights), done, interrupted

    def _visit(
        self,
        model: ChainCRF,
        sequences: Sequences,
        order: IntArray,
        weights: FloatArray,
        second: FloatArray,
        visits: float,
    ) -> tuple[float, int]:
        pair_ptr, pair_labels = model.layout.kernel_pairs()
        loss, mistakes = _kernels.chain_mistakes_pass(
            offsets=sequences.offsets,
            indptr=sequences.indptr,
            indices=sequences.indices,
            values=sequences.values,
            labels=sequences.labels,
            pair_ptr=pair_ptr,
            pair_labels=pair_labels,
            transition_at=_transition_places(model),
            order=order,
            weights=weights,
            second=second,
            rule=int(self.rule),
            type=self.type,
            c=self.c,
            error_sensitive=self.error_sensitive,
            gamma=self.gamma,
            visits=visits,
        )
        return loss, mistakes


def _transition_places(model: ChainCRF) -> Int32Array:
    """(K, K): the place of each transition's weight in θ; −1 where there is none."""
    layout = model.layout
    places = np.full((layout.n_labels, layout.n_labels), -1, dtype=np.int32)
    places.reshape(-1)[layout.transition_pairs] = layout.bounds[0] + np.arange(len(layout.transition_pairs))
    return places
