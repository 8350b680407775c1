"""Saving pictures: one look for all of them, several formats, and the same file for the same content."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldfit.data.atomic import atomic_writer
from fieldfit.types import FieldfitError, FileAccessError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1b1b1b"
MUTED = "#6b6b6b"
ACCENT = "#b3541e"
BLUE = "#2b5c8a"

_STYLE: Any = {  # matplotlib types its names of settings one by one
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "figure.facecolor": "white",
    "svg.hashsalt": "fieldfit",
}


@contextlib.contextmanager
def figure(width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches with the common look; it never opens a window."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FieldfitError("Pictures need matplotlib: pip install 'fieldfit[plot]'.") from error
    with rc_context(_STYLE):
        yield Figure(figsize=(width, height))


def figure_bytes(drawing: Figure, kind: str, dpi: int = 150) -> bytes:
    """The picture as a file of the kind "png", "svg" or "pdf", without dates."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with rc_context(_STYLE):
        drawing.savefig(buffer, format=kind, dpi=dpi, metadata=metadata, bbox_inches="tight", pad_inches=0.12)
    return buffer.getvalue()


def save_figure(
    drawing: Figure, folder: str | os.PathLike[str], name: str, kinds: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write ``folder/name.kind`` for each kind."""
    written = []
    for kind in kinds:
        path = Path(folder) / f"{name}.{kind}"
        content = figure_bytes(drawing, kind)
        with atomic_writer(path) as file:
            file.write(content)
        written.append(path)
    return written


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made if its parent exists."""
    folder = Path(path)
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        raise FileAccessError(
            f"The folder {folder} cannot be made because {folder.parent} does not exist. Create that first."
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileAccessError(f"The folder {folder} cannot be made ({reason}). Give another one.") from error
    return folder
