"""Write a file or a folder completely or not at all: as a temporary neighbour, to the disk, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fieldfit.arguments import file_path
from fieldfit.data.regular import what_instead
from fieldfit.types import FileAccessError

#: The first 1,000 different files that this process has written, for the message after Ctrl-C.
written: list[str] = []
_MOST_WRITTEN = 1000


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], part_of: str | os.PathLike[str] | None = None) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends well, and vanishes when it does not.

    The old file, if there is one, stays whole until that moment, also after an error, Ctrl-C or a full disk. ``part_of``:
    the folder of `atomic_folder` that the file is for, which errors name instead.
    """
    # Through links, so that a link stays a link to the new file; the neighbour must be on the same disk.
    target = os.path.realpath(file_path(path))
    folder, name = os.path.split(target)
    stem = f".{name[:100]}."
    temporary, renamed = "", False
    try:
        mode = _mode_of_old_file(target, path)
        _remove_left_over(folder, stem)
        while True:
            temporary = os.path.join(folder, f"{stem}{secrets.token_hex(6)}.tmp")
            # Not tempfile: its files are readable by their owner only, and this one is to be as any other new file.
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
            if _locked(descriptor) is not False and os.fstat(descriptor).st_nlink:
                break
            os.close(descriptor)  # another process took it for one that was left over, in the moment before the lock
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
        renamed = True
        if len(written) < _MOST_WRITTEN and os.fspath(path) not in written:
            written.append(os.fspath(path))
        _sync_folder(folder)
    except FileAccessError:
        raise
    except OSError as error:
        named = path if part_of is None else part_of
        where = folder if part_of is None else os.path.dirname(os.path.realpath(part_of))
        raise FileAccessError(_sentence(named, where, error)) from error
    finally:
        if temporary and not renamed:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8; either the whole file is in place afterwards, or the old one is untouched."""
    with atomic_writer(path) as file:
        file.write(text.encode())


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that `atomic_writer` could not write, before any work is done for it."""
    target = os.path.realpath(file_path(path))
    folder = os.path.dirname(target)
    try:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        _mode_of_old_file(target, path)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileAccessError:
        raise
    except OSError as error:
        given = os.path.dirname(file_path(path)) or "."
        named = given if os.path.realpath(given) == folder else folder  # a link may lead elsewhere
        raise FileAccessError(_sentence(path, named, error, "cannot be")) from error


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder that becomes the new folder `path` when the block ends well, and vanishes when it does not."""
    target = os.path.realpath(path)
    parent, name = os.path.split(target)
    renamed, before = False, len(written)
    try:
        if os.path.lexists(target) and not os.path.isdir(target):
            raise FileAccessError(f"{os.fspath(path)} exists and is not a folder. Give the name of a new folder.")
        if os.path.isdir(target) and os.listdir(target):
            raise FileAccessError(f"The folder {os.fspath(path)} is not empty. Give the name of a new folder.")
        os.makedirs(parent, exist_ok=True)
        with temporary_folder(parent, name) as temporary:
            yield temporary
            os.rename(temporary, target)
            renamed = True
        _sync_folder(parent)
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(_sentence(path, parent, error)) from error
    finally:
        written[before:] = [os.fspath(path)] if renamed else []


@contextlib.contextmanager
def temporary_folder(parent: str, name: str) -> Iterator[Path]:
    """A hidden folder in `parent` that vanishes when the block ends, unless it is renamed there.

    If the process is killed, the next one that makes a folder of this name there removes it.
    """
    stem, descriptor = f".{name[:100]}.", None
    _remove_left_over(parent, stem)
    temporary = os.path.join(parent, f"{stem}{secrets.token_hex(6)}.tmp")
    try:
        os.mkdir(temporary)
        with contextlib.suppress(OSError):  # Windows opens no folders: there the folders of killed processes stay
            descriptor = os.open(temporary, os.O_RDONLY)
            _locked(descriptor)
        yield Path(temporary)
    finally:
        if descriptor is not None:
            os.close(descriptor)
        shutil.rmtree(temporary, ignore_errors=True)


def _locked(descriptor: int) -> bool | None:
    """Lock a file for as long as it is open; False if another process has the lock, None where there are no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_left_over(folder: str, stem: str) -> None:
    """Remove what processes left that were killed while they wrote this file or folder: nobody has its lock."""
    pattern = re.compile(re.escape(stem) + r"[0-9a-f]{12}\.tmp")
    for name in os.listdir(folder or "."):
        if not pattern.fullmatch(name):
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            whole = os.path.isdir(path) and not os.path.islink(path)
            descriptor = os.open(path, os.O_RDONLY if whole else os.O_RDWR)
            try:
                if _locked(descriptor):
                    shutil.rmtree(path, ignore_errors=True) if whole else os.unlink(path)
            finally:
                os.close(descriptor)


def _mode_of_old_file(target: str, path: str | os.PathLike[str]) -> int | None:
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    instead = what_instead(status)
    if instead is not None:
        raise FileAccessError(
            f"{os.fspath(path)} cannot be written because it is {instead}. Give the path of a file."
        )
    return stat.S_IMODE(status.st_mode)


def _sync_folder(folder: str) -> None:
    """Make the new name itself durable, where the system can (Windows cannot, some network disks neither)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sentence(path: str | os.PathLike[str], folder: str, error: OSError, was_not: str = "was not") -> str:
    shown = os.fspath(path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{shown} {was_not} written because the disk is full; an older file there is unchanged. Free some space."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{shown} {was_not} written: no permission to write in {folder}. Choose another folder."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"{shown} {was_not} written because the folder {folder} does not exist. Create it first."
    reason = error.strerror or str(error)
    return f"{shown} {was_not} written ({reason}); an older file there is unchanged. Check the path and the disk."
