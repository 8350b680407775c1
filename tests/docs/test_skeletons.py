"""The skeletons of docs/skeletons keep the contracts of what they are skeletons of."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.cli import main
from fieldfit.models.base import Model
from fieldfit.policies import Policy
from fieldfit.refinement.second_stage import second_stages

TESTS = Path(__file__).parents[1]
SKELETONS = TESTS.parent / "docs" / "skeletons"


def loaded(path):
    """The module in a file, which is found by nothing else."""
    name = f"skeleton_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ring():
    yield loaded(SKELETONS / "models" / "ring.py").Ring
    del Model.registry["ring"]


@pytest.mark.slow
def test_the_model(ring, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(TESTS / "models")
    contract = importlib.import_module("contract")
    example = contract.FieldExample(4, lambda order: ring([order[v] for v in range(4)]))
    for policy in example.policies:
        for missing in example.missing:
            contract.check_values_and_derivatives(example, policy, missing)
    contract.check_shards(example)
    contract.check_threads(example)
    contract.check_conditionals(example)
    contract.check_files(example, tmp_path / "ring.ff")
    contract.check_relabelling(example)


def test_the_model_is_the_one_of_its_formula(ring):
    model, theta = ring([0, 2, 1, 3]), np.array([0.7, -0.4])
    pairs = model.sample(theta, 1, 0).values[0]
    energy = theta[0] * sum(pairs[a] * pairs[b] for a, b in [(0, 2), (2, 1), (1, 3), (3, 0)]) + theta[1] * pairs.sum()
    full = model.conditional(theta, pairs[None], range(4))[0]
    assert full == pytest.approx(energy - model.log_partition(theta), abs=1e-12)


@pytest.fixture
def exactly(monkeypatch):
    """Makes the law known, as a file in fieldfit/policies/laws would."""
    laws = importlib.import_module("fieldfit.policies.laws")
    monkeypatch.setattr(laws, "__path__", [*laws.__path__, str(SKELETONS / "laws")])
    importlib.invalidate_caches()
    yield importlib.import_module("fieldfit.policies.laws.exactly").Exactly
    sys.modules.pop("fieldfit.policies.laws.exactly", None)


def test_the_law(exactly):
    checks, fixtures = (loaded(TESTS / "policies" / f"{name}.py") for name in ("test_policy_laws", "conftest"))
    field = fixtures.complete_field(5)
    for text in exactly.examples:
        checks.test_draws_have_the_stated_moments(text, field, fixtures.dense)
        checks.test_factors_and_quadratic_form(text, field)
        checks.test_shards_threads_and_seeds(text, field, fixtures.dense)
        checks.test_sparse_components_increase_within_a_sample(text, field)
        assert str(Policy.parse(str(Policy.parse(text)))) == str(Policy.parse(text))
    selected = fixtures.dense(Policy.parse("Exactly(2*PL1)").bind(field).draw(0, 0, 500))
    assert (selected.sum(axis=1) == 2).all()


def test_a_fit_with_the_law(exactly):
    model = ff.BoltzmannMachine(4, biases=True)
    x = model.sample(np.zeros(10), 300, 0).values
    fit = ff.fit(model, x, "Exactly(2*PL1)", sigma2=3.0)
    assert fit.converged
    assert np.isfinite(fit.standard_errors()).all()


@pytest.fixture
def onestep(monkeypatch):
    """Makes the second stage known, as a file in fieldfit/refinement/stages would."""
    stages = importlib.import_module("fieldfit.refinement.stages")
    monkeypatch.setattr(stages, "__path__", [*stages.__path__, str(SKELETONS / "stages")])
    importlib.invalidate_caches()
    second_stages.cache_clear()
    yield importlib.import_module("fieldfit.refinement.stages.onestep").OneStep
    sys.modules.pop("fieldfit.refinement.stages.onestep", None)
    second_stages.cache_clear()


@pytest.mark.slow
def test_the_second_stage(onestep, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(TESTS / "refinement")
    contract = importlib.import_module("stage_contract")
    for text in onestep.examples:
        contract.check_everything(text, tmp_path / "fit.ff")
    # One step from PL1 is nearly maximum likelihood.
    fits = [ff.fit(contract.MODEL, contract.SAMPLES, text).theta for text in ("PL1", "PL1 >> onestep", "FL")]
    assert np.abs(fits[1] - fits[2]).max() < 0.1 * np.abs(fits[0] - fits[2]).max()


def test_the_command(monkeypatch, tmp_path, capsys):
    commands = importlib.import_module("fieldfit.cli.commands")
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(SKELETONS / "commands")])
    importlib.invalidate_caches()
    model = ff.BoltzmannMachine(2, biases=True, names=["a", "b"])
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]])
    ff.fit(model, x, "FL").save(tmp_path / "fit.ff")
    try:
        assert main(["marginals", "--help"]) == 0
        assert "Show the probability of each state of a field." in capsys.readouterr().out
        assert main(["marginals", str(tmp_path / "fit.ff"), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [(line["variable"], line["state"]) for line in shown] == [
            ("a", "0"),
            ("a", "1"),
            ("b", "0"),
            ("b", "1"),
        ]
        # A saturated model has the marginals of the data.
        np.testing.assert_allclose([line["probability"] for line in shown], 0.5, atol=1e-5)
        assert main(["marginals", str(tmp_path / "fit.ff")]) == 0
        assert "probability" in capsys.readouterr().out
        assert main(["marginals", str(tmp_path / "none.ff")]) == 2
        assert capsys.readouterr().err.startswith("fieldfit: ")
    finally:
        sys.modules.pop("fieldfit.cli.commands.marginals", None)
