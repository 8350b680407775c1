"""Save what a fit has found. Hours of work are not to be lost with a file that cannot be written."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fieldfit.cli.checkpoints import how_to_continue

if TYPE_CHECKING:
    from fieldfit.api.checkpoint import Checkpoint
    from fieldfit.types import FileAccessError


#: How saved fits begin: they are zip files.
_SAVED = b"PK\x03\x04"


def check_target(path: Path | None, *others: Path | None) -> None:
    """Refuse a file that cannot be written, or is one of the ``others`` of the command, before any work is done for it."""
    if path is None:
        return
    from fieldfit.data.atomic import check_writable

    check_writable(path)
    for other in others:
        if other is not None and (path == other or (path.exists() and other.exists() and path.samefile(other))):
            from fieldfit.types import FileAccessError

            raise FileAccessError(
                f"{path} would be replaced, but the command needs it as it is. Write to another file."
            )


def check_fit_target(path: Path | None, checkpoint: Path | None) -> None:
    """The same for a fit that is to be saved; also refuse a file that is there and has something else, such as the data."""
    check_target(path, checkpoint)
    if path is None or not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        if file.read(len(_SAVED)) != _SAVED:
            from fieldfit.types import FileAccessError

            raise FileAccessError(f"{path} exists and is not a saved fit. Write to another file, or remove it first.")


def check_folder(path: Path | None) -> None:
    """Make the folder for the files of a command, before any work is done for them. It vanishes if it stays empty."""
    if path is not None:
        from fieldfit.report.figures import make_folder

        make_folder(path)


def remove_empty_folders() -> None:
    """Remove the folders that the command has created and not filled, because it failed or was interrupted."""
    module = sys.modules.get("fieldfit.report.figures")
    while module is not None and module.made:
        with contextlib.suppress(OSError):  # it has files, or is gone
            module.made.pop().rmdir()


def save_here_or_elsewhere(
    save: Callable[[Path], object], path: Path, what: str = "The fit was"
) -> FileAccessError | None:
    """Save to a file or a folder; if it cannot be written, to a new temporary folder. The error says where it is then."""
    from fieldfit.types import FileAccessError

    try:
        save(path)
        return None
    except FileAccessError as error:
        failure = error
    folder = None
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="fieldfit-"))
        save(folder / path.name)
        return FileAccessError(f"{failure} {what} saved as {folder / path.name} instead.")
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return failure


def is_written(path: Path | None) -> bool:
    """Whether this process has written the file. An interrupt may have come before that, and what is there may be older."""
    from fieldfit.data.atomic import written

    return path is not None and os.fspath(path) in written


def what_is_kept(out: Path | None, checkpoint: Checkpoint | None) -> str:
    """What there is of a fit that was interrupted, and how to continue: the end of a sentence."""
    kept = ""
    if out is not None:
        kept = f"; {out} has the estimate so far" if is_written(out) else f"; {out} was not written"
    if state := how_to_continue(checkpoint):  # it has none before the first iteration
        kept += f"; {state}"
    return kept


def with_state(failure: FileAccessError, checkpoint: Checkpoint | None) -> FileAccessError:
    """The error of a fit that could not be saved, with what its checkpoint has."""
    state = how_to_continue(checkpoint)
    return type(failure)(f"{failure} {state}, also with another --out.") if state else failure
