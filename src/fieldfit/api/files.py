"""Saved fits: a versioned container of plain JSON and arrays, never pickle."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from dataclasses import asdict, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.refinement import read_refinement
from fieldfit.api.result import Fit
from fieldfit.api.saved_fields import (
    checked_history,
    checked_matrix,
    checked_record,
    checked_seed,
    checked_size,
    checked_text,
)
from fieldfit.api.state import Convergence, Saved
from fieldfit.asymptotics import Moments
from fieldfit.asymptotics.debiased import PenalisedStart
from fieldfit.data.alignment_record import AlignmentRecord
from fieldfit.data.container import read_container, write_container
from fieldfit.data.encoders import Encoder, names_of, read_encoded, read_encoder
from fieldfit.docstrings import SHARED, filled
from fieldfit.models.base import Cost, Model
from fieldfit.penalties import LEAST_VARIANCE, Penalties
from fieldfit.policies import Policy
from fieldfit.types import (
    Array,
    Arrays,
    ClusterError,
    DataError,
    FieldfitError,
    FileFormatError,
    OutOfMemoryError,
    Plain,
)
from fieldfit.weights.storing import from_plain, to_plain

#: Added to the description of bread and meat that come from a file.
_AS_SAVED = ", as saved"
#: What a saved debiased fit has of the penalised estimate.
_START = ("theta", "precision", "active", "remainder")
#: Most parameters for which a saved fit contains its bread and meat.
_MOST_SAVED_PARAMETERS = 1_000


def find_models() -> dict[str, type[Model]]:
    """All models by their kind: every module of `fieldfit.models` is imported, so a new model is one file."""
    _import_models()
    return dict(Model.registry)


@cache
def _import_models() -> None:
    import fieldfit.models

    for module in pkgutil.iter_modules(fieldfit.models.__path__):
        importlib.import_module(f"fieldfit.models.{module.name}")


def save_fit(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write the fit, with its bread and meat if they are available or cheap, and its encoder if it has one.

    An interrupt while bread and meat are computed leaves them out: the fit is written, then the interrupt is raised again.
    A fit that was interrupted is written at once: nothing is computed for it, on workers least of all.
    """
    model = fit.model
    if fit.encoder is not None:
        model = model.with_input_names(None, None)  # the encoder has the names: do not write them twice
    specification, model_arrays = model.specification()
    arrays: Arrays = {
        "theta": fit.theta,
        "sigma2": fit.sigma2,
        "free": fit.free,
        "dropped_rows": fit.dropped_rows,
        "history": np.array([line.saved for line in fit.convergence.history]).reshape(-1, 4),
    }
    moments, stopped = _moments_to_save(fit)
    if moments is not None:
        arrays |= {"bread": moments.bread, "meat": moments.meat, "held": fit.held}
    if fit.penalty.l1 is not None:
        arrays["l1"] = fit.penalty.l1
    if fit.penalty.l1_groups is not None:
        arrays["l1_groups"] = fit.penalty.l1_groups
    if fit.step_from is not None:
        arrays |= {f"start_{name}": getattr(fit.step_from, name) for name in _START}
    if fit.refinement is not None:
        arrays["first_theta"] = fit.refinement.first_theta
    arrays |= {f"model_{name}": array for name, array in model_arrays.items()}
    if fit.encoder is not None:
        arrays |= {f"encoder_{name}": array for name, array in fit.encoder.to_arrays().items()}
    weights = None
    if fit.weights is not None:
        weights, weight_arrays = to_plain(fit.weights)
        arrays |= {f"weights_{name}": array for name, array in weight_arrays.items()}
    header: Plain = {
        "kind": "fit",
        "model_kind": fit.model.kind,
        "model": specification,
        "encoder": None if fit.encoder is None else type(fit.encoder).__name__,
        "policy": str(fit.policy),
        "started_from": None if fit.started_from is None else str(fit.started_from),
        "fingerprint": fit.fingerprint,
        "separated": list(fit.separated),
        "cost": None if fit.cost is None else fit.cost.to_dict(),
        "total_weight": None if moments is None else moments.total,
        "degrees": None if moments is None or not np.isfinite(moments.degrees) else moments.degrees,
        "errors_from": None if moments is None else moments.method.removesuffix(_AS_SAVED),
        "weights": weights,
        "refinement": None
        if fit.refinement is None
        else fit.refinement.to_dict(fit.policy, fit.known_specification_test),
        "random_state": fit.random_state,
        "size": asdict(fit.size),
        "convergence": asdict(replace(fit.convergence, history=())),
        "runaway": fit.runaway,
        "command": fit.command,
        "alignment": None if fit.alignment is None else _plain_alignment(fit.alignment, arrays),
    }
    write_container(path, header, arrays)
    kept = f"{os.fspath(path)} has the estimate, without standard errors."
    if isinstance(stopped, ClusterError):
        raise ClusterError(f"{stopped} {kept}") from stopped
    if isinstance(stopped, MemoryError):
        raise OutOfMemoryError(
            f"{str(stopped) or 'There is not enough memory for standard errors.'} {kept}"
        ) from stopped
    if stopped is not None:
        raise stopped


