"""Samples that miss too many values are known before anything is compiled, and are exactly those that cannot be."""

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.inference import programs
from fieldfit.models.field_compiler import FieldCompiler, collect, wide_rows
from fieldfit.policies import Policy
from fieldfit.types import WidthError


@pytest.fixture
def work(monkeypatch):
    """Counts orders that are found and templates that are compiled."""
    counts = {"orders": 0, "templates": 0}
    for name, counted in (("order_template", "orders"), ("compile_template", "templates")):
        function = getattr(programs, name)

        def count(*arguments, function=function, counted=counted, **options):
            counts[counted] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(programs, name, count)
    return counts


def table(n, m, missing, seed=0):
    """Random states; row i misses ``missing[i]`` values."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, (n, m)).astype(float)
    for row, count in missing.items():
        x[row, random.permutation(m)[:count]] = np.nan
    return x


def test_a_refusal_compiles_nothing(work):
    """As many patterns as samples, few of them too wide: one order for each of the few suspects."""
    m = 60
    x = table(200, m, {row: 1 + row % 9 for row in range(200)} | {3: 30, 50: 28, 77: 35})
    with pytest.raises(WidthError, match=r"3 of 200 samples .* rows 3, 50, 77"):
        ff.fit(ff.BoltzmannMachine(m, biases=True), x, "PL1", sigma2=1.0)
    assert work == {"orders": 3, "templates": 0}


def test_several_families_are_checked_before_the_first_is_compiled(work):
    m = 30
    x = table(50, m, {row: 1 + row % 5 for row in range(50)} | {4: 27})
    with pytest.raises(WidthError, match="row 4"):
        ff.fit(ff.BoltzmannMachine(m, biases=True), x, "PL1 + 0.2*PL2", sigma2=1.0)
    assert work["templates"] == 0


def compiles(model, data, policy, row):
    """Whether one sample alone can be compiled."""
    alone = data.subset([row])
    selection = Policy.parse(policy).bind(model.structure()).draw(0, row, row + 1)
    compiler = FieldCompiler(model.field_arrays, alone.codes)
    try:
        for part in selection.parts:
            collect(compiler, part, 1)
    except WidthError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "policy"),
    [
        pytest.param(graph, policy, marks=pytest.mark.slow if graph != "complete" and policy != "PL1" else ())
        for graph in ("complete", "grid", "potts")
        for policy in ("PL1", "PL2@0.5 + PL1", "0.3*PL3", "Partition(2)", "FL")
        if (graph, policy) != ("complete", "FL")  # too wide for every sample
    ],
)
def test_the_rows_are_those_that_cannot_be_compiled(graph, policy):
    options: dict[str, Any] = {"largest_table": 1 << 5}
    model = {
        "complete": ff.BoltzmannMachine(12, **options),
        "grid": ff.BoltzmannMachine.grid(3, 4, biases=True, **options),
        "potts": ff.Potts.grid(3, 4, 2, **options),
    }[graph]
    x = table(24, 12, {row: row % 12 for row in range(24)})
    data = model.read(x)
    selection = Policy.parse(policy).bind(model.structure()).draw(0, 0, 24)
    compiler = FieldCompiler(model.field_arrays, data.codes)
    wide = np.any([wide_rows(compiler, part, 24) for part in selection.parts], axis=0)
    assert wide.tolist() == [not compiles(model, data, policy, row) for row in range(24)]
    assert compiler.compiler.memory == 0


def test_without_missing_values_nothing_is_looked_for(work):
    model = ff.Potts(6, 2)
    data = model.read(table(20, 6, {}))
    selection = Policy.parse("PL1").bind(model.structure()).draw(0, 0, 20)
    assert not wide_rows(FieldCompiler(model.field_arrays, data.codes), selection.parts[0], 20).any()
    assert work == {"orders": 0, "templates": 0}
