"""Fields, a family of sequences, and Z as a dense table for comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from fieldfit.policies import Component, Family, FieldStructure, Full, PseudoLikelihood, Selection
from fieldfit.policies.laws.base import find_law, law_names

COMPOSITES = (
    "PL1 + 0.2*PL2@0.5",
    "0.7*PL1 + 0.3*PL2",
    "Multinomial(PL1[0:2]) + Multinomial(PL1[2:5])",
    "PL1[0:2] + Multinomial(0.3*PL1[2:5] + 0.7*PL2@2) + Unless(0.3*FL, Partition(2)) + 0.5*PL2/row",
    "Partition(2) + Partition(2)@2",
    "LogLinear(FL + PL1[0:2]; 0: -1; 0,1: -inf) + 0.3*PL1",
)


def law_examples() -> list[str]:
    """The examples of every law that is found, and sums of several."""
    found = [find_law(name) for name in law_names()]
    return [text for law in found if law is not None for text in law.examples] + list(COMPOSITES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "law_text" in metafunc.fixturenames:
        metafunc.parametrize("law_text", law_examples())


def complete_field(m: int, observed: tuple[int, ...] = ()) -> FieldStructure:
    return FieldStructure(m, tuple(tuple(j for j in range(m) if j != i) for i in range(m)), observed)


@pytest.fixture
def make_field() -> Callable[..., FieldStructure]:
    return complete_field


@pytest.fixture
def field() -> FieldStructure:
    return complete_field(5)


def dense(selection: Selection) -> np.ndarray:
    """Z (n, K) of a selection over a field."""
    parts = []
    for part in selection.parts:
        z = np.zeros((selection.n, part.family.size), dtype=np.int64)
        if part.indices is not None:
            np.add.at(z, (np.repeat(np.arange(selection.n), np.diff(part.indptr)), part.indices), 1)
        else:
            z[slice(None) if part.rows is None else part.rows] = 1
        assert z.sum() == part.count(selection.n)
        assert np.array_equal(z.any(axis=1), part.any_row(selection.n))
        parts.append(z)
    return np.hstack(parts)


@pytest.fixture
def as_table() -> Callable[[Selection], np.ndarray]:
    return dense


@dataclass(frozen=True)
class Windows:
    """A family over sequences: every window of k positions, so that long sequences have more components."""

    name: str
    lengths: tuple[int, ...]
    k: int
    size: None = None

    def sizes(self, start: int, stop: int) -> np.ndarray:
        return np.maximum(np.array(self.lengths[start:stop], dtype=np.int64) - self.k + 1, 1)

    def component(self, index: int, row: int = 0) -> Component:
        return Component(tuple(range(index, index + self.k)), ())


@dataclass(frozen=True)
class Sequences:
    lengths: tuple[int, ...]

    def bind_family(self, family: Family) -> Windows:
        if isinstance(family, PseudoLikelihood):
            return Windows(str(family), self.lengths, family.k)
        assert isinstance(family, Full)
        return Windows("FL", self.lengths, max(self.lengths))


@pytest.fixture
def sequences() -> Sequences:
    return Sequences(tuple(np.random.default_rng(0).integers(1, 30, size=400).tolist()))
