"""`FittedTagger`: the predictions of a saved chain CRF, without the settings of an estimator.

It needs no scikit-learn, whose import takes longer than tagging a file.
"""

from __future__ import annotations

import os

from fieldfit.api.files import load
from fieldfit.api.result import Fit
from fieldfit.data.encoders import Encoder
from fieldfit.docstrings import filled
from fieldfit.estimators.sequence_predictor import TAGGER_EXAMPLE, SequencePredictor
from fieldfit.types import ModelError


class FittedTagger(SequencePredictor):
    """The fit of a chain CRF and the encoder of its sentences."""

    def __init__(self, fit: Fit, encoder: Encoder) -> None:
        fit.model.as_crf("A tagger")
        self.fit_ = fit
        self.encoder_ = encoder
        self.classes_ = list(encoder.labels)
        self.n_jobs = None
        self.metric = "accuracy"


@filled(TAGGER_EXAMPLE)
def load_tagger(path: str | os.PathLike[str]) -> FittedTagger:
    """Load a tagger for predictions only, for services: it imports neither scikit-learn nor pandas.

    Parameters
    ----------
    path : str or Path
        A file of `CRFTagger.save` or ``fieldfit fit crf``.

    Returns
    -------
    FittedTagger
        It has the methods of `CRFTagger` that predict (`predict`, `predict_single`, `predict_proba`, …) and score.

    Examples
    --------
    %(tagger)s
    >>> tagger.save("tagger.ff")
    >>> ff.load_tagger("tagger.ff").predict_single(["the", "cat"])
    ['D', 'N']
    """
    fit = load(path)
    fit.model.as_crf("load_tagger")
    if fit.encoder is None:
        raise ModelError(
            f"{path} has a chain CRF without an encoder of sentences, so it cannot read them. Give a file of "
            f"CRFTagger.save or `fieldfit fit crf`."
        )
    return FittedTagger(fit, fit.encoder)
