"""The moment conditions of a first stage: those of its components, and instruments up to a graph distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.refinement.component_scores import ScoreConditions, StackedConditions
from fieldfit.refinement.conditions import Conditions, NodeConditions
from fieldfit.types import FloatArray, PolicyError

#: Z (n, components) of a drawn selection.
Masking = Callable[[Selection], FloatArray]
#: Components up to which their scores are stacked.
_MOST_COMPONENTS = 2_000


@dataclass(frozen=True)
class Stack:
    """Conditions with the law of the selection of their components.

    ``mean`` (components,) is λ and ``second`` (components, components) E[ZZᵀ]; both None where everything is selected.
    ``first`` (n_parameters, p) is Λ: the first stage's score is Λg. ``extra`` components at the end are instruments that
    use all samples.
    """

    conditions: Conditions
    first: FloatArray
    mean: FloatArray | None
    second: FloatArray | None
    extra: int

    @property
    def masking(self) -> Masking | None:
        """The function that makes Z of a drawn selection, None where everything is selected; it can travel alone."""
        return None if self.mean is None else partial(selected_components, extra=self.extra)

    def mask(self, selection: Selection) -> FloatArray | None:
        """Z (n, components), None where everything is selected."""
        masking = self.masking
        return None if masking is None else masking(selection)


def selected_components(selection: Selection, extra: int) -> FloatArray:
    """Z (n, components) of a drawn selection, with ``extra`` columns of ones at the end."""
    columns = []
    for part in selection.parts:
        size = part.family.size
        assert size is not None
        selected = np.zeros((selection.n, size))
        if part.indices is not None and part.indptr is not None:
            selected[np.repeat(np.arange(selection.n), np.diff(part.indptr)), part.indices] = 1.0
        else:
            selected[...] = 1.0 if part.rows is None else part.rows[:, None]
        columns.append(selected)
    if extra:
        columns.append(np.ones((selection.n, extra)))
    return np.concatenate(columns, axis=1)


def only_nodes(bound: BoundPolicy) -> bool:
    """Whether every component is one variable given all others."""
    families = _field_families(bound)
    return len(families) == len(bound.families) and all(f.block_size == 1 and f.conditions_on_rest for f in families)


def _field_families(bound: BoundPolicy) -> list[FieldFamily]:
    return [family for family in bound.families if isinstance(family, FieldFamily)]


def stack(model: FieldModel, bound: BoundPolicy, distance: int) -> Stack:
    """The conditions of a policy's components and of instruments up to this graph distance."""
    beta = bound.beta()
    if len(beta) > _MOST_COMPONENTS and not only_nodes(bound):
        raise PolicyError(
            f"'{bound.policy}' has {len(beta):,} components; the scores of at most {_MOST_COMPONENTS:,} can be combined "
            f"with matrix weights. Use a policy of single variables (PL1) or fewer components before '>> optimal'."
        )
    conditions: Conditions
    extra = 0
    if only_nodes(bound):
        members = [family.blocks(np.arange(family.size))[1] for family in _field_families(bound)]
        nodes = np.concatenate(members)
        conditions = NodeConditions(model, nodes, distance)
    else:
        components = [family.component(k) for family in bound.families for k in range(family.size or 0)]
        conditions = ScoreConditions(model, components)
        if distance > 1:
            free = model.structure().free
            conditions = StackedConditions(
                [conditions, NodeConditions(model, free, distance)], [len(components), len(free)]
            )
            extra = len(free)
    weight = np.concatenate([beta, np.zeros(extra)])[conditions.component]
    first: FloatArray = conditions.score_coefficients.toarray() * weight
    if bound.everything:
        return Stack(conditions, first, None, None, extra)
    mean = np.concatenate([bound.mean(), np.ones(extra)])
    second = np.outer(mean, mean)
    k = len(beta)
    second[:k, :k] = bound.second_moment()
    return Stack(conditions, first, mean, second, extra)
