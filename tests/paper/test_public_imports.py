"""The paper's package is a client of the public API: `import fieldfit` and the documented modules, nothing else."""

import ast
import importlib
from pathlib import Path

import pytest

import fieldfit as ff
import fieldfit_paper

#: Public modules beside the names of `fieldfit` itself.
PUBLIC = {"fieldfit.chains", "fieldfit.plots", "fieldfit.sweep", "fieldfit.types"}
FILES = sorted(Path(fieldfit_paper.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_imports_public_names_only(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name == "fieldfit" or not alias.name.startswith("fieldfit."), alias.name
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fieldfit":
            if node.module == "fieldfit":
                public = set(ff.__all__)
            else:
                assert node.module in PUBLIC, f"{path.name} imports from {node.module}"
                module = importlib.import_module(node.module)
                public = set(getattr(module, "__all__", vars(module)))
            assert {alias.name for alias in node.names} <= public, ast.unparse(node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ff":
            assert node.attr in ff.__all__, ast.unparse(node)
