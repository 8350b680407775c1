"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

#: How the names of the package's own files begin.
_PACKAGE = str(Path(__file__).parent / "_")[:-1]


def warn_caller(warning: Warning | str, category: type[Warning] | None = None) -> None:
    """Warn of something, at the innermost line outside of fieldfit.

    `warnings.warn` does this with ``skip_file_prefixes`` from Python 3.12 on.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, category, stacklevel=level)
