"""Plans for samples in pieces and for fits on workers."""

import json
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.chains import SentenceFiles, join_texts, read_columns
from fieldfit.cli import main
from fieldfit.planner.pilot import Effort
from fieldfit.shards.backend import LocalBackend, LocalShards
from fieldfit.shards.room import Fixed
from fieldfit.shards.shard import Shard
from fieldfit.shards.sharded_dataset import MOST_GATHERED

POLICIES = ["PL1", "FL", "0.3*PL1", "PL1 >> optimal(1)"]


@pytest.fixture(scope="module")
def model():
    return ff.BoltzmannMachine(5, biases=True)


@pytest.fixture(scope="module")
def samples(model):
    theta = np.random.default_rng(0).normal(0, 0.5, model.n_parameters)
    return np.asarray(model.sample(theta, 6_000, random_state=1).values)


@pytest.fixture(scope="module")
def files(model, samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    for number, part in enumerate(np.array_split(samples, 4)):
        header = ",".join(model.names)
        np.savetxt(folder / f"{number}.csv", part, fmt="%d", delimiter=",", header=header, comments="")
    return str(folder / "*.csv")


def variances(plan):
    return {candidate.policy: candidate.variance for candidate in plan.candidates}


@pytest.mark.slow
def test_pieces_have_the_plan_of_one_table(model, samples, files):
    table = ff.plan(model, samples, policies=POLICIES, random_state=4)
    pieces = ff.plan(model, files, policies=POLICIES, random_state=4)
    assert pieces.n == table.n == len(samples)
    assert pieces.theta.tobytes() == table.theta.tobytes()
    assert variances(pieces) == variances(table)
    flops = ff.plan(model, files, flops=1e8, policies=POLICIES, random_state=4)
    assert flops.best == ff.plan(model, samples, flops=1e8, policies=POLICIES, random_state=4).best


@pytest.mark.slow
def test_only_a_few_samples_are_brought_here(model, files, monkeypatch):
    from fieldfit.shards.sharded_dataset import ShardedDataset

    brought, usual = [], ShardedDataset.subset

    def noted(self, rows):
        brought.append(len(rows))
        return usual(self, rows)

    monkeypatch.setattr(ShardedDataset, "subset", noted)
    ff.plan(model, files, policies=POLICIES)
    assert 0 < sum(brought) < 6_000
    assert max(brought) <= 2_000 < MOST_GATHERED


class Fast(LocalBackend):
    """Four times as fast as this process, by its own account."""

    def place(self, sources):
        class FastShards(LocalShards):
            speed = 4.0

        return FastShards([Shard(number, source, Fixed(True)) for number, source in enumerate(sources)])


def test_workers_share_the_work_of_a_fit(model, samples):
    slow = ff.plan(model, samples, policies=["PL1"], shards=8).survey.costs
    fast = ff.plan(model, samples, policies=["PL1"], shards=8, backend=Fast()).survey.costs
    assert slow.shards.times(6_000) == 8.0
    assert fast.shards.times(6_000) == 2.0
    unit = np.eye(len(slow.ingredients))[0]
    work, rates = slow._work(unit)[0], slow.rates
    seconds = 8.0 * rates.evaluation_seconds(work)
    steps = slow._work(unit)[1][0]
    messages = slow.shards.placing + slow.shards.sharing + (1 + steps.questions) * slow.shards.overhead
    fixed = slow.reading + slow.rates.fit_seconds + steps.overhead + messages
    expected = fixed + 8.0 * rates.setup_seconds(work) + steps.equivalents * seconds
    assert slow.seconds(unit) == pytest.approx(expected)


def test_sums_that_shards_share_are_counted_once():
    model = ff.BoltzmannMachine(13, biases=True)
    values = model.sample(np.zeros(model.n_parameters), 300, random_state=1).values
    costs = ff.plan(model, values, policies=["FL"], shards=30).survey.costs
    place = next(k for k, part in enumerate(costs.ingredients) if str(part.law) == "FL")
    unit = np.eye(len(costs.ingredients))[place]
    work, steps = costs._work(unit)
    assert work["once_eliminate1"] == work["eliminate1"] > 0
    whole = steps[0].equivalents * costs.rates.evaluation_seconds(work)
    sums = steps[0].equivalents * costs.rates.evaluation_seconds({"eliminate1": work["eliminate1"]})
    rest = costs.rates.fit_seconds + steps[0].overhead + 30 * costs.rates.setup_seconds(work) + costs.reading
    messages = costs.shards.placing + costs.shards.sharing + (1 + steps[0].questions) * costs.shards.overhead
    assert costs.seconds(unit) == pytest.approx(rest + messages + whole + 29 * (whole - sums), rel=0.05)


@pytest.mark.slow
def test_a_plan_on_workers_is_fitted_there(model, samples, files):
    distributed = pytest.importorskip("distributed")
    here = ff.plan(model, samples, policies=["PL1", "0.3*PL1"], shards=6, random_state=4)
    with distributed.Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        there = ff.plan(model, samples, policies=["PL1", "0.3*PL1"], shards=6, backend=client, random_state=4)
        assert variances(there) == variances(here)
        assert there.survey.costs.shards.overhead > 0
        assert there.fit().theta.tobytes() == here.fit().theta.tobytes()
        pieces = ff.plan(model, files, policies=["PL1", "0.3*PL1"], backend=client, random_state=4)
        assert variances(pieces) == variances(here)
        assert pieces.fit().theta.shape == here.theta.shape


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Seven files of 100 sentences, and one without any."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(7):
        source, lines = np.random.default_rng(number), []
        for _ in range(100):
            words = source.geometric(0.08, source.integers(1, 8)).tolist()
            lines += [f"w{word} {'XYZ'[int(source.random() < 0.2) or word % 3]}" for word in words]
            lines.append("")
        (folder / f"{number}.conll").write_text("\n".join(lines) + "\n")
    (folder / "7.conll").write_text("\n")
    return folder


def test_sentences_in_files_have_the_plan_of_their_text(corpus, monkeypatch):
    from fieldfit.shards.sharded_dataset import ShardedDataset

    brought, usual = [], ShardedDataset.subset

    def noted(self, rows):
        brought.append(len(rows))
        return usual(self, rows)

    monkeypatch.setattr(ShardedDataset, "subset", noted)
    monkeypatch.setattr("fieldfit.planner.pilot.usual_effort", lambda r, hessian: Effort(150, 80, 3, 40, False))
    tagger = ff.CRFTagger(sigma2=1.0)
    text = join_texts([read_columns(path) for path in sorted(corpus.glob("*.conll"))])
    settings: dict[str, Any] = {"sigma2": 1.0, "tol": 1e-4, "policies": ["PL1", "FL", "0.3*PL1"], "random_state": 4}
    _, model, sentences = tagger.prepare(text)
    one = ff.plan(model, sentences, **settings)
    _, model, pieces = tagger.prepare(SentenceFiles.matching(corpus / "*.conll"))
    many = ff.plan(model, pieces, **settings)
    assert many.n == one.n == 700
    assert many.theta.tobytes() == one.theta.tobytes()
    assert variances(many) == variances(one)
    flops = {candidate.policy: candidate.flops for candidate in many.candidates}
    assert flops == {candidate.policy: candidate.flops for candidate in one.candidates}
    assert max(brought) == 150  # of 700; a shard has 100
    costs = many.survey.costs.shards
    assert costs is not None
    assert costs.rows.n == 100
    fit = many.fit()
    assert fit.n == 700
    assert fit.dataset.in_pieces


@pytest.mark.slow
def test_sentences_are_planned_on_workers(corpus, capsys):
    distributed = pytest.importorskip("distributed")
    files = SentenceFiles.matching(corpus / "*.conll")
    settings: dict[str, Any] = {"sigma2": 1.0, "policies": ["PL1", "FL"]}
    _, model, pieces = ff.CRFTagger().prepare(files)
    here = ff.plan(model, pieces, **settings)
    local: dict[str, Any] = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.Client(n_workers=2, **local) as client:
        there = ff.plan(model, pieces, **settings, backend=client)
        assert variances(there) == variances(here)
        assert there.fit().theta.shape == here.theta.shape
    for workers in ([], ["--workers", "2"]):
        options = ["-p", "PL1", "-p", "FL", "--sigma2", "1", "--json"]
        assert main(["plan", "crf", str(corpus / "*.conll"), *options, *workers]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {line["policy"] for line in found["policies"]} == {"PL1", "FL"}
