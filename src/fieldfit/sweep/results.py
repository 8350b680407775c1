"""Read a sweep's results while it runs or afterwards: pandas, CSV, Parquet, and a summary as text."""

from __future__ import annotations

import collections
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from fieldfit.arguments import file_path
from fieldfit.data.atomic import atomic_writer
from fieldfit.docstrings import filled
from fieldfit.sweep.store import Store
from fieldfit.types import FieldfitError, Plain, SweepError

if TYPE_CHECKING:
    import pandas as pd

#: The first line of a traceback.
TRACEBACK = "Traceback (most recent call last):"


#: The sweep of the examples, which has been run.
SQUARES = {
    "squares": """\
>>> from fieldfit.sweep import Sweep, open_sweep, run_sweep
>>> def square(coordinates, seed):
...     return {"y": coordinates["x"] ** 2}
>>> sweep = Sweep(square, {"x": [1, 2, 3]})
>>> summary = run_sweep(sweep, "squares.db")""",
}


@filled(SQUARES)
class SweepResults:
    """The cells of a store as a table. Each call reads the store again.

    Parameters
    ----------
    path : str or Path
        The store.

    Examples
    --------
    %(squares)s
    >>> open_sweep("squares.db").frame()[["x", "y"]]
       x  y
    0  1  1
    1  2  4
    2  3  9
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(file_path(path))
        with Store(self.path) as store:
            self.name = store.name
            self.definition: Plain = store.definition

    def frame(self, *, unfinished: bool = False) -> pd.DataFrame:
        """Return one row for each cell, in the order of the grid.

        Parameters
        ----------
        unfinished : bool, default: False
            Whether cells that are neither done nor failed have rows too.

        Returns
        -------
        DataFrame
            Columns: the axes, the results, and ``cell_status``, ``cell_seed``, ``cell_seconds``, ``cell_finished``,
            ``cell_error``, ``cell_warnings``, ``cell_versions``.

        Examples
        --------
        %(squares)s
        >>> open_sweep("squares.db").frame()[["x", "y", "cell_status"]]
           x  y cell_status
        0  1  1        done
        1  2  4        done
        2  3  9        done
        """
        import pandas as pd

        with Store(self.path, check=False) as store:
            records = store.records()
        if not unfinished:
            records = [record for record in records if record["cell_status"] in ("done", "failed")]
        axes = list(self.definition["axes"])
        frame = pd.DataFrame.from_records(records) if records else pd.DataFrame(columns=axes)
        engine = [name for name in frame.columns if str(name).startswith("cell_")]
        return frame[[*axes, *(n for n in frame.columns if n not in axes and n not in engine), *engine]]

    def export(self, target: str | os.PathLike[str], *, unfinished: bool = False) -> int:
        """Write the table to a .csv or .parquet file.

        Parameters
        ----------
        target : str or Path
            The file. Its ending decides the format.
        unfinished : bool, default: False
            Whether cells that are neither done nor failed have rows too.

        Returns
        -------
        int
            The number of rows.

        Examples
        --------
        %(squares)s
        >>> open_sweep("squares.db").export("squares.csv")
        3
        """
        file = Path(target)
        frame = self.frame(unfinished=unfinished)
        kind = file.suffix.lower()
        if kind not in (".csv", ".parquet"):
            raise SweepError(f"A sweep is exported to a .csv or .parquet file; got {file.name!r:.80}.")
        buffer = io.BytesIO()
        if kind == ".csv":
            frame.to_csv(buffer, index=False)
        else:
            try:
                frame.to_parquet(buffer, index=False)
            except ImportError as error:
                raise FieldfitError(
                    "Parquet needs pyarrow, which is not installed: install it, or export to a .csv file."
                ) from error
        with atomic_writer(file) as stream:
            stream.write(buffer.getvalue())
        return len(frame)

    def summary(self) -> str:
        """Return how many cells are done, and which errors there were.

        Returns
        -------
        str

        Examples
        --------
        %(squares)s
        >>> print(open_sweep("squares.db").summary().splitlines()[0].partition(" over ")[2])
        x (3); seed 0
        """
        with Store(self.path, check=False) as store:
            counts = store.counts()
            errors = collections.Counter(
                error_sentence(record["cell_error"]).splitlines()[0]
                for record in store.records()
                if record["cell_error"]
            )
        axes = ", ".join(f"{name} ({len(values)})" for name, values in self.definition["axes"].items())
        lines = [
            f"{self.name}: {self.definition['experiment']} over {axes}; seed {self.definition['seed']}",
            f"{counts.done} of {counts.total} cells done, {counts.failed} failed, {counts.running} running, "
            f"{counts.waiting} waiting; {counts.seconds:.3g} s per cell",
        ]
        lines += [f"  {number} × {text}" for text, number in errors.most_common(10)]
        return "\n".join(lines)


def error_sentence(error: str) -> str:
    """What a cell's error says, without the traceback before it; an error of fieldfit without the name of its class."""
    lines = error.strip().splitlines()
    last = max((place for place, line in enumerate(lines) if line == TRACEBACK), default=-1)
    told = next((place for place in range(last + 1, len(lines)) if not lines[place].startswith(" ")), 0)
    return re.sub(r"^fieldfit(?:\.\w+)+: ", "", "\n".join(lines[told:])) or "no message"


@filled(SQUARES)
def open_sweep(path: str | os.PathLike[str]) -> SweepResults:
    """Open the results in a store, also while the sweep is running.

    Parameters
    ----------
    path : str or Path
        The store.

    Returns
    -------
    SweepResults

    Examples
    --------
    %(squares)s
    >>> open_sweep("squares.db").frame()["y"].tolist()
    [1, 4, 9]
    """
    return SweepResults(path)
