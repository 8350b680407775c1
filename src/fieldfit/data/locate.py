"""Where data sets are on this machine: FIELDFIT_DATA, or else the user's cache folder. Nothing is ever downloaded."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fieldfit.arguments import file_path
from fieldfit.data.catalogue import CATALOGUE, DataSet, set_of_file
from fieldfit.types import DataError, MissingDataError


def data_folder() -> Path:
    """The folder of the data sets: FIELDFIT_DATA if it is set, else ``fieldfit`` in the user's cache folder."""
    chosen = os.environ.get("FIELDFIT_DATA")
    return Path(chosen).expanduser() if chosen else _cache_folder() / "fieldfit" / "data"


def _cache_folder() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"


def find_data(name: str) -> Path:
    """Find a file of the data catalogue on this machine. Nothing is downloaded.

    Parameters
    ----------
    name : str
        Name of the file in the catalogue, such as ``"conll2000/train.txt"``. `fieldfit data` lists them.

    Returns
    -------
    Path

    Raises
    ------
    MissingDataError
        If the file is not in the folder FIELDFIT_DATA or in the user's cache folder.

    Examples
    --------
    >>> import fieldfit as ff
    >>> try:
    ...     path = ff.find_data("conll2000/no-such-file.txt")
    ... except ValueError as error:
    ...     print(str(error)[:47])
    The data file conll2000/no-such-file.txt is not
    """
    name = file_path(name, "The name of a data file")
    path = data_folder() / name
    if os.path.isfile(path):
        return path
    known = set_of_file(name)
    published = (
        f"It belongs to {known.title} and is published at {known.published}."
        if known
        else f"It is not in the catalogue, which has {', '.join(s.name for s in CATALOGUE)}."
    )
    where = "FIELDFIT_DATA" if os.environ.get("FIELDFIT_DATA") else "the user's cache folder"
    raise MissingDataError(
        f"The data file {name} is not in {data_folder()} ({where}). {published} Put it there, or set the environment "
        f"variable FIELDFIT_DATA to the folder that contains {name}."
    )


@dataclass(frozen=True)
class DataStatus:
    """One file of the catalogue on this machine: ``state`` is present, missing or different (another checksum)."""

    data_set: str
    file: str
    path: Path
    state: str
    published: str


def check_data(name: str | None = None) -> list[DataStatus]:
    """What of the catalogue (or of one data set) is on this machine, by size and SHA-256."""
    if name is not None and name not in {data_set.name for data_set in CATALOGUE}:
        known = ", ".join(data_set.name for data_set in CATALOGUE)
        raise DataError(f"There is no data set named {name!r:.80}; there are {known}.")
    return [status for data_set in CATALOGUE if name in (None, data_set.name) for status in _statuses(data_set)]


def _statuses(data_set: DataSet) -> list[DataStatus]:
    result = []
    for file in data_set.files:
        path = data_folder() / file.name
        if not path.is_file():
            state = "missing"
        elif path.stat().st_size == file.size and _sha256(path) == file.sha256:
            state = "present"
        else:
            state = "different"
        result.append(DataStatus(data_set.name, file.name, path, state, data_set.published))
    return result


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
