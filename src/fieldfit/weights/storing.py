"""`WeightsResult` as plain JSON values and arrays, and back: numbers in arrays, so that the same bits return."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from fieldfit.policies.policy import Policy
from fieldfit.types import Array, Arrays, FileFormatError, FloatArray, Plain
from fieldfit.weights.gershgorin import Gershgorin
from fieldfit.weights.result import Round, WeightsResult, Work

_TEXTS = ("message", "form", "formula")
_TRUTHS = ("converged", "fell_back")
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
    names = tuple(_typed(header["names"], str, "names"))
    if len(names) != len(set(names)):
        raise FileFormatError("two of the automatic weights have the same name")
    values: Plain = {}
    for group, kind in ((_TEXTS, str), (_TRUTHS, bool)):
        values |= dict(zip(group, _typed([header[name] for name in group], kind, ", ".join(group)), strict=True))
    values |= {name: _number(header[name], name) for name in _NUMBERS}
    values |= {name: None if header[name] is None else _number(header[name], name) for name in _MAYBE}
    values["work"] = _work(header["work"])

    groups = len(names)
    beta = _vector(arrays["beta"], "beta", groups)
    if not np.all(beta >= 0) or not np.all(np.isfinite(beta)):
        raise FileFormatError(f"the automatic weights must be finite and at least 0; they are {beta.tolist()}")
    lines = _table(arrays["history"], "history", (len(arrays["history"]), 5 + groups))
    history = tuple(
        Round(number, line[5:], float(line[0]), float(line[1]), float(line[2]), bool(line[3]), int(line[4]))
        for number, line in enumerate(lines, 1)
    )
    pure = None
    if "pure" in arrays:
        pure = dict(zip(names, map(float, _vector(arrays["pure"], "pure", groups)), strict=True))
    discs, plain = None, header.get("gershgorin")
    if plain is not None:
        (sampled,) = _typed([plain["sampled"]], bool, "sampled")
        count = len(arrays["bread_radius"])
        discs = Gershgorin(
            _vector(arrays["bread_radius"], "bread_radius", count),
            _vector(arrays["meat_radius"], "meat_radius", count),
            _number(plain["lower"], "lower"),
            _number(plain["upper"], "upper"),
            sampled,
        )
    return WeightsResult(
        beta=beta, names=names, policy=policy, history=history, pure=pure, gershgorin=discs,
        theta=_vector(arrays["theta"], "theta", r), **values,
    )  # fmt: skip


def _work(plain: object) -> Work:
    known = [field.name for field in fields(Work)]
    if not isinstance(plain, dict) or not all(name in known for name in plain):
        raise FileFormatError(f"the work of the automatic weights must have counts by name, not {plain!r}")
    _typed(list(plain.values()), int, "the counts of work")
    return Work(**plain)


def _typed(values: list[Any], kind: type[Any], what: str) -> list[Any]:
    for value in values:
        if not isinstance(value, kind):
            raise FileFormatError(f"{what} of the automatic weights must be {kind.__name__}, not {value!r}")
    return values


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FileFormatError(f"{what} of the automatic weights must be a number, not {value!r}")
    return float(value)


def _vector(array: Array, what: str, length: int) -> FloatArray:
    return _table(array, what, (length,))


def _table(array: Array, what: str, shape: tuple[int, ...]) -> FloatArray:
    if array.dtype != np.float64 or array.shape != shape:
        raise FileFormatError(
            f"{what} of the automatic weights has {array.dtype} {array.shape}; it must have float64 {shape}"
        )
    return array
