"""The separate fits of the variables of ``Nodewise >> optimal``, of samples in one table or in shards.

Each shard fits every variable to its own samples, where it is held, and answers once. With H_js = −∂s̄_js/∂θ at the
estimate θ̃_js of variable j from shard s (sums over its samples), the estimate of variable j is

    θ̃_j = (Σ_s H_js)⁻¹ Σ_s H_js θ̃_js,

the root of the expanded scores of all shards. So θ̂ needs one exchange: sums of H_js θ̃_js and of the derivatives of the
conditions, along the tree of the shards. The bias of the shards' own estimates stays: it falls with the samples of a shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fieldfit.asymptotics.separation import separated_parameters
from fieldfit.data.samples import Table, as_table
from fieldfit.models.field import FieldModel
from fieldfit.objective import Objective
from fieldfit.optim.keeping import Keeper, State, check_finite, refused_state
from fieldfit.optim.solution import DEFAULT_TOL, Status
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.refinement.conditions import Conditions, NodeConditions
from fieldfit.refinement.course import Course
from fieldfit.refinement.estimating import ConditionSums, SampleConditions
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.refinement.sharded_conditions import ShardedConditions, some_samples
from fieldfit.shards.problem import ShardedProblem
from fieldfit.shards.shard import Shard, Shared, held_weight
from fieldfit.shards.tree import Answer
from fieldfit.types import BoolArray, FloatArray, IntArray, ModelError


@dataclass(frozen=True)
class NodeFit:
    """The parameters of one variable's regression, the whole θ (r,) with their estimates, and H = −∂s̄/∂θ of them.

    ``derivative`` (p_j, r) is that of the variable's conditions over the data.
    """

    parameters: IntArray
    theta: FloatArray
    hessian: FloatArray
    derivative: FloatArray


@dataclass(frozen=True)
class HeldNodes:
    """Samples in one table. A ``keeper`` gets the finished fits, and may have some to continue from.

    ``course`` bounds the iterations of each fit; after a request to stop, the remaining variables keep their starts.
    """

    model: FieldModel
    dataset: Table
    random_state: int
    course: Course
    keeper: Keeper | None = None

    def fits(self, together: NodeConditions, start: FloatArray, free: BoolArray) -> tuple[list[NodeFit], IntArray]:
        """One variable after the other."""
        made, work = [], np.zeros(3, dtype=np.int64)
        total = self.dataset.total_weight
        for place, involved, theta, sums, spent in self._each(together, start, free):
            made.append(_made(together, place, involved, theta, sums / total))
            work += spent
        return made, work

    def _each(
        self, together: NodeConditions, start: FloatArray, free: BoolArray
    ) -> Iterator[tuple[int, BoolArray, FloatArray, FloatArray, IntArray]]:
        """For each variable its parameters (r,), θ (r,), sums of derivatives of its conditions (p_j, r), and the work.

        Fits that were cut off are not kept: they are made again.
        """
        codes, weight = self.dataset.codes, self.dataset.sample_weight
        nodes = together.nodes.tolist()
        done = _Finished.of(self.keeper, len(nodes), len(start))
        try:
            for place, node in enumerate(nodes):
                involved = parameters_of(together, place) & free
                if place < len(done.fits):
                    made = done.fits[place]
                else:
                    made = fit_node(self.model, self.dataset, start, node, involved, self.random_state, self.course)
                    if self.course.stopped is None:
                        done.fits.append(made)
                        done.keep(last=False)
                theta, spent = made
                yield place, involved, theta, together.alone(place).derivative(codes, theta, weight), spent
        finally:
            done.keep(last=True)

    def summed(self, together: NodeConditions, start: FloatArray, free: BoolArray) -> Answer:
        """What the samples of one shard answer.

        H_j θ̃_j (variables, r), derivatives (p, r), weight, work, and 1 if fits were cut off.
        """
        products, derivatives, work = [], [], np.zeros(3)
        for place, involved, theta, sums, spent in self._each(together, start, free):
            product = np.zeros(len(involved))
            product[involved] = _hessian(together, place, involved, sums) @ theta[involved]
            products.append(product)
            derivatives.append(sums)
            work += spent
        total, cut = np.array([self.dataset.total_weight]), np.array([float(self.course.stopped is not None)])
        return np.stack(products), np.concatenate(derivatives), total, work, cut

    def table(self) -> Table:
        """All of them."""
        return self.dataset

    def conditions(self, separate: Conditions) -> ConditionSums:
        """In this process."""
        return SampleConditions(separate, self.dataset.codes, None, self.dataset.sample_weight)


@dataclass(frozen=True)
class ShardedNodes:
    """Samples in shards. A ``keeper`` gets the sum of their answers, and may have it.

    ``course`` is told of the start and of the answer.
    """

    model: FieldModel
    problem: ShardedProblem
    weight: FloatArray | None
    random_state: int
    course: Course
    keeper: Keeper | None = None

    def fits(self, together: NodeConditions, start: FloatArray, free: BoolArray) -> tuple[list[NodeFit], IntArray]:
        """One answer from each shard."""
        if self.course.report(0, np.nan):
            self.course.note(Status.CALLBACK)
        products, derivatives, (total,), work, (cut,) = self._answer(together, start, free)
        self.course.report(1, np.nan)
        if cut:
            self.course.note(Status.ITERATION_LIMIT)
        made = []
        for place, conditions in enumerate(together.slices):
            involved = parameters_of(together, place) & free
            sums, theta = derivatives[conditions], start.copy()
            hessian = _hessian(together, place, involved, sums)
            theta[involved] = bread_inverse(hessian, tolerance=1e-12) @ products[place][involved]
            made.append(_made(together, place, involved, theta, sums / total))
        return made, work.astype(np.int64)

    def _answer(self, together: NodeConditions, start: FloatArray, free: BoolArray) -> tuple[FloatArray, ...]:
        """The sum of the answers of all shards."""
        shapes: dict[str, tuple[int, ...]] = {
            "products": (len(together.nodes), len(start)),
            "derivatives": (together.size, len(start)),
            "total": (1,),
            "spent": (3,),
        }
        saved = None if self.keeper is None else self.keeper.saved
        if saved is not None:
            with refused_state(len(start)):
                if any(
                    saved[name].shape != shape or saved[name].dtype != np.float64 for name, shape in shapes.items()
                ):
                    raise ValueError("shapes")
                kept = tuple(saved[name] for name in shapes)
                check_finite(*kept)
                return *kept, np.zeros(1)
        question = _FitNodes(
            self.model, start, free, self.weight is not None, self.random_state, self.course.iterations_left
        )
        answer = self.problem.placed.total(question)
        assert answer is not None
        if self.keeper is not None and not answer[-1][0]:  # fits that were cut off are made again
            self.keeper.keep(lambda: dict(zip(shapes, answer[:-1], strict=True)), 1, last=True)
        return answer

    def table(self) -> Table:
        """Some of them."""
        return some_samples(self.problem, self.model)

    def conditions(self, separate: Conditions) -> ConditionSums:
        """Where the samples are."""
        return ShardedConditions(self.problem, separate, self.weight)


@dataclass(frozen=True)
class _FitNodes:
    """The separate fits of one shard's samples."""

    model: FieldModel
    start: FloatArray
    free: BoolArray
    weighted: bool
    random_state: int
    max_iter: int

    def __call__(self, shard: Shard, shared: Shared, argument: None) -> Answer:
        """Sums that add up over shards."""
        held = as_table(shard.dataset)
        dataset = Table(held.codes, held.names, held.states, sample_weight=held_weight(shard, self.weighted))
        together = NodeConditions(self.model, self.model.structure().free)
        try:
            nodes = HeldNodes(self.model, dataset, self.random_state, Course(self.max_iter))
            return nodes.summed(together, self.start, self.free)
        except ModelError as error:
            raise ModelError(
                f"In shard {shard.number}, with {dataset.n:,} samples: {error} Each shard is fitted alone, so fewer shards "
                "may help."
            ) from error


