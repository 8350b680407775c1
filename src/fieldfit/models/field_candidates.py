"""Which policies a plan compares for a field by default, and what a field's data leave without an estimate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.samples import Table, constant_columns
from fieldfit.policies.policy import BoundPolicy
from fieldfit.types import BoolArray, DataError

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel

#: Components × states of a block up to which a family of blocks is a candidate without being named.
MOST_BLOCK_STATES = 60_000
#: Joint states of a complete graph up to which FL is one of the first candidates.
MOST_EARLY_STATES = 1 << 16


def candidate_policies(model: FieldModel) -> tuple[str, ...]:
    """Families and partitions, the most useful first.

    What comes late is skipped where time is short. Families with too many components are not among them.
    """
    free = model.m - len(model.observed)
    cards = model.graph.cardinalities
    pairs, complete = _pairs(model), is_complete(model)
    blocks = [f"PL{k}" for k in (2, 3) if free > k and math.comb(free, k) * max(cards) ** k <= MOST_BLOCK_STATES]
    partitions = [f"Partition({block[2:]})" for block in blocks]
    if not complete and free > 2 and not blocks and pairs * max(cards) ** 2 <= MOST_BLOCK_STATES:
        blocks.append("PL2(connected)")
    families = [*partitions[:1], *blocks[:1], *partitions[1:], *blocks[1:]]
    # Compiling one sum over all states of a complete graph may take longer than all other families together.
    late = complete and math.prod(cards) > MOST_EARLY_STATES
    order = ["PL1", "PL1/row", *families, "FL"] if late else ["PL1", "PL1/row", "FL", *families]
    return (*order, *(f"{name}/row" for name in blocks))


def states_at_once(model: FieldModel, bound: BoundPolicy) -> float:
    """The joint states that the only component of a policy sums over at once in a complete graph; else 0."""
    family = bound.families[0]
    if family.size != 1 or not is_complete(model):
        return 0.0
    return float(math.prod(model.graph.cardinalities[v] for v in family.component(0).target))


def is_complete(model: FieldModel) -> bool:
    """Whether every two variables are neighbours."""
    return _pairs(model) == model.m * (model.m - 1) // 2


def _pairs(model: FieldModel) -> int:
    return sum(map(len, model.graph.neighbours)) // 2


def refuse_constant(model: FieldModel, dataset: Table, unpenalised: BoolArray) -> None:
    """Refuse columns that never change where an unpenalised parameter has only factors that touch them."""
    constant = constant_columns(dataset)
    if not constant:
        return
    still = np.array([name in constant for name in dataset.names])
    scopes = model.graph.scope_matrix
    touching = np.any(np.where(scopes >= 0, still[scopes], False), axis=1)
    elsewhere = model.features[~np.repeat(touching, model.graph.table_sizes)]
    if np.any(unpenalised & (np.diff(elsewhere.tocsc().indptr) == 0)):
        shown = ", ".join(map(str, constant[:10])) + (", …" if len(constant) > 10 else "")
        raise DataError(
            f"{len(constant)} column{'s' if len(constant) > 1 else ''} never change{'' if len(constant) > 1 else 's'}: "
            f"{shown}. Without a penalty the parameters there have no finite estimate: leave constant columns out or "
            "give sigma2."
        )
