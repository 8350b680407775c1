"""The second stages that plans compare: all kinds in one table, and those that are compared without being asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fieldfit.policies import Optimal, Policy, Staged
from fieldfit.refinement.planned import PlannedStage, PlanSetting, StageSkippedError
from fieldfit.refinement.planned_optimal import distances, plan_optimal
from fieldfit.refinement.planned_steps import plan_steps

#: What plans each kind of second stage.
KINDS: dict[type, Callable[[Staged, PlanSetting], PlannedStage]] = {Optimal: plan_optimal, Policy: plan_steps}


def plan_stage(staged: Staged, setting: PlanSetting) -> PlannedStage:
    """The stage at the setting's θ; `StageSkippedError` where it cannot be planned or would take too long."""
    plan = KINDS.get(type(staged.second))
    if plan is None or not isinstance(staged.first, Policy):
        raise StageSkippedError(
            f"'{staged}' cannot be planned: plans compare 'A >> optimal', 'A >> optimal(d)' and 'A >> B' for policies A "
            "and families B with everything selected."
        )
    return plan(staged, setting)


def usual_stages(
    first: Policy,
    starts: Sequence[Policy],
    full: Policy | None,
    setting: PlanSetting,
    skipped: dict[str, StageSkippedError],
) -> Iterator[PlannedStage]:
    """``first >> optimal(d)`` for the graph distances that are worth it, and ``start >> full`` for each start.

    ``skipped`` gets those that are not planned.
    """
    yield from distances(first, setting, skipped)
    if full is not None:
        yield from (plan_steps(Staged(start, full), setting) for start in starts)
