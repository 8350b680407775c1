"""The package as a module: its submodules are modules, its public names are lazy, and functions that use it travel."""

import importlib
import importlib.metadata
import pathlib
import pickle
import pkgutil
import types

import cloudpickle
import pytest

import fieldfit as ff


def test_no_public_name_hides_a_submodule():
    submodules = {module.name for module in pkgutil.iter_modules(ff.__path__)}
    assert not submodules & set(ff.__all__)


@pytest.mark.parametrize("name", ["asymptotics", "weights", "planner", "models", "policies"])
def test_importing_a_submodule_binds_a_module(name):
    module = importlib.import_module(f"fieldfit.{name}")
    assert isinstance(module, types.ModuleType)
    assert getattr(ff, name) is module
    assert callable(ff.theory)
    assert type(ff) is types.ModuleType


def count(m):
    return ff.BoltzmannMachine(m).n_parameters


def test_a_function_that_uses_the_package_can_be_pickled_by_value():
    assert pickle.loads(cloudpickle.dumps(ff)) is ff
    travelling = types.FunctionType(count.__code__, {"ff": ff}, "travelling")
    travelling.__module__ = "__main__"
    assert pickle.loads(cloudpickle.dumps(travelling))(4) == 6


def test_the_version_stands_once():
    assert importlib.metadata.version("fieldfit") == ff.__version__
    root = pathlib.Path(__file__).parent.parent
    assert f"version: {ff.__version__}\n" in (root / "CITATION.cff").read_text()
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    newest = next(line for line in changes if line.startswith("## "))
    assert newest.split()[1] == ff.__version__
