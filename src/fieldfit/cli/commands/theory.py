"""`fieldfit theory POLICY…`: what policies cost and how accurate they are at a θ, before any data are seen."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.models.boltzmann import TheoryOptions
from fieldfit.cli.options import Json, Seed, Threads, limit_threads, with_options
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.models.field import FieldModel
    from fieldfit.types import FloatArray, Plain


class Formula(StrEnum):
    """Forms of the asymptotic variance."""

    exact = "exact"
    published = "published"


@with_options
def theory(
    policies: Annotated[list[str], typer.Argument(metavar="POLICY…", help="Policies, such as PL1 'PL1 >> optimal'.")],
    model: Annotated[
        str,
        typer.Option("--model", metavar="MODEL", help="boltzmann, or a file: a saved fit (.ff) or a UAI network."),
    ] = "boltzmann",
    theta: Annotated[
        str | None,
        typer.Option(
            "--theta", metavar="LIST|FILE", help="θ, such as -1x5,1x5, or a file. Default: that of the fit."
        ),
    ] = None,
    *,
    m: Annotated[
        int | None,
        typer.Option("--m", min=1, help="Number of variables of the Boltzmann machine. Default: those of --edges."),
    ] = None,
    machine: TheoryOptions,
    formula: Annotated[
        Formula,
        typer.Option("--formula", help="exact includes the selection noise; published is the paper's Proposition 2."),
    ] = Formula.exact,
    draws: Annotated[
        int,
        typer.Option(
            "--draws", min=20, help="Number of simulated samples if there are too many states to enumerate."
        ),
    ] = 20_000,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compare the variance and cost of policies without data.

    Variance is relative to maximum likelihood, cost in the paper's FLOPs.
    """
    from fieldfit.api import theory as calculation
    from fieldfit.asymptotics.criterion import ROOT, mean_words
    from fieldfit.asymptotics.sandwich import KINDS
    from fieldfit.callers import without_warnings
    from fieldfit.cli.output import print_json, print_table
    from fieldfit.models.cost import sample_flops
    from fieldfit.refinement.staged import as_estimator, evaluated_policies
    from fieldfit.report.table import PlainTable
    from fieldfit.steps import waiting
    from fieldfit.types import FieldfitWarning

    limit_threads(threads)
    parsed = [as_estimator(text) for text in policies]
    field, vector = _model_and_theta(model, theta, m, machine)
    records: list[Plain] = []
    for policy in parsed:
        stages = evaluated_policies(policy)
        bound = stages[0].bind(field.structure())
        # The result's note says what the warnings say, once.
        with waiting(f"theory of {policy}"), without_warnings(FieldfitWarning):
            result = calculation.theory(
                field, vector, policy, formula=formula.value, n_simulated=draws, random_state=seed
            )
        records.append(
            {
                "policy": str(policy),
                "components": float(bound.expected_counts().sum()),
                "flops": sum(sample_flops(field, stage.bind(field.structure())) for stage in stages),
                **result.to_dict(),
                "why_no_mle": result.why_no_mle or None,
                "note": result.note or None,
                "standard_error": result.standard_errors(1),
            }
        )
    if json:
        names = list(field.parameter_names)
        print_json({"model": field.kind, "parameters": names, "theta": vector, "policies": records})
        return
    simulated = any(record["monte_carlo_error"] for record in records)
    rows = []
    for record in records:
        sizes = [record["efficiency"][kind] if record["efficiency"] else None for kind in KINDS]
        error = [(record["monte_carlo_error"] or {}).get("root")] if simulated else []
        rows.append((record["policy"], record["components"], record["flops"], *sizes, *error))
    columns = ("policy", "components", "FLOPs", *KINDS, *(["± root"] if simulated else []))
    formats = ("", ".4g", "", ".3f" if not simulated else ".3g", ".4f", ".4f", ".4f", *([".1g"] if simulated else []))
    notes = [
        f"Variance relative to maximum likelihood, {formula.value} formula, {records[0]['method']}; for each sample.",
        f"root is {ROOT}, the ratio per parameter; mean is {mean_words()}, which plans and summaries have from samples.",
    ]
    if any(len(evaluated_policies(policy)) > 1 for policy in parsed):
        notes.append(
            "FLOPs of two stages: one evaluation of each; computing the weights of a second stage is not counted."
        )
    notes += list(dict.fromkeys(record["why_no_mle"] for record in records if record["why_no_mle"]))
    notes += [f"{record['policy']}: {record['note']}" for record in records if record["note"]]
    title = f"{field.kind}: {counted(field.m, 'variables')}, {counted(field.n_parameters, 'parameters')}"
    print_table(PlainTable(title, columns, tuple(rows), " ".join(notes), formats))


def _model_and_theta(
    kind: str, theta: str | None, m: int | None, machine: TheoryOptions
) -> tuple[FieldModel, FloatArray]:
    """The model that the options describe and θ, both checked."""
    from fieldfit.api.files import load
    from fieldfit.cli.values import as_theta, graph_variables
    from fieldfit.models.mrf import MarkovRandomField
    from fieldfit.types import ModelError

    model: FieldModel
    if kind == "boltzmann":
        if theta is None or (m is None and machine.edges is None):
            raise ModelError(
                "A Boltzmann machine needs --theta, and --m or --edges: --m 5 --theta=-1x5,1x5, or --edges grid:3x3 "
                "--theta=0.5x12."
            )
        names = graph_variables(machine.edges) if m is None else [f"x{v}" for v in range(m)]
        model = machine.model(names)
        return model, model.check_theta(as_theta(theta))
    if m is not None or machine.edges is not None:
        raise ModelError(f"--m and --edges describe a Boltzmann machine; the model {kind} has its own.")
    if kind.endswith((".uai", ".uai.gz")):
        model, vector = MarkovRandomField.from_uai(kind)
    elif "." in kind or "/" in kind:
        fit = load(kind)
        model, vector = fit.model.as_field("fieldfit theory"), fit.theta
    else:
        raise ModelError(
            f"--model is {kind!r:.80}; give boltzmann, a saved fit (model.ff) or a UAI network (model.uai)."
        )
    return model, vector if theta is None else model.check_theta(as_theta(theta))
