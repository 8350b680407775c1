"""Identified coordinates of a field: effects of single variables, pairs and larger cliques, each a linear function of θ.

A free table over variables T has more parameters than the data determine: constants move between tables. Its effects
are unique. With one matrix for each variable, the effect of a subset S of T is

    D_S = ⊗_{v ∈ T} (difference_v if v ∈ S else average_v),

applied to the table; effects of the same S from several tables add up. *Corner* coding compares each state with the first
one (differences e_a − e_0, at the first state of the others), *sum* coding with the mean over all states (I − 11ᵀ/q, and
means of the others), so that effects of one S add up to 0 over each of its variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import one_of
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel

#: Numbers in the matrix of effects.
_MOST_EFFECT_ENTRIES = 20_000_000


@dataclass(frozen=True)
class Effects:
    """``names`` of the effects: ``matrix`` (effects, r) times θ, plus ``offset`` (effects,) from fixed log tables."""

    names: tuple[str, ...]
    matrix: FloatArray
    offset: FloatArray

    def at(self, theta: FloatArray) -> FloatArray:
        """The effects at θ (effects,)."""
        values: FloatArray = self.matrix @ theta + self.offset
        return values


def _kron(first: FloatArray, second: FloatArray) -> FloatArray:
    product: FloatArray = np.kron(first, second).astype(np.float64)
    return product


def _corner(q: int) -> tuple[FloatArray, FloatArray]:
    difference = np.eye(q)[1:] - np.eye(q)[0]
    return difference, np.eye(q)[:1]


def _sum(q: int) -> tuple[FloatArray, FloatArray]:
    average = np.full((1, q), 1.0 / q)
    return np.eye(q) - average, average


#: Difference and average of a variable with q states, by the name of the coding, and the first state that is listed.
CODINGS: dict[str, tuple[Callable[[int], tuple[FloatArray, FloatArray]], int]] = {
    "corner": (_corner, 1),
    "sum": (_sum, 0),
}


def effects(model: FieldModel, coding: str) -> Effects:
    """Return all effects of a model's factors, smaller subsets first.

    Effects that no parameter changes are left out, and so are infinite ones, which involve a forbidden state.
    """
    one_of(coding, "coding", tuple(CODINGS), ModelError)
    parts, first = CODINGS[coding]
    graph, r = model.graph, model.n_parameters
    by_subset: dict[tuple[int, ...], FloatArray] = {}
    total = 0
    for place, scope in enumerate(graph.scopes):
        variables = [int(v) for v in scope]
        entries = slice(int(graph.offsets[place]), int(graph.offsets[place + 1]))
        fixed = np.zeros((graph.table_sizes[place], 1)) if model.offset is None else model.offset[entries, None]
        rows = np.concatenate([model.features[entries].toarray(), fixed], axis=1)
        forbidden = np.isneginf(fixed[:, 0])
        rows[forbidden, -1] = 0.0
        for size in range(1, len(variables) + 1):
            for subset in itertools.combinations(range(len(variables)), size):
                chosen = [parts(graph.cardinalities[v])[0 if k in subset else 1] for k, v in enumerate(variables)]
                order = np.argsort([variables[k] for k in subset])
                shape = [len(chosen[k]) for k in subset]
                differences = reduce(_kron, chosen)
                made = differences @ rows
                made[(differences[:, forbidden] != 0).any(axis=1), -1] = np.nan
                made = made.reshape(*shape, r + 1).transpose(*order, len(shape)).reshape(-1, r + 1)
                key = tuple(sorted(variables[k] for k in subset))
                total += 0 if key in by_subset else made.size
                if total > _MOST_EFFECT_ENTRIES:
                    raise ModelError(
                        f"The effects of {r:,} parameters would need a matrix of more than {_MOST_EFFECT_ENTRIES:,} "
                        "numbers."
                    )
                by_subset[key] = by_subset.get(key, 0.0) + made
    names: list[str] = []
    matrices: list[FloatArray] = []
    for key in sorted(by_subset, key=lambda subset: (len(subset), subset)):
        moved = (np.abs(by_subset[key][:, :r]).max(axis=1) > 1e-12) & np.isfinite(by_subset[key][:, r])
        labels = [model.states[v][first:] for v in key]
        spelt = _names([model.names[v] for v in key], labels)
        names += [name for name, used in zip(spelt, moved.tolist(), strict=True) if used]
        matrices.append(by_subset[key][moved])
    together = np.concatenate(matrices) if matrices else np.empty((0, r + 1))
    return Effects(tuple(names), together[:, :r], together[:, r])


def _names(variables: Sequence[str], states: Sequence[Sequence[object]]) -> list[str]:
    return [
        ":".join(f"{name}={state}" for name, state in zip(variables, joint, strict=True))
        for joint in itertools.product(*states)
    ]
