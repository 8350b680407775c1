"""The public functions: they assemble the pieces and are the only place that knows all of them."""

from fieldfit.api.files import find_models, load
from fieldfit.api.fitting import fit
from fieldfit.api.result import Fit
from fieldfit.api.theory import asymptotics

__all__ = ["Fit", "asymptotics", "find_models", "fit", "load"]
