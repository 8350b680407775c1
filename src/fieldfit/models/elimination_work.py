"""The work of any components by exact sums (`kernels/elimination.hpp`), by kind.

| kind                | one for each                                                                                |
|---------------------|---------------------------------------------------------------------------------------------|
| call, field_call    | evaluation                                                                                  |
| table               | entry of the model's tables                                                                 |
| configuration       | distinct configuration of the clamped variables, for each factor of its sum                 |
| eliminate1          | entry of the tables of a configuration, for each factor of it, alone in its sum             |
| eliminate8          | the same where eight configurations run side by side, rounded up to whole eights            |
| once_…              | the part of a kind that the shards of a process share                                       |
| setup_field_call    | compiling                                                                                   |
| setup_program       | different sum                                                                               |
| setup_factor        | factor of a sum                                                                             |
| setup_map           | entry of the tables of a sum                                                                |
| setup_pair          | drawn component of a sample, and each factor of it                                          |
| setup_configuration | configuration                                                                               |
| setup_sample        | sample for which something is drawn                                                         |
| setup_draw          | drawn component                                                                             |

The full likelihood of a field is one configuration, for any n.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fieldfit.inference.templates import MOST_MESSAGE_CELLS
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.joint_sums import is_joint
from fieldfit.models.work import ONCE, Work
from fieldfit.policies.laws.base import Share
from fieldfit.policies.structure import BoundFamily
from fieldfit.threads import SMALL_WORK
from fieldfit.types import FloatArray, IntArray

#: The kernel's lanes, the fewest configurations that run side by side, and the most chunks.
_LANES, _FEWEST_BATCHED, _MOST_CHUNKS = 8, 3, 32


@dataclass(frozen=True)
class EliminationWork:
    """For each configuration, the ``share`` of the samples that use it and the number ``program`` of its sum."""

    n: int
    components: int
    table: int
    factors: float  # mean number of factors that a component touches
    share: FloatArray = field(repr=False)
    program: IntArray = field(repr=False)
    cost: FloatArray = field(repr=False)  # of each sum: products over entries of its tables for a configuration
    cells: FloatArray = field(repr=False)  # of each sum: numbers that it holds at once
    members: FloatArray = field(repr=False)  # of each sum: its factors
    joint: FloatArray = field(repr=False)  # of each sum: 1 if all samples and shards share it, else 0

    @classmethod
    def of(cls, problem: FieldProblem, family: BoundFamily, n: int) -> EliminationWork:
        """From the family compiled with everything selected on a part of the samples."""
        factors = problem.fixed_entries / max(1, problem.n_samples * int(family.size or 1))
        use = problem.configuration_use()
        joint = np.array([is_joint(program) for program in problem.programs.programs], dtype=np.float64)
        return cls(n, int(family.size or 1), problem.arrays.graph.table_size, factors, *use, joint)

    def work(self, share: Share) -> Work:
        """Distinct configurations among the selected samples."""
        lam = share.lam
        with np.errstate(divide="ignore"):
            used = -np.expm1(self.n * lam * np.log1p(-np.minimum(self.share, 1.0)))
        counts = np.bincount(self.program, used, len(self.cost))
        wide = (counts >= _FEWEST_BATCHED) & (self.cells <= MOST_MESSAGE_CELLS)
        batches = np.where(wide, np.ceil(counts / _LANES - 1e-9), counts)
        pairs = self.n * lam * self.components
        drawn = 0.0 if lam >= 1.0 else 1.0
        threaded = float(counts @ self.cost) >= SMALL_WORK
        return {
            "call": 1.0,
            "field_call": 1.0,
            "table": float(self.table),
            "configuration": float(counts @ self.members),
            "eliminate1": float(counts[~wide] @ self.cost[~wide]),
            "eliminate8": float(_LANES * batches[wide] @ self.cost[wide]),
            ONCE["configuration"]: float(counts @ (self.joint * self.members)),
            ONCE["eliminate1"]: float(counts @ (self.joint * self.cost)),
            "elimination_tasks": min(_MOST_CHUNKS, float(np.ceil(batches.sum()))) if threaded else 1.0,
            "setup_field_call": 1.0,
            "setup_program": float(len(self.cost)),
            "setup_factor": float(self.members.sum()),
            "setup_map": float(self.cost.sum()),
            "setup_pair": pairs * (1.0 + self.factors),
            "setup_configuration": float(counts.sum()),
            "setup_sample": drawn * self.n,
            "setup_draw": drawn * pairs,
        }
