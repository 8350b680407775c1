"""The cost of a policy in the paper's operations.

One component of order k on m binary nodes counts C(m,2)·2^k + C(m,2)/C(m,k) (Figure 1): every parameter for every state
of the block, and the parameters of the sample's own term shared between the components of the family. In general: r
parameters, |X_A| joint states of the block, K components in the family,

    FLOPs of a component = r |X_A| + r / K.

This is the paper's count, for comparing policies. The kernels do far less work.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.sequences import Sequences
from fieldfit.models.base import Cost
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import BoundFamily
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel

#: Most components of a family whose sizes are computed one by one.
_MOST_COUNTED_COMPONENTS = 20_000


def family_flops(model: FieldModel, family: BoundFamily) -> FloatArray:
    """The paper's FLOPs of each component of a family (K,), or of any component if all are alike (1,); ∞ if too large."""
    size = family.size or 1
    cards = np.array(model.graph.cardinalities, dtype=float)
    r = model.n_parameters
    block = getattr(family, "block_size", None)
    if block is not None and len(set(model.graph.cardinalities)) == 1:
        with np.errstate(over="ignore"):  # FL of a long chain has more states than a float can count
            return np.array([r * np.float64(cards[0]) ** block + r / size])
    listed = min(size, _MOST_COUNTED_COMPONENTS)
    with np.errstate(over="ignore"):
        states = [math.prod(cards[v] for v in family.component(j).target) for j in range(listed)]
    per = r * np.array(states) + r / size
    return per if listed == size else np.array([per.mean()])


def selection_cost(model: FieldModel, selection: Selection) -> Cost:
    """Cost of one evaluation of the drawn selection over all its samples; a component of weight 0 is not needed."""
    components, flops = 0, 0.0
    for part in selection.parts:
        needed = np.asarray(part.beta) != 0
        if not needed.any():
            continue
        each = family_flops(model, part.family)
        if needed.all() and len(each) == 1:
            count = part.count(selection.n)
            components += count
            flops += count * float(each[0])
            continue
        size = part.family.size or 1
        if part.indices is not None:
            counts = np.bincount(part.indices, minlength=size)
        else:
            counts = np.full(size, selection.n if part.rows is None else int(part.rows.sum()))
        counts = counts * needed
        components += int(counts.sum())
        flops += float((counts * each).sum())
    return Cost(components, flops)


def sample_flops(model: FieldModel, bound: BoundPolicy, dataset: Dataset | None = None) -> float:
    """The paper's FLOPs for one sample, averaged over Z."""
    total = 0.0
    for family, lam, count in zip(bound.families, bound.lams(), bound.expected_counts(), strict=True):
        each = family_flops(model, family)
        total += float(count) * float(each[0]) if len(each) == 1 else float((lam * each).sum())
    return total


#: The policies that a plan compares for sequences by default.
SEQUENCE_POLICIES = ("PL1", "PL1/sentence", "FL", "PL2", "PL3")


def sequence_flops(n_labels: int, edges: int, policy: BoundPolicy, sequences: Sequences) -> float:
    """The multiply–adds of the textbook recursions for one sequence, averaged over Z.

    A window of k tokens with L labels and E edges between two tokens (L² in a first-order chain): 6 k E (forward,
    backward, expectations) + 4 k L for each feature of a token.
    """
    tokens = max(1, sequences.n_tokens)
    features = len(sequences.indices) / tokens
    total = 0.0
    for family, share in zip(policy.families, policy.shares(), strict=True):
        sizes = family.sizes(0, sequences.n).astype(float)
        width = float(getattr(family, "width", 1))
        covered = float(tokens) if width == 0 else float(sizes.sum()) * width
        total += share.lam * covered * (6 * edges + 4 * features * n_labels)
    return float(total / max(1, sequences.n))