def _moments_to_save(fit: Fit) -> tuple[Moments | None, KeyboardInterrupt | ClusterError | MemoryError | None]:
    """Bread and meat, if they are available or cheap, and an interrupt or a lost cluster during their computation.

    A second stage's specification test is computed too, and kept by the fit.
    """
    moments = None
    if fit.interrupted and not fit.has_errors:
        return None, None
    try:
        has_data = fit.prepared is not None or fit.saved.moments is not None
        if has_data and fit.model.n_parameters <= _MOST_SAVED_PARAMETERS:
            try:
                computed = fit.dense_accuracy().moments
                moments = computed if np.isfinite(computed.meat).all() else None
            except DataError:  # these samples have no robust standard errors: there is nothing to save
                pass
        if fit.refinement is not None and fit.testable and fit.prepared is not None:
            fit.specification_test()
    except (KeyboardInterrupt, ClusterError, MemoryError) as stopped:
        return moments, stopped
    return moments, None


@filled(SHARED)
def load(
    path: str | os.PathLike[str],
    data: object = None,
    *,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
) -> Fit:
    """Load a saved fit.

    Parameters
    ----------
    path : str or Path
        The file.
    data : array_like, DataFrame, str, Path, Sequences, ColumnText or None, default: None
        The samples of the fit, which the file does not contain. Influence, tests against other fits and goodness of
        fit need them. For a saved tagger: the path of its file of sentences, or what `read_columns` has read. Other
        samples raise an error.
    sample_weight : array_like, str or None, default: None
        The weights of the samples, if the fit had them.
    weight_kind : {"importance", "counts"}, default: "importance"
        What the weights mean, as in `fit`.
    groups : array_like, str or None, default: None
        The groups of the samples, if the fit had them.

    Returns
    -------
    Fit
        With the same θ, bit by bit.

    Examples
    --------
    %(fit)s
    >>> fit.save("model.ff")
    >>> ff.load("model.ff", x).influence().shape
    (500, 3)
    """
    fit = _read_fit(path)
    if data is None:
        return fit
    from fieldfit.api.refine import attach

    if fit.encoder is not None:
        data = read_encoded(fit.encoder, data)
    return attach(fit, data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups)


def _read_fit(path: str | os.PathLike[str]) -> Fit:
    header, arrays = read_container(path)
    try:
        if header.get("kind") != "fit":
            raise FileFormatError(f"{path} holds {header.get('kind')!r:.80}, not a fit.")
        model, encoder = _read_model(path, header, arrays)
        r = model.n_parameters
        dropped, separated = arrays["dropped_rows"], header["separated"]
        if dropped.dtype.kind != "i" or dropped.ndim != 1:
            raise FileFormatError(f"{path} has dropped rows that no fit has.")
        if not isinstance(separated, list) or not set(separated) <= set(model.parameter_names if separated else ()):
            raise FileFormatError(f"{path} names parameters that its model does not have.")
        free = _by_parameter(path, arrays, "free", r, np.bool_)
        if r and not free.any():
            raise FileFormatError(f"{path} has no free parameter, as no fit has. Save the fit again.")
        held = _by_parameter(path, arrays, "held", r, np.bool_) if "held" in arrays else None
        policy = Policy.parse(header["policy"])
        cost = None if header["cost"] is None else checked_record(Cost, header["cost"])
        weights = None
        if header["weights"] is not None:
            weights = from_plain(header["weights"], _part(arrays, "weights_"), policy, r)
        refinement = None
        if header["refinement"] is not None:
            refinement = read_refinement(header["refinement"], model.check_theta(arrays["first_theta"]))
        return Fit(
            model=model,
            policy=policy,
            theta=model.check_theta(arrays["theta"]),
            free=free,
            penalty=_read_penalties(path, arrays, r),
            size=checked_size(header["size"]),
            convergence=replace(
                checked_record(Convergence, header["convergence"] | {"history": ()}),
                history=checked_history(arrays["history"]),
            ),
            random_state=checked_seed(header["random_state"]),
            separated=tuple(separated),
            dropped_rows=dropped,
            weights=weights,
            encoder=encoder,
            saved=Saved(_read_moments(path, header, arrays, r), str(header["fingerprint"]), cost, held),
            refinement=refinement,
            started_from=None if header["started_from"] is None else Policy.parse(header["started_from"]),
            step_from=_read_start(path, arrays, r),
            runaway=checked_text(header["runaway"]),
            command=checked_text(header["command"]),
            alignment=_read_alignment(header, arrays, model),
        )
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError, FieldfitError) as error:
        raise FileFormatError(
            f"{path} is a fieldfit file but its contents do not fit together ({type(error).__name__}: {error}). "
            f"Save the fit again."
        ) from error


