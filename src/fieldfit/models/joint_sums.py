"""Sums in which no variable is clamped, computed once at each θ for all problems of a model.

The log-partition of complete samples depends on θ only, so all shards of the samples, and all families that need it, have
the same one. `JointSums` remembers it, its marginals, their derivative along the last direction and the covariance of the
features for the last log tables. `Runs` takes the place of `ProgramSet.run` for the configurations of a problem.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Literal

import numpy as np

from fieldfit.inference import Configurations, Program
from fieldfit.models.field_information import SMALL, Lattice
from fieldfit.types import FloatArray

#: What is remembered: (log Z, marginals), the derivative of the marginals along a direction, and the covariance matrix.
_Kind = Literal["marginals", "slope", "covariance"]
_Free = tuple[int, ...]


class JointSums:
    """The sums of one graph, for the last log tables. Copies and pickles are empty."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tables = b""
        self._known: dict[tuple[_Kind, _Free], tuple[bytes, FloatArray]] = {}
        self._lattices: dict[_Free, Lattice | None] = {}

    def __reduce__(self) -> tuple[type[JointSums], tuple[()]]:
        return JointSums, ()

    def lattice(self, program: Program, make: Callable[[], Lattice | None]) -> Lattice | None:
        """The lattice of a program, which does not depend on θ."""
        if not self._lock.acquire(blocking=False):
            return make()
        try:
            if program.free not in self._lattices:
                self._lattices[program.free] = make()
            return self._lattices[program.free]
        finally:
            self._lock.release()

    def at(
        self,
        log_tables: FloatArray,
        kind: _Kind,
        program: Program,
        make: Callable[[], FloatArray],
        direction: FloatArray | None = None,
    ) -> FloatArray:
        """What ``make()`` gives at these log tables (and along this direction), computed once; read-only.

        No thread waits for another, which may fit other samples, or belong to the process that this one was forked from.
        """
        if not self._lock.acquire(blocking=False):
            return make()
        try:
            return self._known_at(log_tables, kind, program, make, direction)
        finally:
            self._lock.release()

    def _known_at(
        self,
        log_tables: FloatArray,
        kind: _Kind,
        program: Program,
        make: Callable[[], FloatArray],
        direction: FloatArray | None,
    ) -> FloatArray:
        key = (kind, program.free)
        tables, along = log_tables.tobytes(), b"" if direction is None else direction.tobytes()
        if tables != self._tables:
            self._known.clear()
            self._tables = tables
        known = self._known.get(key)
        if known is None or known[0] != along:
            value = make()
            value.flags.writeable = False
            known = self._known[key] = (along, value)
        return known[1]


def is_joint(program: Program) -> bool:
    """Whether a program has no clamped variable, and more states than are summed in no time."""
    return not program.boundary and math.prod(program.template.cardinalities) > SMALL


class Runs:
    """The configurations of a problem, of which the joint ones are remembered in ``sums``."""

    def __init__(self, configurations: Configurations, sums: JointSums) -> None:
        self._sums, self._programs = sums, configurations.programs
        counts = np.diff(configurations.config_ptr)
        joint = [p for p, program in enumerate(self._programs.programs) if counts[p] and is_joint(program)]
        #: The place of each joint configuration, and its program.
        self._joint = [(int(configurations.config_ptr[p]), self._programs.programs[p]) for p in joint]
        self._single = [configurations.only(p) for p in joint]
        self._clamped = configurations.without(joint) if joint else configurations
        self._rest = np.delete(np.arange(configurations.count), [place for place, _ in self._joint])

    def run(
        self,
        log_tables: FloatArray,
        *,
        weight: FloatArray | None = None,
        direction: FloatArray | None = None,
        log_z: FloatArray | None = None,
        slope: FloatArray | None = None,
        marginals: FloatArray | None = None,
        marginal_slope: FloatArray | None = None,
    ) -> None:
        """Fill the arrays that are given, as `ProgramSet.run` does."""
        if len(self._rest):
            some_log_z, some_slope = (None if a is None else np.empty(len(self._rest)) for a in (log_z, slope))
            self._programs.run(
                log_tables,
                self._clamped,
                weight=None if weight is None else weight[self._rest],
                direction=direction,
                log_z=some_log_z,
                slope=some_slope,
                marginals=marginals,
                marginal_slope=marginal_slope,
            )
            for whole, some in ((log_z, some_log_z), (slope, some_slope)):
                if whole is not None and some is not None:
                    whole[self._rest] = some
        for (place, program), single in zip(self._joint, self._single, strict=True):
            if log_z is not None or marginals is not None or slope is not None:
                known = joint_marginals(self._sums, program, single, log_tables)
                if log_z is not None:
                    log_z[place] = known[0]
                if slope is not None and direction is not None:
                    slope[place] = known[1:] @ direction
                if marginals is not None and weight is not None:
                    marginals += weight[place] * known[1:]
            if marginal_slope is not None and direction is not None and weight is not None and weight[place] != 0:
                marginal_slope += weight[place] * self._slope(program, single, log_tables, direction)

    def _slope(
        self, program: Program, single: Configurations, log_tables: FloatArray, direction: FloatArray
    ) -> FloatArray:
        """The derivative of the marginals (table_size,) along a direction."""

        def make() -> FloatArray:
            change = np.zeros(len(log_tables))
            self._programs.run(log_tables, single, weight=np.ones(1), direction=direction, marginal_slope=change)
            return change

        return self._sums.at(log_tables, "slope", program, make, direction)


def joint_marginals(sums: JointSums, program: Program, single: Configurations, log_tables: FloatArray) -> FloatArray:
    """Log Z and the marginals of a joint program (1 + table_size,): both, so that bits do not depend on the questions."""

    def make() -> FloatArray:
        result = np.zeros(1 + len(log_tables))
        log_z, marginals = np.empty(1), np.zeros(len(log_tables))
        single.programs.run(log_tables, single, weight=np.ones(1), log_z=log_z, marginals=marginals)
        result[0], result[1:] = log_z[0], marginals
        return result

    return sums.at(log_tables, "marginals", program, make)
