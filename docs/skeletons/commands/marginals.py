"""`fieldfit marginals MODEL.ff`: the skeleton of a command. Copy it to src/fieldfit/cli/commands/.

A command is a function with typed options that has the name of its file. What is heavy is imported inside the function,
so that help does not wait for it. Results go to stdout (a table, or one JSON document), notes to stderr,
and what is wrong is raised as a `FieldfitError`: the command line prints its message and exits with 2.
"""

from __future__ import annotations

from fieldfit.cli.options import Json, SavedFit, Threads, limit_threads


def marginals(path: SavedFit, threads: Threads = None, json: Json = False) -> None:
    """Show the probability of each state of a field."""
    from fieldfit.api.files import load
    from fieldfit.cli.output import print_json, print_table
    from fieldfit.models.field import FieldModel
    from fieldfit.report.table import PlainTable
    from fieldfit.types import ModelError

    limit_threads(threads)
    fit = load(path)
    model = fit.model
    if not isinstance(model, FieldModel):
        raise ModelError(f"{path} holds a {model.kind} model, and only fields have marginals without inputs.")
    found = model.marginals(fit.theta)
    rows = [
        (name, str(state), float(probability))
        for name, states, vector in zip(model.names, model.states, found, strict=True)
        for state, probability in zip(states, vector, strict=True)
    ]
    if json:
        print_json([{"variable": name, "state": state, "probability": p} for name, state, p in rows])
        return
    print_table(PlainTable("", ("variable", "state", "probability"), tuple(rows), "", ("", "", ".4f")))
