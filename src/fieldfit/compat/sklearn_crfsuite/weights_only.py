"""A fit that has weights and nothing else: no samples, no likelihood, no standard errors."""

from __future__ import annotations

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.api.state import Convergence, SampleSize
from fieldfit.data.encoders import Encoder
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.penalties import Penalties
from fieldfit.policies import Policy
from fieldfit.types import FloatArray


def fit_of_weights(
    model: ChainCRF,
    theta: FloatArray,
    encoder: Encoder,
    message: str,
    *,
    iterations: int = 0,
    seconds: float = 0.0,
    interrupted: bool = False,
) -> Fit:
    """A fit with these weights, of which ``message`` says where they come from."""
    return Fit(
        model=model,
        policy=Policy.parse("FL"),
        theta=model.check_theta(theta),
        free=np.ones(len(theta), dtype=bool),
        penalty=Penalties(np.full(len(theta), np.inf), None),
        size=SampleSize(0, 0.0),
        convergence=Convergence(
            not interrupted, interrupted, message, np.nan, np.nan, iterations, iterations, 0, seconds
        ),
        random_state=0,
        encoder=encoder,
    )
