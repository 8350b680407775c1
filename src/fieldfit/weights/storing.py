"""`WeightsResult` as plain JSON values and arrays, and back: numbers in arrays, so that the same bits return."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TypeVar

import numpy as np

from fieldfit.policies.policy import Policy
from fieldfit.types import Arrays, FileFormatError, FloatArray, Plain
from fieldfit.weights.result import Round, WeightsResult, Work
from fieldfit.weights.statistics import Gershgorin

T = TypeVar("T")

_TEXTS = ("message", "form", "formula")
_TRUTHS = ("converged", "fell_back", "interrupted")
_NUMBERS = ("gamma", "J")
_MAYBE = ("J_exact", "diagonal_loss", "equal")


def to_plain(result: WeightsResult) -> tuple[Plain, Arrays]:
    """Header and arrays; the policy is not among them, because it is that of the fit."""
    header: Plain = {name: getattr(result, name) for name in (*_TEXTS, *_TRUTHS, *_NUMBERS, *_MAYBE)}
    header["names"] = list(result.names)
    header["work"] = asdict(result.work)
    history = [(h.J, h.loss, h.objective, h.theta_converged, h.samples, *h.beta) for h in result.history]
    arrays: Arrays = {
        "beta": result.beta,
        "theta": result.theta,
        "history": np.array(history, dtype=np.float64).reshape(len(history), 5 + len(result.names)),
    }
    if result.pure is not None:
        arrays["pure"] = np.array([result.pure[name] for name in result.names])
    discs = result.gershgorin
    if discs is not None:
        header["gershgorin"] = {"lower": discs.lower, "upper": discs.upper, "sampled": discs.sampled}
        arrays |= {"bread_radius": discs.bread_radius, "meat_radius": discs.meat_radius}
    return header, arrays


def from_plain(header: object, arrays: Arrays, policy: Policy, r: int) -> WeightsResult:
    """The result again, for a model of ``r`` parameters; FileFormatError where its pieces do not fit together."""
    if not isinstance(header, dict) or not isinstance(header["names"], list):
        raise FileFormatError("the automatic weights are not a table of named values")
    names = tuple(_typed(name, str, "names") for name in header["names"])
    if len(names) != len(set(names)):
        raise FileFormatError("two of the automatic weights have the same name")
    values: Plain = {name: _typed(header[name], str, name) for name in _TEXTS}
    values |= {name: _typed(header[name], bool, name) for name in _TRUTHS}
    values |= {name: float(_typed(header[name], (int, float), name)) for name in _NUMBERS}
    values |= {
        name: None if header[name] is None else float(_typed(header[name], (int, float), name)) for name in _MAYBE
    }
    work, known = header["work"], {field.name for field in fields(Work)}
    if not isinstance(work, dict) or not known.issuperset(work):
        raise FileFormatError(f"the work of the automatic weights must have counts by name, not {work!r:.80}")
    values["work"] = Work(**{name: _typed(count, int, "the counts of work") for name, count in work.items()})

    def table(name: str, *shape: int) -> FloatArray:
        array = arrays[name]
        if array.dtype != np.float64 or array.shape != shape:
            mismatch = f"{array.dtype} {array.shape}; it must have float64 {shape}"
            raise FileFormatError(f"{name} of the automatic weights has {mismatch}")
        return array

    groups, beta = len(names), table("beta", len(names))
    if not np.all(beta >= 0) or not np.all(np.isfinite(beta)):
        raise FileFormatError(f"the automatic weights must be finite and at least 0; they are {beta.tolist()}")
    history = tuple(
        Round(number, line[5:], float(line[0]), float(line[1]), float(line[2]), bool(line[3]), int(line[4]))
        for number, line in enumerate(table("history", len(arrays["history"]), 5 + groups), 1)
    )
    pure = dict(zip(names, table("pure", groups).tolist(), strict=True)) if "pure" in arrays else None
    discs, plain = None, header.get("gershgorin")
    if plain is not None:
        radii = [table(name, len(arrays["bread_radius"])) for name in ("bread_radius", "meat_radius")]
        bounds = [float(_typed(plain[name], (int, float), name)) for name in ("lower", "upper")]
        discs = Gershgorin(radii[0], radii[1], bounds[0], bounds[1], _typed(plain["sampled"], bool, "sampled"))
    return WeightsResult(
        beta=beta, names=names, policy=policy, history=history, pure=pure, gershgorin=discs, theta=table("theta", r),
        **values,
    )  # fmt: skip


def _typed(value: T, kind: type | tuple[type, ...], what: str) -> T:
    """The value, if it is of the kind; a truth value is no number."""
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        name = kind.__name__ if isinstance(kind, type) else "a number"
        raise FileFormatError(f"{what} of the automatic weights must be {name}, not {value!r:.80}")
    return value
