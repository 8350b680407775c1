"""Text that many docstrings share, written once.

A line ``%(name)s`` in a docstring stands for the block of that name; `filled` puts the blocks in when the class or
function is made, so that ``help()`` shows the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)

#: Parameters that the methods of a fit share, and the fits that examples begin with.
SHARED = {
    "kind": (
        'kind : {"robust", "model", "spatial"}, default: "robust"\n'
        "    Covariance from the data, valid also if the model is wrong; expected under the fitted model; or from the\n"
        "    dependence between the sites of each sample. For a single sample, robust errors are spatial; for one\n"
        "    sequence, or after a second stage, they are model-based."
    ),
    "parameters": (
        "parameters : str, sequence of str or int, or None, default: None\n"
        '    Parameters, by name, pattern (``"*:*"``: all pairs) or number. A pair may be named in either order. None: all.'
    ),
    "level": "level : float, default: 0.95\n    Confidence level.",
    "ax": "ax : matplotlib.axes.Axes or None, default: None\n    Axes to draw into. None: a new figure.",
    "fit": (
        ">>> import fieldfit as ff\n"
        ">>> model = ff.BoltzmannMachine(3)\n"
        ">>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values\n"
        '>>> fit = ff.fit(model, x, "PL1")'
    ),
    "fit_of_pairs": (
        ">>> import numpy as np\n"
        ">>> import fieldfit as ff\n"
        ">>> x = np.repeat([[1, 1], [1, 0], [0, 0], [0, 1]], [40, 20, 30, 10], axis=0)\n"
        ">>> fit = ff.fit(ff.BoltzmannMachine(2, biases=True), x)"
    ),
}


def filled(blocks: Mapping[str, str]) -> Callable[[T], T]:
    """A decorator that puts ``blocks`` in the docstring of a function, or of a class and its methods."""

    def fill(target: T) -> T:
        members = vars(target).values() if isinstance(target, type) else ()
        for member in (target, *members):
            function = getattr(member, "__func__", member)
            text = getattr(function, "__doc__", None)
            if callable(function) and isinstance(text, str) and "%(" in text:
                function.__doc__ = _PLACE.sub(lambda match: indent(blocks[match[2]], match[1]), text)
        return target

    return fill
