"""The built-in experiment ``fit-table``: fit a field model to a table, on one fold of a cross-validation.

Coordinates and constants that it knows (those with a value here need not be given):

    data            path of a CSV or TSV file
    model           "boltzmann" or "potts"
    biases          true for a bias for each variable (Boltzmann machine)
    policy          a policy's text; {lam}, {beta}, {1-beta} and any other {name} are coordinates
    sigma2          prior variance; 0, "none" or nothing is no penalty
    folds, fold     the table in ``folds`` parts, ``fold`` (0, 1, …) of which is the test part; 1 is no test part
    replicate       changes nothing but the seed of the selection: repetitions, paired over the axes named in ``paired``
    split_seed      which rows are in which part: the same for all cells, so that they are compared on the same data
    tol, max_iter   of the optimiser
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.sweep.experiment import experiment
from fieldfit.types import BoolArray, FileAccessError, FloatArray, Plain, SweepError, WidthError

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.field import FieldModel

_KNOWN_CONSTANTS = {
    "data",
    "model",
    "biases",
    "policy",
    "sigma2",
    "folds",
    "fold",
    "replicate",
    "split_seed",
    "tol",
    "max_iter",
}
_PLACEHOLDER = re.compile(r"\{(1-)?([A-Za-z_]\w*)\}")


def _data_hash(constants: Mapping[str, object]) -> Plain:
    """A hash of the table, so that a store notices when the file is another one."""
    path = constants.get("data")
    if not isinstance(path, str):
        return {}  # an axis of several files: their names are in the definition
    try:
        with open(path, "rb") as file:
            return {"data": hashlib.file_digest(file, "blake2b").hexdigest()[:32]}
    except OSError as error:
        raise FileAccessError(f"The table {path} cannot be read: {error.strerror or error}.") from error


def fill_policy(template: str, coordinates: Plain) -> tuple[str, set[str]]:
    """The policy's text with {name} and {1-name} replaced, and the names that were used."""
    used = set()

    def value(match: re.Match[str]) -> str:
        complement, name = match.groups()
        if name not in coordinates:
            raise SweepError(
                f"The policy {template!r:.80} needs {name!r:.80}, which is neither an axis nor a constant."
            )
        used.add(name)
        coordinate = coordinates[name]
        # Twelve digits keep 1 − 0.9 from being 0.09999999999999998 in the policy's text.
        return format(1 - float(coordinate), ".12g") if complement else str(coordinate)

    return _PLACEHOLDER.sub(value, template), used


def fold_masks(n: int, folds: int, fold: int, seed: int) -> tuple[BoolArray, BoolArray]:
    """Train and test rows of one fold; sizes differ by at most one."""
    if folds < 1 or not 0 <= fold < folds or folds > n:
        raise SweepError(f"Fold {fold} of {folds} of a table with {n} rows: 0 ≤ fold < folds ≤ rows is needed.")
    test = np.zeros(n, dtype=bool)
    if folds > 1:
        order = np.random.default_rng(seed).permutation(n)
        test[order[fold::folds]] = True
    return ~test, test


@experiment("fit-table", version=1, paths=("data",), inputs=_data_hash)
def fit_table(coordinates: Plain, seed: int, start: FloatArray | None = None) -> Plain:
    """Fit on the train part; negative log-likelihoods (nats for each sample), seconds and FLOPs of an evaluation.

    ``start`` changes the result only within the optimiser's tolerance: with complete data the objective is concave. With
    missing values it is not, and ``start`` is not used.
    """
    from fieldfit.api.fitting import fit
    from fieldfit.data.table import read_table

    for name in ("data", "policy"):
        if not isinstance(coordinates.get(name), str):
            raise SweepError(f"The experiment fit-table needs {name!r:.80} as text, among the axes or the constants.")
    policy, used = fill_policy(coordinates["policy"], coordinates)
    unused = sorted(set(coordinates) - _KNOWN_CONSTANTS - used)
    if unused:
        raise SweepError(
            f"The experiment fit-table does not use {unused[0]!r:.80}: put {{{unused[0]}}} into the policy."
        )
    sigma2 = coordinates.get("sigma2")
    table = read_table(coordinates["data"])
    model = _model(str(coordinates.get("model", "boltzmann")), table, coordinates)
    data = model.read(table)
    folds = int(coordinates.get("folds", 1))
    train, test = fold_masks(data.n, folds, int(coordinates.get("fold", 0)), int(coordinates.get("split_seed", 0)))
    fitted = fit(
        model,
        data.subset(train),
        policy,
        sigma2=None if sigma2 in (None, 0, "none") else float(sigma2),
        random_state=seed,
        start=None if data.has_missing else start,
        tol=float(coordinates.get("tol", 1e-6)),
        max_iter=int(coordinates.get("max_iter", 1000)),
    )
    result: Plain = {"filled_policy": policy, "n_train": int(train.sum()), "n_test": int(test.sum())}
    for name, rows in (("train", train), ("test", test)):
        for suffix, family in (("nll", "FL"), ("pl1", "PL1")):
            result[f"{name}_{suffix}"] = _nll(model, data.subset(rows), fitted.theta, family) if rows.any() else None
    return result | {
        "objective": fitted.objective,
        "converged": fitted.converged,
        "iterations": fitted.iterations,
        "evaluations": fitted.evaluations,
        "fit_seconds": fitted.seconds,
        "flops": None if fitted.cost is None else fitted.cost.flops,
        "state": fitted.theta,
    }


def _model(kind: str, table: Table, coordinates: Plain) -> FieldModel:
    from fieldfit.models.boltzmann import BoltzmannMachine
    from fieldfit.models.potts import Potts

    if kind == "boltzmann":
        return BoltzmannMachine(table.m, biases=bool(coordinates.get("biases", False)), names=table.names)
    if kind == "potts":
        states = table.common_states
        return Potts(table.m, len(states), states=states, names=table.names)
    raise SweepError(f"The experiment fit-table fits 'boltzmann' and 'potts'; got the model {kind!r:.80}.")


def _nll(model: FieldModel, table: Table, theta: FloatArray, family: str) -> float | None:
    """Mean of −Σ log p over the family's components; None where the exact sum would be too wide."""
    from fieldfit.policies import Policy

    selection = Policy.parse(family).bind(model.structure(table)).draw(0, 0, table.n)
    try:
        return -float(model.compile(table, selection).row_values(theta).mean())
    except WidthError:
        return None
