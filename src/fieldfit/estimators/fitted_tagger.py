"""`FittedTagger`: the predictions of a saved chain CRF, without the settings of an estimator.

It needs no scikit-learn, whose import takes longer than tagging a file.
"""

from __future__ import annotations

from fieldfit.api.result import Fit
from fieldfit.data.encoders import Encoder
from fieldfit.estimators.sequence_predictor import SequencePredictor


class FittedTagger(SequencePredictor):
    """The fit of a chain CRF and the encoder of its sentences."""

    def __init__(self, fit: Fit, encoder: Encoder) -> None:
        fit.model.as_crf("A tagger")
        self.fit_ = fit
        self.encoder_ = encoder
        self.classes_ = list(encoder.labels)
        self.n_jobs = None
        self.metric = "accuracy"
