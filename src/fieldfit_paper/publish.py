"""The page of the documentation: draw its pictures, and write ``reproduction.md`` and ``reproduction.html``.

    python -m fieldfit_paper.publish docs
    python -m fieldfit_paper.publish docs --page-only

Pictures and tables are in ``docs/figures``, and the fits that they need in ``docs/figures/cells``. A sweep whose table is
missing there is computed at the paper's scale, as by `fieldfit reproduce`. ``--page-only`` leaves the pictures as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fieldfit_paper import claims
from fieldfit_paper.experiments import EXPERIMENTS, reproduce

#: Experiments without a picture on the page.
NOT_ON_THE_PAGE = ("refined-frontier", "report")
#: Files of a figure that the documentation has; SVG and JSON would say the same again.
KEPT = (".png", ".csv")
SCALE = "paper"


def draw_figures(figures: Path) -> list[Path]:
    """Draw all pictures of the page; the files that are left."""
    files = [
        path for name in EXPERIMENTS if name not in NOT_ON_THE_PAGE for path in reproduce(name, figures, SCALE).files
    ]
    for path in files:
        if path.suffix not in KEPT:
            path.unlink()
    return [path for path in files if path.suffix in KEPT]


def publish(docs: Path, *, page_only: bool = False) -> list[Path]:
    """The files that were written: pictures and tables, unless ``page_only``, and the two pages."""
    figures = docs / "figures"
    drawn = [] if page_only else draw_figures(figures)
    return [*drawn, *claims.reproduce(figures, SCALE, docs / "reproduction.md").files]


def main(arguments: list[str] | None = None) -> int:
    """The command of the module's text."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="fieldfit_paper.publish", description="Write the page of the paper's claims."
    )
    parser.add_argument("docs", type=Path, help="folder of the documentation")
    parser.add_argument("--page-only", action="store_true", help="write the page, do not draw its pictures")
    chosen = parser.parse_args(arguments)
    for path in publish(chosen.docs, page_only=chosen.page_only):
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