@dataclass(frozen=True)
class _Finished:
    """The estimates (r,) of the first variables with the work of each (3,), and what keeps them."""

    fits: list[tuple[FloatArray, IntArray]]
    keeper: Keeper | None

    @classmethod
    def of(cls, keeper: Keeper | None, variables: int, r: int) -> _Finished:
        """None, or those of the keeper's file."""
        if keeper is None or keeper.saved is None:
            return cls([], keeper)
        with refused_state(r):
            thetas, spent = keeper.saved["nodes"], keeper.saved["spent"].astype(np.int64)
            count = len(thetas)
            if not count:
                return cls([], keeper)
            if thetas.shape != (count, r) or spent.shape != (count, 3) or count > variables:
                raise ValueError("shapes")
            check_finite(thetas)
            return cls(list(zip(thetas.astype(np.float64), spent, strict=True)), keeper)

    def keep(self, *, last: bool) -> None:
        """Keep all that are finished."""
        if self.keeper is not None:
            self.keeper.keep(self._state, len(self.fits), last=last)

    def _state(self) -> State:
        if not self.fits:
            return {"nodes": np.zeros((0, 0)), "spent": np.zeros((0, 3))}
        return {
            "nodes": np.stack([theta for theta, _ in self.fits]),
            "spent": np.stack([work for _, work in self.fits]),
        }


