"""Every public object has a numpydoc docstring: parameters as in the signature, what it returns, examples that run."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import fieldfit as ff
from fieldfit import chains, networks, plots, proteins, sweep, types
from fieldfit.api.bootstrap import Bootstrap
from fieldfit.api.comparison import HypothesisTest
from fieldfit.api.functionals import Estimate
from fieldfit.api.projection import Projection
from fieldfit.api.resampled_tests import ResampledTest
from fieldfit.api.sensitivity import Sensitivity
from fieldfit.asymptotics import Asymptotics
from fieldfit.compat import sklearn_crfsuite
from fieldfit.models.base import QUESTIONS, Draws, Model
from fieldfit.models.couplings import Couplings
from fieldfit.planner.candidates import Candidate
from fieldfit.planner.result import Plan
from fieldfit.properties import cached_property
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.weights.result import WeightsResult

MODULES = (ff, chains, networks, plots, proteins, sklearn_crfsuite, sweep)
#: Classes that users do not import but receive.
RETURNED = (
    Asymptotics, Bootstrap, Candidate, Couplings, Draws, Estimate, HypothesisTest, Plan, Projection, ResampledTest,
    Sensitivity, SpecificationTest, WeightsResult,
)  # fmt: skip
#: Functions that set something, or write a picture or a page: their examples print nothing.
WITHOUT_OUTPUT = (
    "set_threads", "show_progress", "use_threads", "plot_coefficients", "plot_influence", "plot_network", "plot_contacts",
    "plot", "plot_lam", "to_html", "Page",
)  # fmt: skip
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-+\n", re.MULTILINE)


def public(kind):
    """The public objects of one kind, each once."""
    return list(
        {getattr(module, name): None for module in MODULES for name in module.__all__ if kind(getattr(module, name))}
    )


FUNCTIONS = public(inspect.isfunction)
PUBLIC_CLASSES = [*public(inspect.isclass), *RETURNED]


def own_members(cls):
    """The public methods and properties of a class that fieldfit defines."""
    for name in dir(cls):
        if name.startswith("_") or (issubclass(cls, Model) and name in QUESTIONS):
            continue
        if name in getattr(cls, "__dataclass_fields__", {}):  # its default
            continue
        member = inspect.getattr_static(cls, name)
        function = (
            getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
        )
        if inspect.isfunction(function) and function.__module__.startswith("fieldfit"):
            yield name, member, function


def documented(cls, name):
    """The definition of a method with an example: its own, or that of the method which it overrides."""
    for base in cls.__mro__:
        member = base.__dict__.get(name)
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and "Examples" in sections(function.__doc__):
            return function
    return None


def sections(text):
    """The sections of a docstring by their titles."""
    parts = SECTION.split(inspect.cleandoc(text or ""))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(section):
    """The names that a Parameters section describes."""
    heads = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", section, re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def expected(function):
    """The names of the parameters of a function or class; a method has its object as the first."""
    names = list(inspect.signature(function).parameters)
    return {*names[1:]} if function in METHODS else {*names} - {"cls"}


def callables():
    """Every public function, class and method once, with the name under which users know it."""
    found = {}
    for function in FUNCTIONS:
        found[function] = f"{function.__module__}.{function.__name__}"
    for cls in PUBLIC_CLASSES:
        found[cls] = f"{cls.__module__}.{cls.__name__}"
        for name, member, function in own_members(cls):
            if not isinstance(member, (property, cached_property)):
                found.setdefault(documented(cls, name) or function, f"{found[cls]}.{name}")
                if inspect.isfunction(member):
                    METHODS.add(documented(cls, name) or function)
    return found


METHODS: set[object] = set()
CALLABLES = callables()


#: Examples that resample, plan or draw.
LONG = {
    f"fieldfit.api.result.Fit.{name}"
    for name in ("bootstrap", "bootstrap_test", "permutation_test", "plot_influence")
}
LONG |= {f"fieldfit.planner.result.Plan.{name}" for name in ("plot", "to_html")}
LONG |= {"fieldfit.networks.joint.joint_network"}


def test_long_examples_are_there():
    assert set(CALLABLES.values()) >= LONG


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(target, id=name, marks=[pytest.mark.slow] if name in LONG else [])
        for target, name in CALLABLES.items()
    ],
)
def test_has_an_example_that_runs(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.cleandoc(target.__doc__ or "")
    assert "Examples" in sections(text), f"{CALLABLES[target]} has no Examples section"
    example = doctest.DocTestParser().get_doctest(text, {}, CALLABLES[target], None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example, out=report.append)
    assert runner.tries == len(example.examples) > 0, "an example is skipped"
    shown = "".join(line.source for line in example.examples)
    name = CALLABLES[target].split(".")[-1]
    named = re.search(rf"\b({name}|{target.__name__})\b", shown)
    assert inspect.isclass(target) or named, "the example shows another function"
    assert any(line.want for line in example.examples) or name in WITHOUT_OUTPUT
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("target", CALLABLES, ids=list(CALLABLES.values()))
def test_describes_its_parameters(target):
    parts = sections(target.__doc__)
    if inspect.isclass(target) and "Parameters" not in parts and not getattr(target, "_is_protocol", False):
        missing = {name for name in listed(parts["Attributes"]) if name not in dir(target)}
        assert missing <= set(inspect.signature(target).parameters), f"{CALLABLES[target]} has no {missing}"
        return
    if not getattr(target, "_is_protocol", False):
        assert listed(parts.get("Parameters", "")) == expected(target), CALLABLES[target]


@pytest.mark.parametrize("target", [target for target in CALLABLES if not inspect.isclass(target)], ids=CALLABLES.get)
def test_describes_what_it_returns(target):
    nothing = inspect.signature(target).return_annotation in (
        "None",
        "Iterator[None]",
    )  # or a context without a value
    assert nothing or {"Returns", "Yields"} & sections(target.__doc__).keys(), CALLABLES[target]


def test_the_reference_lists_everything_public():
    names, home = set(), ""
    for line in (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            home = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            names.add(f"{home}.{line.strip()}")
    public_names = {
        f"{module.__name__}.{name}"
        for module in MODULES
        for name in module.__all__
        if callable(getattr(module, name))
    }
    public_names |= {
        f"fieldfit.types.{name}"
        for name, member in vars(types).items()
        if inspect.isclass(member) and issubclass(member, Exception)
    }
    assert public_names - names == set()
    assert {name for name in names if name.count(".") == 1} <= public_names


def test_properties_have_docstrings():
    for cls in PUBLIC_CLASSES:
        for name, _, function in own_members(cls):
            assert (function.__doc__ or "").strip(), f"{cls.__name__}.{name}"


def test_shared_blocks_are_filled_in():
    for target, name in CALLABLES.items():
        assert "%(" not in (target.__doc__ or ""), name
    assert "Confidence level." in ff.Fit.conf_int.__doc__
    assert "Known labels" in inspect.getdoc(ff.BoltzmannChain.marginals)
