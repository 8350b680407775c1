"""Checkpoints of computations that are not one descent: resamples, folds, networks, separate fits, automatic weights, sgd.

The file is changed in one to three places, and the computation continues from it. Most cases continue from states whose
computation costs next to nothing (`CHEAP`), through the same readers; the others are those of the public functions.
"""

import functools
import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import fieldfit as ff
from fieldfit import networks
from tests.fuzz.changed import changed_file
from tests.fuzz.files import in_folder

#: The share of cases of the public functions.
PUBLIC = 0.04


def kept_work(content):
    """A checkpoint of finished parts, resamples, separate fits or epochs, changed as the content decides and continued."""
    source = random.Random(content)
    computation = source.choice(PUBLIC_ONES if source.random() < PUBLIC else CHEAP)
    with in_folder(b"", "a.state") as path, changed_file(path, kept_seed(computation), source):
        computation(ff.Checkpoint(path, resume=True))


@functools.cache
def kept_seed(computation):
    """The checkpoint of a computation that has ended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.state"
        computation(ff.Checkpoint(path, every=0.0))
        return path.read_bytes()


def _parts(kept):
    """Two computations that follow each other, with parts of two arrays."""
    from fieldfit.api.finished_parts import as_parts, kept_parts

    keeper = as_parts(kept)
    shapes = {"weights": (2, 3, 3), "values": (2,)}
    for number, count in ((0, 3), (1, 2)):
        with kept_parts(keeper, np.arange(3.0), computation=number) as part:
            for _ in range(count):
                made = part(shapes, lambda: {name: np.zeros(shape) for name, shape in shapes.items()})
                assert all(made[name].shape == shape for name, shape in shapes.items())


def _resamples(kept):
    _fitted().bootstrap(4, checkpoint=kept)


def _epochs(kept):
    """Epochs of sgd on a sum of squares."""
    from fieldfit.api.checkpoint import file_keeper
    from fieldfit.optim.stochastic import minimise_stochastic

    keeper = file_keeper(kept, _fitted().needed, "sgd")
    minimise_stochastic(lambda x: (float(x @ x), 2 * x), Squares(), np.ones(3), max_iter=4, keeper=keeper)


@dataclass(frozen=True)
class Squares:
    """‖x‖² as a sum of two batches."""

    n_batches: int = 2
    precision: float = 1.0

    def walk(self, x, visits, rates):
        """Steps on the visited batches."""
        total = 0.0
        with np.errstate(all="ignore"):  # a changed state may have a rate without bound
            for rate in rates.tolist():
                total += float(x @ x) / 2
                x -= rate * x
        return total

    def value(self, x):
        """The sum."""
        with np.errstate(all="ignore"):
            return float(x @ x)


@functools.cache
def _fitted():
    machine = ff.BoltzmannMachine(3)
    return ff.fit(machine, machine.sample([1.0, -1.0, 0.5], 60, 0).values, "PL1", sigma2=1.0, check_drift=False)


@functools.cache
def _table():
    return pd.DataFrame(_fitted().model.sample([1.0, -1.0, 0.5], 60, 0).values, columns=list("abc"))


def _network(kept):
    networks.bootstrap(_table(), resamples=4, checkpoint=kept)


def _groups(kept):
    both = pd.concat([_table().assign(g="u"), _table().assign(g="v")])
    networks.compare_groups(both, by="g", permutations=4, checkpoint=kept)


def _stability(kept):
    networks.stability_selection(_table(), pairs=2, checkpoint=kept)


def _folds(kept):
    ff.cross_validate(ff.BoltzmannMachine(3), _table().to_numpy(), "PL1", folds=2, checkpoint=kept)


def _nodes(kept):
    ff.fit(ff.BoltzmannMachine(3), _table().to_numpy(), "Nodewise >> optimal", checkpoint=kept)


def _shards_of_nodes(kept):
    ff.fit(ff.BoltzmannMachine(3), _table().to_numpy(), "Nodewise >> optimal", checkpoint=kept, shards=1)


def _rounds(kept):
    ff.fit(ff.BoltzmannMachine(3), _table().to_numpy(), "PL1 + PL2", weights="auto", checkpoint=kept)


def _sgd(kept):
    sentences = [[{"w": "the"}, {"w": "cat"}], [{"w": "a"}, {"w": "dog"}, {"w": "ran"}]] * 4
    tags = [["D", "N"], ["D", "N", "V"]] * 4
    ff.CRFTagger(method="sgd", sigma2=1.0, max_iter=3).fit(sentences, tags, checkpoint=replace(kept, every=1e9))


CHEAP = [_parts, _epochs, _resamples]
PUBLIC_ONES = [_network, _groups, _stability, _folds, _nodes, _shards_of_nodes, _rounds, _sgd]
