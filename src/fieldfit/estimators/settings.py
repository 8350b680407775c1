"""scikit-learn's common parameters as fieldfit takes them: seeds and threads."""

from __future__ import annotations

import numpy as np

from fieldfit.arguments import seed, whole_number
from fieldfit.threads import processors
from fieldfit.types import FieldfitError

_MOST_JOBS = 2**31 - 1


def seed_from_setting(random_state: object) -> int:
    """A seed: the number itself, one drawn from a generator, or a new one for None."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return seed(random_state)


def threads_of(n_jobs: int | None) -> int | None:
    """Threads as `use_threads` takes them: None leaves the setting, −1 is every processor, −2 all but one, …"""
    if n_jobs is None:
        return None
    n_jobs = whole_number(n_jobs, "n_jobs", -_MOST_JOBS, _MOST_JOBS)
    if n_jobs == 0:
        raise FieldfitError("n_jobs is 0; give a number of threads, −1 for all processors, or None.")
    if n_jobs < 0:
        return max(1, processors() + 1 + n_jobs)
    return n_jobs
