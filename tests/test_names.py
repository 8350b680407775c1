"""Names: one meaning for each public one, and none that says nothing of what it holds."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import fieldfit
import fieldfit_paper

#: Functions of the command line have the names of the commands, which are those of what they call.
COMMANDS = "cli"
#: Modules that can be run begin at a function of this name.
ENTRY = {"main", "run"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_two_modules_define_the_same_public_name() -> None:
    root = Path(fieldfit.__file__).parent
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        module = path.relative_to(root)
        for node in parsed(path).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            command = module.parts[0] == COMMANDS or node.name in ENTRY
            if not (command and isinstance(node, ast.FunctionDef)):
                homes[node.name].append(str(module))
    assert len(homes) > 500
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


#: Names that say nothing of what a variable holds.
VAGUE = {"own", "one", "found"}


def test_no_variable_or_argument_has_a_vague_name() -> None:
    vague = []
    for package in (Path(fieldfit.__file__).parent, Path(fieldfit_paper.__file__).parent):
        for path in sorted(package.rglob("*.py")):
            for node in ast.walk(parsed(path)):
                match node:
                    case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE:
                        vague.append(f"{path.relative_to(package.parent)}:{node.lineno}: {name}")
    assert vague == []
