"""Saving figures: one style for all, several formats, and reproducible files."""

from __future__ import annotations

import contextlib
import io
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldfit.data.atomic import atomic_writer
from fieldfit.types import FieldfitError, FileAccessError, Plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1b1b1b"
MUTED = "#6b6b6b"
ACCENT = "#b3541e"
BLUE = "#2b5c8a"

_STYLE: Any = {  # matplotlib's type for settings lists every name
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


def axes_or_new(ax: object, width: float, height: float) -> Axes:
    """The axes that the user gave; without any, those of a new figure of this size in inches."""
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    if ax is not None:
        raise FieldfitError(
            f"ax is {ax!r:.80}; it must be the Axes of a matplotlib figure, such as figure.add_subplot(), or None for a "
            "new figure."
        )
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


@contextlib.contextmanager
def figure(width: float, height: float) -> Iterator[Figure]:
    """Create a figure of this size in inches with the common style. It never opens a window."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise FieldfitError("Pictures need matplotlib. Install it with: pip install 'fieldfit[plot]'.") from error
    with rc_context(_STYLE):
        yield Figure(figsize=(width, height))


def draw_grid(
    rows: Sequence[Sequence[Callable[[Axes], object]]],
    caption: str,
    *,
    width: float,
    height: float,
    margins: tuple[float, float],
    gaps: tuple[float, float],
) -> Figure:
    """Draw panels in rows with a caption below. Each entry is a function that draws on the axes it receives.

    ``width`` and ``height`` are those of one panel, and ``margins`` those below and above all panels, in inches.
    ``gaps`` between columns and rows are shares of a panel.
    """
    across = max(map(len, rows))
    lines = textwrap.wrap(caption, int(across * width * 15.5)) if caption else []
    below = 0.19 * len(lines) + (0.15 if lines else 0.0)
    total = height * len(rows) + below
    with figure(across * width, total) as drawing:
        grid = drawing.add_gridspec(
            len(rows), across, left=0.75 / (across * width), right=1 - 0.15 / (across * width),
            bottom=(below + margins[0]) / total, top=1 - margins[1] / total, wspace=gaps[0], hspace=gaps[1],
        )  # fmt: skip
        for i, row in enumerate(rows):
            for j, draw in enumerate(row):
                draw(drawing.add_subplot(grid[i, j]))
        if lines:
            drawing.text(0.15 / (across * width), (below - 0.05) / total, "\n".join(lines), va="top", fontsize=8.5)
    return drawing


def figure_bytes(drawing: Figure, kind: str, dpi: int = 150) -> bytes:
    """Encode a figure as a file. The same figure always gives the same bytes.

    Parameters
    ----------
    drawing : matplotlib.figure.Figure
        The figure.
    kind : {"png", "svg", "pdf"}
        Format of the file.
    dpi : int, default: 150
        Resolution of a PNG file.

    Returns
    -------
    bytes

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> panel = plots.Panel("t", "x", "y", [plots.Series("s", np.arange(3.0), np.arange(3.0))])
    >>> plots.figure_bytes(plots.draw_panels([[panel]]), "png")[1:4]
    b'PNG'
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata: Plain = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with rc_context(_STYLE):
        drawing.savefig(buffer, format=kind, dpi=dpi, metadata=metadata, bbox_inches="tight", pad_inches=0.12)
    return buffer.getvalue()


def save_figure(
    drawing: Figure, folder: str | os.PathLike[str], name: str, kinds: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write a figure to ``folder/name.kind`` for each kind.

    Parameters
    ----------
    drawing : matplotlib.figure.Figure
        The figure.
    folder : str or Path
        The folder, which must exist.
    name : str
        Name of the files, without ending.
    kinds : sequence of str, default: ("png", "svg")
        Formats: "png", "svg", "pdf".

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldfit import plots
    >>> panel = plots.Panel("t", "x", "y", [plots.Series("s", np.arange(3.0), np.arange(3.0))])
    >>> [path.name for path in plots.save_figure(plots.draw_panels([[panel]]), ".", "line")]
    ['line.png', 'line.svg']
    """
    written = []
    for kind in kinds:
        path = Path(folder) / f"{name}.{kind}"
        content = figure_bytes(drawing, kind)
        with atomic_writer(path) as file:
            file.write(content)
        written.append(path)
    return written


#: The folders that this process has created. The command line removes those that stay empty.
made: list[Path] = []


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder unless it exists. Its parent must exist.

    Parameters
    ----------
    path : str or Path
        The folder.

    Returns
    -------
    Path

    Examples
    --------
    >>> from fieldfit import plots
    >>> plots.make_folder("results").is_dir()
    True
    """
    folder = Path(path)
    try:
        absent = not folder.exists()
        folder.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        raise FileAccessError(
            f"The folder {folder} cannot be created because {folder.parent} does not exist. Create that first."
        ) from error
    except FileExistsError as error:
        raise FileAccessError(f"{folder} exists and is not a folder. Give the path of a folder.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileAccessError(f"The folder {folder} cannot be created ({reason}). Give another one.") from error
    if absent:
        made.append(folder.absolute())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileAccessError(f"There is no permission to write in the folder {folder}. Give another one.")
    return folder
