"""Containers and numbers of other libraries where they make no sense, and arguments that are checked by their kind."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type, var-annotated, attr-defined, misc, call-overload, list-item, dict-item"

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

import fieldfit as ff
from fieldfit import chains, networks, proteins, sweep
from fieldfit.data.uai import read_uai
from fieldfit.types import FieldfitError

NAN, UNEQUAL = float("nan"), [[1, 2], [3]]
SPARSE, EMPTY, DURATIONS = csr_array(np.eye(3)), np.zeros(0), np.array([1, 2], dtype="timedelta64[s]")
RECORD, FRAME = np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), pl.DataFrame({"a": [0, 1], "b": [1, 0]})
LONG = "x" * 100_000
MODEL = ff.BoltzmannMachine(3, biases=True, names=["a", "b", "c"])
X = np.random.default_rng(0).integers(0, 2, (60, 3))
FIT = ff.fit(MODEL, X, "PL1", sigma2=5.0)
CRF = ff.ChainCRF(2, 3)
SEQUENCES = chains.Sequences([0, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 2], None, [0, 1, 1, 0, 1], 3, 2)
WORDS, TAGS = [["the", "dog", "runs"], ["a", "cat"]] * 2, [["D", "N", "V"], ["D", "N"]] * 2
TAGGER = ff.CRFTagger("FL", sigma2=1.0).fit(WORDS, TAGS)
ANSWERS = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=["x", "y"] * 30)
NETWORK = networks.Network(("a", "b"), np.zeros((2, 2)), np.zeros(2), 10.0, "by hand")


def pairwise(**options):
    """A tied field of two nodes and one edge."""
    given = {"m": 2, "covariates": [[1.0], [2.0]], "edge_covariates": [[1.0]], "edges": [(0, 1)], **options}
    return ff.TiedField.pairwise(given.pop("edges"), given.pop("covariates"), **given)


GRIDS = [ff.BoltzmannMachine.grid, lambda rows, columns, **k: ff.Potts.grid(rows, columns, 2, **k), ff.TiedField.grid]

REFUSED = [
    # Tied fields and graphs
    *((f"{n} is nan", lambda n=n: pairwise(**{n: NAN}))
      for n in ("covariate_names", "edge_covariate_names", "edge_groups")),
    ("Edge 1 is", lambda: pairwise(edges=UNEQUAL)),
    *(("edge_groups has", lambda v=v: pairwise(edge_groups=v)) for v in (UNEQUAL, RECORD, [None])),
    *(("nodes m is", lambda v=v: pairwise(m=v)) for v in (EMPTY, RECORD, LONG)),
    *(("coupling is", lambda v=v: pairwise(coupling=v)) for v in (EMPTY, RECORD, FRAME, LONG)),
    *(("needs a networkx graph", lambda v=v: ff.BoltzmannMachine.from_networkx(v)) for v in (NAN, ff, None)),
    *(("rows of a grid is", lambda g=g: g(np.True_, 2)) for g in GRIDS),
    *(("tied is", lambda g=g, v=v: g(2, 2, tied=v)) for g in GRIDS[:2] for v in (EMPTY, pd.NA, 1)),
    *((f"{n} is", lambda n=n, v=v: ff.TiedField.grid(2, 2, **{n: v}))
      for n in ("directions", "triples") for v in (EMPTY, pd.NA)),
    ("labels of groups", lambda: ff.BoltzmannMachine(2, edge_groups=RECORD)),
    ("Edge 0 is", lambda: ff.BoltzmannMachine(3, edges=SPARSE)),
    # Lists of unequal lengths
    *((f"{n} has lists of unequal", lambda n=n: ff.fit(CRF, SEQUENCES, "FL", **{n: UNEQUAL}))
      for n in ("sample_weight", "groups")),
    ("rows has lists of unequal", lambda: FIT.influence(rows=UNEQUAL)),
    # Files
    *(("path .* is text or a Path", lambda f=f: f(NAN)) for f in (read_uai, ff.MarkovRandomField.from_uai)),
    *(("no file has this name", lambda f=f: f(LONG)) for f in (read_uai, ff.load, chains.read_columns)),
    *(
        ("no encoding named", lambda f=f, v=v: f("never read", encoding=v))
        for f in (chains.read_columns, chains.read_crfsuite, chains.read_templates)
        for v in (NAN, "\0", "\ud800", "hex", LONG)
    ),
    *(("most_gaps is", lambda v=v: proteins.read_alignment("never read", most_gaps=v)) for v in (None, "", NAN, [])),
    *(("focus is", lambda v=v: proteins.read_alignment("never read", focus=v)) for v in (EMPTY, RECORD, FRAME)),
    ("leave_out is", lambda: proteins.frobenius_norms(np.zeros((1, 2, 2)), leave_out=[])),
    # Sequences and taggers
    *((f"{n} is", lambda n=n, v=v: chains.Sequences([0], [0], [], None, [], **{"n_features": 1, "n_labels": 1, n: v}))
      for n in ("n_features", "n_labels") for v in (None, EMPTY, RECORD, NAN, -1)),
    ("The start of a CRFTagger", lambda: ff.CRFTagger(sigma2=1.0).fit(WORDS, TAGS, start=NAN)),
    *(("X", lambda f=f: f(SPARSE)) for f in (TAGGER.predict, TAGGER.predict_marginals)),
    ("y", lambda: TAGGER.log_likelihood(WORDS, SPARSE)),
    ("given is", lambda: TAGGER.predict(WORDS, given=SPARSE)),
    ("labels", lambda: ff.ChainCRF(2, 3, labels=SPARSE)),
    ("gold is", lambda: chains.label_scores(SPARSE, TAGS)),
    # Policies and sweeps
    *(("groups of the policy are", lambda v=v: ff.Policy(v)) for v in (NAN, "x", EMPTY, pd.NA)),
    *((f"The {n} of a sweep are", lambda n=n, v=v: sweep.Sweep(**{"experiment": "fit-table", "axes": {"a": [1]}, n: v}))
      for n in ("axes", "constants") for v in (NAN, "x", RECORD)),
    ("warm_start_axis is", lambda: sweep.Sweep("fit-table", {"a": [1]}, warm_start_axis=[])),
    *(("plain values", lambda v=v: sweep.seed_of(v, {"a": 1})) for v in (NAN, "\ud800", np.array(3))),
    ("coordinates are", lambda: sweep.seed_of(1, NAN)),
    # Networks
    *(("seed is", lambda v=v: FIT.plot_network(seed=v)) for v in (NAN, -1, 2**32, np.random.default_rng(0))),
    ("leave_out is", lambda: networks.read_responses(X, leave_out=None)),
    ("no column", lambda: networks.read_responses(X, columns=DURATIONS)),
    ("groups is", lambda: networks.compare_groups(ANSWERS, by="group", groups=NAN)),
    ("There are 2 variables and 3 clusters", lambda: networks.draw(NETWORK, clusters=np.zeros((3, 0)))),
    ("no answers for the network", lambda: networks.draw(NETWORK, data={})),
    ("refine takes a fit", lambda: ff.refine(ff, "optimal")),
    ("X must be a list of sentences", lambda: ff.CRFTagger(sigma2=1.0).fit(SPARSE, TAGS)),
    ("clusters is", lambda: networks.draw(NETWORK, clusters=NAN)),
    *(("resamples is", lambda v=v: networks.analyse(X, resamples=v)) for v in (EMPTY, pd.NA)),
    ("resamples is", lambda: networks.case_dropping(X, resamples=10**9)),
    # Names and numbers
    *(("name", lambda f=f: f(DURATIONS)) for f in (lambda v: FIT.conf_int(parameters=v), FIT.wald_test)),
    ("variable is a name", lambda: MODEL.conditional(np.zeros(6), X, DURATIONS, [1])),
    ("timedelta64", lambda: ff.TiedField.grid(2, 2, states=DURATIONS)),
    *(("given", lambda v=v: MODEL.sample(np.zeros(6), 2, given=v)) for v in (np.zeros((3, 0)), FRAME, [RECORD[0]] * 3)),
    *(("Standard errors are of the kind", lambda v=v: FIT.wald_test("a:b", kind=v)) for v in (EMPTY, RECORD, FRAME)),
    *(("name is", lambda v=v: FIT.functional("a", name=v)) for v in (EMPTY, pd.NA)),
    # Long values are cut
    *((n, lambda n=n: ff.fit(MODEL, X, **{n: LONG})) for n in
      ("policy", "fixed", "progress", "shards", "checkpoint", "max_iter", "method")),
    *((n, lambda n=n: FIT.table(**{n: LONG})) for n in ("level", "kind")),
    *(("no column", lambda n=n: ff.fit(MODEL, X, **{n: LONG})) for n in ("sample_weight", "groups")),
    ("no parameter", lambda: FIT.table(parameters=LONG)),
    ("names", lambda: ff.BoltzmannMachine(3, names=LONG)),
    ("names", lambda: ff.BoltzmannMachine(3, names=np.full((300, 3), 0.5))),
    ("progress", lambda: ff.fit(MODEL, X, progress=np.zeros((60, 3)))),
    ("column", lambda: networks.read_responses(ANSWERS, by=LONG)),
    ("column", lambda: networks.read_responses(ANSWERS, columns=[LONG])),
    ("experiment", lambda: sweep.Sweep(LONG, {"a": [1]})),
    ("paired", lambda: sweep.Sweep("fit-table", {"a": [1]}, paired=LONG)),
    ("template", lambda: chains.parse_templates(LONG)),
    ("alphabet", lambda: proteins.read_alignment("never read", alphabet=LONG)),
    ("budget", lambda: ff.plan(MODEL, X, LONG)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "use"), REFUSED)
def test_refused_with_a_short_sentence(message, use):
    with pytest.raises(FieldfitError, match=message) as caught:
        use()
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: MODEL.sample(np.zeros(6), n),
        lambda n: MODEL.sample(np.zeros(6), n, method="gibbs"),
        lambda n: FIT.sample(n),
        lambda n: ff.PairwiseField().fit(X).sample(n),
        lambda n: networks.compare_moments(ANSWERS[["a", "b", "c"]], FIT, draws=n),
    ],
)
def test_draws_that_do_not_fit_into_memory(draw, monkeypatch):
    monkeypatch.setattr("fieldfit.data.memory.memory_limit", lambda: 10**8)
    with pytest.raises(FieldfitError, match="takes at least 1,200,000,000 bytes"):
        draw(10**8)


def test_the_results_of_resamples_that_do_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr("fieldfit.data.memory.memory_limit", lambda: 10**8)
    with pytest.raises(FieldfitError, match="The result of 10,000,000 resamples takes at least"):
        networks.case_dropping(X, resamples=10**7)


def test_numbers_and_names_of_any_type_are_taken(tmp_path: Path):
    beta = ff.best_weights(MODEL, FIT.theta, "PL1 + PL2", gamma=np.longdouble("1.5")).beta
    np.testing.assert_array_equal(beta, ff.best_weights(MODEL, FIT.theta, "PL1 + PL2", gamma=1.5).beta)
    assert ff.BoltzmannMachine.grid(2.0, np.int8(3)).m == 6
    model = pairwise(edge_groups=np.array([7]), covariate_names=pd.Series(["water"]))
    assert model.parameter_names == ["bias", "water", "7", "7*e0"]
    assert MODEL.sample(np.zeros(6), 2, given=[np.float64(1.0), None, NAN]).values[0, 0] == 1
    path = tmp_path / "text"
    path.write_bytes("é O\n".encode("latin-1"))
    assert chains.read_columns(path, encoding="latin-1")
