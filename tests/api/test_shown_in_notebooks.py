"""Models, plans and theory show themselves: a readable repr, and tables in notebooks."""

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit import networks

MODELS = {
    "biases": ff.BoltzmannMachine(5, biases=True),
    "couplings": ff.BoltzmannMachine(4, [(0, 1), (2, 3)]),
    "shared": ff.BoltzmannMachine(3, edge_groups=["a", "a", "b"]),
    "potts": ff.Potts(3, 2),
    "crf": ff.ChainCRF(3, 1000),
    "chain": ff.BoltzmannChain(2, 7),
}
TEXTS = {
    "biases": "<BoltzmannMachine: 5 variables, 10 couplings, 5 biases>",
    "couplings": "<BoltzmannMachine: 4 variables, 2 couplings, 0 biases>",
    "shared": "<BoltzmannMachine: 3 variables, 3 couplings, 0 biases, 2 parameters>",
    "potts": "<Potts: 3 variables, 18 parameters>",
    "crf": "<ChainCRF: 3 labels, 1,000 features>",
    "chain": "<BoltzmannChain: 2 labels, 7 symbols>",
}


@pytest.mark.parametrize("name", list(MODELS))
def test_models(name):
    model = MODELS[name]
    assert repr(model) == TEXTS[name]
    for what, count in model.sizes().items():
        assert f'<th scope="row">{what}</th><td>{count:,}</td>' in model._repr_html_()


def test_plans_and_theory():
    model = ff.BoltzmannMachine(3)
    data = model.sample([1.0, -1.0, 0.5], 200, random_state=0).values
    plan = ff.plan(model, data, flops=1e6, policies=["PL1", "FL"])
    assert repr(plan) == f"<Plan: {plan.best} of {len(plan.candidates)} policies, boltzmann, 200 samples>"
    assert plan._repr_html_().count("<tr>") == 1 + len(plan.candidates)
    theory = ff.theory(model, [1.0, -1.0, 0.5], "PL1")
    assert f'<th scope="row">root</th><td>{theory.efficiency():.4f}</td>' in theory._repr_html_()
    drawn = ff.theory(model, [1.0, -1.0, 0.5], "PL1", method="simulation", n_simulated=500)
    assert drawn._repr_html_().count(" ± ") == 4


def test_results_are_one_line():
    random = np.random.default_rng(0)
    x = pd.DataFrame((random.random((200, 4)) < 0.5).astype(int), columns=list("abcd"))
    answers = networks.read_responses(x.assign(site=["n", "s"] * 100), by="site")
    assert repr(answers) == "<Responses: 200 rows, 4 variables, 2 groups>"
    analysis = networks.analyse(x)
    assert (
        repr(analysis) == f"<Analysis: <Responses: 200 rows, 4 variables>, {analysis.network!r}; summary() has more>"
    )
    selection = networks.stability_selection(x, pairs=5)
    assert repr(selection) == f"<StabilitySelection: 4 variables, {selection.edges()['stable'].sum()} stable edges>"
    model = ff.BoltzmannMachine(4)
    assert repr(model.read(x)) == "<Table: 200 samples, 4 variables>"
    gaps = x.astype(float)
    gaps.iloc[0, 1] = np.nan
    told = "<Table: 200 samples, 4 variables, with missing values, weighted>"
    assert repr(model.read(gaps, sample_weight=np.full(200, 2.0))) == told
    fit = ff.fit(model, x, "PL1 + PL2", weights="auto")
    assert repr(fit.weights) == f"<WeightsResult: {fit.weights.policy}, {fit.weights.message}>"
    assert repr(ff.fit(model, x, "PL1 >> optimal").refinement).startswith("<Refinement: optimal, ")
