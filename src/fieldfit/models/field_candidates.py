"""Which policies a plan compares for a field by default."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.structure import Structure

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel

#: Most components × states of a block for a family of blocks that is a candidate by default.
MOST_CANDIDATE_BLOCK_STATES = 60_000
#: Most joint states of a complete graph for which FL is one of the first candidates.
MOST_EARLY_STATES = 1 << 16


def candidate_policies(model: FieldModel, structure: Structure | None = None) -> tuple[str, ...]:
    """Families and partitions, the most useful first.

    Late candidates are skipped if time is short. Families with too many components are left out.
    """
    free = model.m - len(model.observed)
    cards = model.graph.cardinalities
    pairs, complete = _pairs(model), is_complete(model)
    blocks = [
        f"PL{k}" for k in (2, 3) if free > k and math.comb(free, k) * max(cards) ** k <= MOST_CANDIDATE_BLOCK_STATES
    ]
    partitions = [f"Partition({block[2:]})" for block in blocks]
    if not complete and free > 2 and not blocks and pairs * max(cards) ** 2 <= MOST_CANDIDATE_BLOCK_STATES:
        blocks.append("PL2(connected)")
    # A partition uses the moments of its blocks' family.
    families = [*blocks[:1], *partitions[:1], *blocks[1:], *partitions[1:]]
    # Compiling one sum over all states of a complete graph may take longer than the cheaper families together.
    late = complete and math.prod(cards) > MOST_EARLY_STATES
    place = 2 if late else 0
    order = ["PL1", "PL1/row", *families[:place], "FL", *families[place:]]
    return (*order, *(f"{name}/row" for name in blocks))


def states_at_once(model: FieldModel, bound: BoundPolicy) -> float:
    """The number of joint states in the sum of a policy's only component on a complete graph.

    0 for other policies, and if the sum is already compiled.
    """
    family = bound.families[0]
    if family.size != 1 or not is_complete(model):
        return 0.0
    target = family.component(0).target
    if "exact" in vars(model) and model.exact.is_compiled(frozenset(target)):
        return 0.0
    return float(math.prod(model.graph.cardinalities[v] for v in target))


def is_complete(model: FieldModel) -> bool:
    """Whether every two variables are neighbours."""
    return _pairs(model) == model.m * (model.m - 1) // 2


def _pairs(model: FieldModel) -> int:
    return sum(map(len, model.graph.neighbours)) // 2
