"""The library's messages name Python arguments; here they become the options of the command line."""

from __future__ import annotations

import re

#: Options whose names are not those of the arguments.
_RENAMED = {"random_state": "seed", "n_simulated": "simulated"}
_ARGUMENTS = (
    "burn_in", "couplings", "folds", "group_l1", "groups", "kind", "l1", "max_iter", "method", "n_simulated",
    "random_state", "sample_weight", "score", "sigma2", "weight_kind", "wide_rows",
)  # fmt: skip
_ANY = "|".join(_ARGUMENTS)

#: What a message may say, and how the command line says it. The first ones go first.
_RULES = (
    (re.compile(r"Give them again: load\(path, data\)"), lambda match: "Name their file in the command (--data)"),
    (re.compile(r"load\(path, data\)"), lambda match: "name their file in the command (--data)"),
    (re.compile(r"fit\.bootstrap_test and fit\.permutation_test\b"),
     lambda match: "--bootstrap and --permute COLUMN, with --data,"),
    (re.compile(r", or None for no penalty"), lambda match: "; leave it out for no penalty"),
    (re.compile(r"with columns=\[…\]"), lambda match: "with --columns"),
    (re.compile(r"\bheader=True\b"), lambda match: "--header"),
    (re.compile(r"\bheader=False\b"), lambda match: "--no-header"),
    (re.compile(r"(?<!\w)parameters=\[…\]"), lambda match: "--parameter NAME"),
    (re.compile(rf"(?<![\w.-])({_ANY})=None"), lambda match: f"no {_option(match[1])}"),
    (re.compile(rf"(?<![\w.-])({_ANY})=(?:'(\w+)'|\"(\w+)\"|([\w.]+))"), lambda match: _given(match)),
    (re.compile(rf"\(({_ANY})\)"), lambda match: f"({_option(match[1])})"),
    (re.compile(r"(?<![\w.-])(group_l1|max_iter|n_simulated|random_state|sample_weight|sigma2|weight_kind|wide_rows)"
                r"\b(?!=)"), lambda match: _option(match[1])),
    (re.compile(r"(?<=or )(l1)(?=\))"), lambda match: _option(match[1])),
    (re.compile(r"^(l1)\b"), lambda match: _option(match[1])),
)  # fmt: skip


def _option(argument: str) -> str:
    return "--" + _RENAMED.get(argument, argument).replace("_", "-")


def _given(match: re.Match[str]) -> str:
    return f"{_option(match[1])} {match[2] or match[3] or match[4]}"


def in_options(message: str) -> str:
    """The message with options instead of arguments."""
    for pattern, words in _RULES:
        message = pattern.sub(words, message)
    return message