def parameters_of(together: NodeConditions, place: int) -> BoolArray:
    """Which parameters (r,) are in the regression of one variable."""
    touched = np.zeros(together.n_parameters, dtype=bool)
    touched[np.unique(together.score_coefficients[:, together.slices[place]].nonzero()[0])] = True
    return touched


def _hessian(together: NodeConditions, place: int, involved: BoolArray, derivative: FloatArray) -> FloatArray:
    """−∂s/∂θ of the variable's own parameters."""
    coefficients = together.score_coefficients[:, together.slices[place]]
    return np.asarray(-np.asarray(coefficients @ derivative)[np.ix_(involved, involved)])


def _made(
    together: NodeConditions, place: int, involved: BoolArray, theta: FloatArray, derivative: FloatArray
) -> NodeFit:
    hessian = _hessian(together, place, involved, derivative)
    if not (np.isfinite(theta).all() and np.isfinite(hessian).all()):
        raise ModelError(
            f"The fit of variable {int(together.nodes[place])} alone has numbers that are not finite, so it cannot be "
            "combined with the others. If it is from a checkpoint, the file is damaged: start again without it."
        )
    return NodeFit(np.flatnonzero(involved), theta, hessian, derivative)


def fit_node(
    model: FieldModel,
    dataset: Table,
    start: FloatArray,
    node: int,
    involved: BoolArray,
    random_state: int,
    course: Course,
) -> tuple[FloatArray, IntArray]:
    """θ with the estimates of one variable's regression, and its iterations, evaluations and Hessian products.

    ``course`` notes if it was cut off.
    """
    rest = tuple(v for v in range(model.m) if v != node)
    family = model.structure().bind_family(Components((((node,), rest),)))
    problem = model.compile(dataset, Selection(dataset.n, (FamilySelection(family, 1.0),)))
    no_penalty = np.zeros(len(involved))
    objective = Objective(
        problem, no_penalty, start, involved, dataset.sample_weight, model.feature_units, dataset.has_counts
    )
    solution = objective.minimise(
        gtol=objective.gradient_tolerance(DEFAULT_TOL),
        max_iter=course.iterations_left,
        callback=None if course.stopped is Status.CALLBACK else course.callback,
        seed=random_state,
    ).uninterrupted()
    theta = objective.full(solution.x).copy()
    spent = np.array([solution.iterations, solution.evaluations, solution.hessian_products], dtype=np.int64)
    if solution.status in (Status.ITERATION_LIMIT, Status.CALLBACK):
        course.note(solution.status)
        return theta, spent
    names = model.parameter_names
    separated = separated_parameters(
        objective.landscape(dataset.total_weight, dataset.least_weight, int(spent[1:].sum())),
        involved,
        solution.x,
        no_penalty > 0,
        names,
        objective.units,
        model.determined_contrasts,
    )
    if separated or not solution.converged:
        reason = f"its optimum is at infinity for {', '.join(separated[:3])}" if separated else solution.message
        raise ModelError(
            f"'Nodewise >> optimal': the separate fit of the variable {model.names[node]} has no finite estimate "
            f"({reason}). Use 'PL1 >> optimal', whose joint fit needs less data, with sigma2 if it separates too."
        )
    return theta, spent
