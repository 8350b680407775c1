"""`CRF.tagger_`: what programs call on python-crfsuite's tagger, sentence by sentence."""

from __future__ import annotations

import math

from fieldfit.data.label_lists import Label
from fieldfit.estimators.crf_tagger import CRFTagger
from fieldfit.types import DataError


class SentenceTagger:
    """The methods ``labels``, ``set``, ``tag``, ``probability`` and ``marginal`` of ``pycrfsuite.Tagger``.

    Parameters
    ----------
    tagger : CRFTagger
        The fitted tagger.

    Examples
    --------
    >>> from fieldfit.compat.sklearn_crfsuite import CRF
    >>> tagger = CRF(c2=0.1).fit([[["the"], ["dog"]]], [["D", "N"]]).tagger_
    >>> tagger.labels()
    ['D', 'N']
    >>> tagger.tag([["the"], ["dog"]])
    ['D', 'N']
    >>> tagger.marginal("D", 0) > 0.5
    True
    """

    def __init__(self, tagger: CRFTagger) -> None:
        self.tagger = tagger
        self._sentence: object = None
        self._marginals: list[dict[Label, float]] | None = None

    def labels(self) -> list[Label]:
        """Return the labels.

        Returns
        -------
        list
        """
        return list(self.tagger.classes_)

    def set(self, xseq: object) -> None:
        """Set the sentence that `tag`, `probability` and `marginal` use.

        Parameters
        ----------
        xseq : sentence
            One sentence.
        """
        self._sentence, self._marginals = xseq, None

    def tag(self, xseq: object = None) -> list[Label]:
        """Predict the labels of a sentence.

        Parameters
        ----------
        xseq : sentence or None, default: None
            None: the one of `set`.

        Returns
        -------
        list
        """
        if xseq is not None:
            self.set(xseq)
        return self.tagger.predict_single(self._current())

    def probability(self, yseq: list[Label]) -> float:
        """Compute the probability of a sequence of labels for the current sentence.

        Parameters
        ----------
        yseq : list
            A label for each token.

        Returns
        -------
        float
        """
        return math.exp(self.tagger.log_likelihood([self._current()], [yseq])[0])

    def marginal(self, y: Label, pos: int) -> float:
        """Compute the probability of a label at one token of the current sentence.

        Parameters
        ----------
        y : str
            The label.
        pos : int
            Place of the token, from 0.

        Returns
        -------
        float
        """
        if self._marginals is None:
            self._marginals = self.tagger.predict_marginals_single(self._current())
        return self._marginals[pos][y]

    def _current(self) -> object:
        if self._sentence is None:
            raise DataError("There is no sentence: call tag(xseq) or set(xseq) first.")
        return self._sentence
