"""Regular files: opening a pipe would wait for its other end, perhaps forever, and a device may have no end."""

from __future__ import annotations

import os
import stat

from fieldfit.arguments import file_path
from fieldfit.types import FileAccessError


def what_instead(status: os.stat_result) -> str | None:
    """What a path is that is not one of a regular file; None for a regular file."""
    if stat.S_ISREG(status.st_mode):
        return None
    return "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"


def checked_file(path: object) -> str:
    """The path of a regular file as text; a file that cannot be found is left to the reader, which says why."""
    shown = file_path(path)
    try:
        instead = what_instead(os.stat(shown))
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        return shown
    if instead is not None:
        raise FileAccessError(f"{shown} cannot be read because it is {instead}. Give the path of a file.")
    return shown