def _read_model(path: str | os.PathLike[str], header: Plain, arrays: Arrays) -> tuple[Model, Encoder | None]:
    """The model with the names of its encoder, if it has one, and the encoder."""
    models, kind = find_models(), header["model_kind"]
    if kind not in models:
        raise FileFormatError(
            f"{path} contains a model of the kind {kind!r:.80}, which this version does not have (it has {sorted(models)})."
        )
    names = header["model"].get("names")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise FileFormatError(f"{path} has names of variables that are not text. Save the fit again.")
    json.dumps(header["model"], ensure_ascii=False).encode()  # ValueError for text with lone surrogates
    model = models[kind].from_specification(header["model"], _part(arrays, "model_"))
    if header["encoder"] is None:
        return model, None
    encoder = read_encoder(header["encoder"], _part(arrays, "encoder_"))
    return model.with_input_names(*names_of(encoder)), encoder


def _plain_alignment(alignment: AlignmentRecord, arrays: Arrays) -> Plain:
    """The record of an alignment as plain values; its positions go to ``arrays``."""
    if alignment.positions is not None:
        arrays["positions"] = alignment.positions
    return {name: value for name, value in vars(alignment).items() if name != "positions"}


def _read_alignment(header: Plain, arrays: Arrays, model: Model) -> AlignmentRecord | None:
    """The record of a family's alignment; raises ValueError if it is not one of this model."""
    if header["alignment"] is None:
        return None
    record = checked_record(AlignmentRecord, header["alignment"] | {"positions": arrays.get("positions")})
    record.check(model.as_field("An alignment").names, checked_size(header["size"]).n)
    return record


def _read_start(path: str | os.PathLike[str], arrays: Arrays, r: int) -> PenalisedStart | None:
    """The penalised estimate that a debiased fit started from."""
    if "start_theta" not in arrays:
        return None
    theta = _by_parameter(path, arrays, "start_theta", r, np.float64)
    precision = _by_parameter(path, arrays, "start_precision", r, np.float64)
    remainder = _by_parameter(path, arrays, "start_remainder", r, np.float64)
    if not np.isfinite(theta).all() or not (np.isfinite(precision) & (precision >= 0)).all():
        raise FileFormatError(f"{path} has a penalised estimate that no fit has.")
    return PenalisedStart(theta, precision, _by_parameter(path, arrays, "start_active", r, np.bool_), remainder)


def _read_penalties(path: str | os.PathLike[str], arrays: Arrays, r: int) -> Penalties:
    sigma2 = _by_parameter(path, arrays, "sigma2", r, np.float64)
    if not (sigma2 >= LEAST_VARIANCE).all():
        raise FileFormatError(f"{path} has penalties that no fit has.")
    l1 = _by_parameter(path, arrays, "l1", r, np.float64) if "l1" in arrays else None
    if l1 is not None and not ((l1 >= 0) & np.isfinite(l1)).all():
        raise FileFormatError(f"{path} has L1 weights that are negative or not finite.")
    groups = _by_parameter(path, arrays, "l1_groups", r, np.int64) if "l1_groups" in arrays else None
    if groups is not None and l1 is None:
        raise FileFormatError(f"{path} has groups of parameters without L1 weights.")
    return Penalties(sigma2, l1, groups)


def _read_moments(path: str | os.PathLike[str], header: Plain, arrays: Arrays, r: int) -> Moments | None:
    if "bread" not in arrays or "meat" not in arrays:
        return None
    bread, meat = (checked_matrix(arrays[name], r, name) for name in ("bread", "meat"))
    total = float(header["total_weight"])
    if not 0 < total < np.inf:
        raise FileFormatError(f"{path} has samples of the total weight {total}.")
    degrees = np.inf if header["degrees"] is None else float(header["degrees"])
    if not degrees > 0:
        raise FileFormatError(f"{path} has standard errors with {degrees} degrees of freedom.")
    return Moments(bread, meat, total, str(header["errors_from"]) + _AS_SAVED, degrees=degrees)


def _by_parameter(path: str | os.PathLike[str], arrays: Arrays, name: str, r: int, dtype: type) -> Array:
    """An array with an entry for each of the ``r`` parameters."""
    array = arrays[name]
    if array.shape != (r,) or array.dtype != dtype:
        raise FileFormatError(f"{path} has an array {name!r:.80} that does not belong to its {r} parameters.")
    return array


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
