"""The library's messages name Python's arguments and functions; here they become what the command line has for them.

An argument becomes an option if the running command has it (`sigma2=None` is "no --sigma2"), and the option of another
command otherwise (`max_iter` is "--max-iter of fieldfit fit"). A function becomes its command, or is marked as
Python's.
"""

from __future__ import annotations

import re
import shlex
from ast import literal_eval

from fieldfit.cli.invocation import options

#: Options whose names are not those of the arguments; of several, the first that the running command has.
_RENAMED = {
    "n_jobs": ("jobs", "threads"), "n_simulated": ("simulated", "draws"), "parameters": ("parameter",),
    "random_state": ("seed",),
}  # fmt: skip
#: Arguments that messages name, and the command that has the option where the running one has not.
_HOMES = {
    "biases": "fit", "budget": "plan", "burn_in": "sample", "by": "network", "columns": "fit", "couplings": "fit",
    "folds": "validate", "formula": "theory", "group_l1": "fit", "groups": "fit", "kind": "test",
    "l1": "fit", "leave_out": "fit", "max_iter": "fit", "method": "fit",
    "min_count": "fit", "n_jobs": "sweep", "n_simulated": "check", "order": "fit", "parameters": "show",
    "penalty": "contacts", "random_state": "fit", "sample_weight": "fit", "score": "validate", "shards": "fit",
    "sigma2": "fit", "states": "fit", "tol": "fit", "weight_kind": "fit",
    "weights": "fit", "wide_rows": "fit",
}  # fmt: skip
#: Functions that messages name, and the words for them.
_FUNCTIONS = {
    r"fit\.bootstrap_test\(parameters\) simulates": "fieldfit test MODEL.ff NAME --bootstrap --data DATA simulates",
    r"fit\.bootstrap_test and fit\.permutation_test\b": "--bootstrap and --permute COLUMN, with --data,",
    r"fit\.goodness_of_fit\(\)": "fieldfit check",
    r"fit\.influential\(\d+\)": "fieldfit influence",
    r"fit\.table\(parameters=\[…\]\)": "fit.table(…)",  # fieldfit show reads no samples
    r"fit\.wald_test\(…\)": "fieldfit test",
    r"(?<![\w.])cross_validate\b": "fieldfit validate",
    r"(?<![\w.])joint_network\b": "fieldfit.networks.joint_network in Python",
    r"(?<=of )model\.parameter_names\b": "the model's parameters",
}

_ANY = "|".join(_HOMES)
#: Names that are not words, so that they are arguments wherever they stand.
_UNMISTAKABLE = "|".join(name for name in _HOMES if "_" in name or name == "sigma2")

#: What a message may say, and how the command line says it. The first ones go first.
_RULES = (
    (re.compile(r"Give them again: load\(path, data\)"),
     lambda match: "Name their file in the command (--data)" if _has("--data") else "Give them again: ff.load(path, data)"),
    (re.compile(r"(?<![\w.])load\(path, data\)"),
     lambda match: "name their file in the command (--data)" if _has("--data") else "ff.load(path, data)"),
    (re.compile(r"(?<![\w.-])kind='model'"),
     lambda match: "--kind model, with --data" if _has("--kind")
     else "fieldfit test MODEL.ff NAME --kind model --data DATA"),
    *((re.compile(pattern), lambda match, words=words: words) for pattern, words in _FUNCTIONS.items()),
    (re.compile(r", a Penalty, or\b"), lambda match: ", or"),
    (re.compile(r", or None for no penalty"), lambda match: "; leave it out for no penalty"),
    (re.compile(r"plan\.table has all \(on the command line: (.+?)\)"), lambda match: f"all are shown with {match[1]}"),
    (re.compile(r"\(start=…\)"), lambda match: "(--start)" if _has("--start") else "(fieldfit fit --start)"),
    (re.compile(r"\bresume=True \(--resume\)"), lambda match: "--resume"),
    (re.compile(r"--extend \(extend=True\)"), lambda match: "--extend"),
    (re.compile(r"networks\.read_responses\(data, leave_out=\[.+?\]\), or (--leave-out .+?) on the command line"),
     lambda match: match[1]),
    (re.compile(r"networks\.compare_groups\(data, by=.+?\) \((--by .+?)\)"), lambda match: match[1]),
    (re.compile(r"eave (\[.+?\]) out of the data"),
     lambda match: f"eave them out with --leave-out {shlex.quote(','.join(literal_eval(match[1])))}"
     if _has("--leave-out") else match[0]),
    (re.compile(r"in columns \(--columns\)"), lambda match: "in --columns"),
    (re.compile(r"(eave (?:it|the column|such columns) out) of the data"),
     lambda match: f"{match[1]} with --leave-out" if _has("--leave-out") else match[0]),
    (re.compile(r"Choose the columns first, as in data\[\[…\]\]"),
     lambda match: "Choose the columns with --columns or --leave-out"),
    (re.compile(r"\bunseen_transitions='zero'"), lambda match: "no --forbid-unseen"),
    (re.compile(r"\bunseen_transitions='forbidden'"), lambda match: "--forbid-unseen"),
    (re.compile(r"\bheader=True\b"), lambda match: "--header"),
    (re.compile(r"\bheader=False\b"), lambda match: "--no-header"),
    (re.compile(rf"(?<![\w.-])({_ANY})=None"), lambda match: f"no {_option(match[1])}"),
    (re.compile(rf"(?<![\w.-])({_ANY})=\[…\]"), lambda match: _option(match[1], " NAME")),
    (re.compile(rf"(?<![\w.-])({_ANY})=…"), lambda match: _option(match[1])),
    (re.compile(rf"(?<![\w.-])({_ANY})=(?:'([^']+)'|\"([^\"]+)\"|(\w[\w.]*\w|\w))"), lambda match: _given(match)),
    (re.compile(rf"\(({_ANY})\)"), lambda match: f"({_option(match[1])})"),
    (re.compile(rf"(?<![\w.-])({_UNMISTAKABLE})\b(?!=)"), lambda match: _option(match[1])),
    (re.compile(r"(?<=or )(l1)(?=\))"), lambda match: _option(match[1])),
    (re.compile(r"^(l1|budget)\b"), lambda match: _option(match[1])),
    (re.compile(r"(?<![\w./])(?:(?:fit|ff|plan)(?:\.[a-z_]+\([^()]*\))+|fit\.(?:effects|functional)\b)"),
     lambda match: f"{match[0]} in Python"),
)  # fmt: skip


def _has(option: str) -> bool:
    """Whether the running command has this option; if no command is running, yes."""
    known = options()
    return known is None or option in known


def _option(argument: str, value: str = "") -> str:
    names = ["--" + name.replace("_", "-") for name in _RENAMED.get(argument, (argument,))]
    for name in names:
        if _has(name):
            return f"{name}{value}"
    return f"{names[0]}{value} of fieldfit {_HOMES[argument]}"


def _given(match: re.Match[str]) -> str:
    return _option(match[1], f" {shlex.quote(match[2] or match[3] or match[4])}")


def in_options(message: str) -> str:
    """The message with options instead of arguments."""
    for pattern, words in _RULES:
        message = pattern.sub(words, message)
    return message
