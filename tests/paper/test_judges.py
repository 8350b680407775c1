"""Rules that judge the claims of captions, on small grids made by hand."""

import itertools
from dataclasses import replace

import pytest

from fieldfit_paper.chain_tables import SweepTables, differences
from fieldfit_paper.chunking_claims import lam_is_minor, larger_areas, pulled_to_axis, range_by_lam, trade_off
from fieldfit_paper.claim_rows import Verdict
from fieldfit_paper.complexity_claims import printed_order
from fieldfit_paper.sentiment_claims import sentiment_claims
from fieldfit_paper.small_chain import CHAINS, CLOSE_BETA, LAMBDAS, SEEDS, diagonal_claim, distances, sequences

CHAIN = "boltzmann-chain"


def grid(test, train=lambda sigma2, lam, beta: 100.0):
    """Cells of two σ², two λ and two β."""
    points = itertools.product((500.0, 5000.0), (0.1, 1.0), (0.1, 1.0))
    return [
        {"sigma2": s, "lam": lam, "beta": beta, "test_nll": test(s, lam, beta), "train_nll": train(s, lam, beta)}
        for s, lam, beta in points
    ]


@pytest.mark.parametrize(("weak", "agrees"), [(190.0, True), (250.0, False)])
def test_contours_are_pulled_where_a_smaller_lam_is_enough(weak, agrees):
    rows = grid(lambda s, lam, beta: 190.0 if lam == 1 else 250.0 if s == 500 else weak)
    text, found = pulled_to_axis({(CHAIN, "FL"): rows, (CHAIN, "PL2"): rows})
    assert found is agrees
    assert "from λ = 1 on and in 50% of the panel at the smallest σ²" in text


def test_larger_areas_compares_the_two_policies_at_one_level():
    wide, narrow = grid(lambda *_: 190.0), grid(lambda s, lam, beta: 190.0 if lam == 1 else 250.0)
    assert larger_areas({(CHAIN, "FL"): narrow, (CHAIN, "PL2"): wide})[1]
    text, found = larger_areas({(CHAIN, "FL"): wide, (CHAIN, "PL2"): narrow})
    assert not found
    assert "a test NLL of 193.8 or less: PL1/FL in 100% of the panels, from λ = 0.1 on, PL1/PL2 in" in text
    assert not larger_areas({(CHAIN, "FL"): wide, (CHAIN, "PL2"): wide})[1]


@pytest.mark.parametrize(("growth", "agrees"), [(2.0, True), (0.5, False)])
def test_the_range_over_lam_is_that_of_a_panel(growth, agrees):
    def train(s, lam, beta):
        """λ spans more at β = 1; only there does the range grow with σ²."""
        span = 1.0 if beta < 1 else 10.0 * growth if s == 5000 else 10.0
        return (100.0 if s == 500 else 50.0) - lam * span

    text, found = range_by_lam({(CHAIN, "FL"): grid(lambda *_: 1.0, train)})
    assert found is agrees
    assert f"λ spans 9.0, {9 * growth:.1f} nats" in text
    assert f"grows at {1 if agrees else 0} of 2 β" in text
    assert "): differs; in the mean over β" in text


def test_the_range_over_lam_needs_a_lower_bound_that_falls():
    rows = grid(lambda *_: 1.0, lambda s, lam, beta: 100.0 - lam * (1.0 if s == 500 else 2.0) + (s == 5000) * 10)
    assert range_by_lam({(CHAIN, "FL"): rows})[1] is False


@pytest.mark.parametrize(("cheap", "agrees"), [(50.0, True), (20.5, False), (20.0, False)])
def test_a_trade_off_leaves_the_least_train_nll_to_dearer_policies(cheap, agrees):
    rows = [
        {"flops": 1.0, "train_nll": cheap, "test_nll": 10.0},
        {"flops": 1.0, "train_nll": 60.0, "test_nll": 70.0},
        {"flops": 4.0, "train_nll": 20.0, "test_nll": 40.0},
    ]
    text, found = trade_off(CHAIN)({(CHAIN, "FL"): rows, (CHAIN, "PL2"): rows})
    assert found is agrees
    assert f"train {cheap:.2f} against 20.00" in text
    assert "test 10.00 against 10.00 at 1.0 times" in text


@pytest.mark.parametrize(("train", "test", "agrees"), [(99.0, 99.0, True), (99.0, 90.0, False), (90.0, 99.0, False)])
def test_lam_is_minor_on_the_train_and_on_the_test_set(train, test, agrees):
    rows = grid(lambda s, lam, beta: test if lam == 1 else 100.0, lambda s, lam, beta: train if lam == 1 else 100.0)
    text, found = lam_is_minor({("crf", "PL2"): rows})
    assert found is agrees
    assert f"(100.00 to {train:.2f}) at σ² = 5000" in text


def test_printed_orders_by_hand():
    assert printed_order(5, 14, None) == 10 * (32 + 14)
    assert [printed_order(5, 14, k) for k in (1, 2)] == [10 * (10 + 14), 10 * (40 + 14)]


class TwoReadings(SweepTables):
    """Grids of the sentiment set: in the second reading β lowers the train NLL, and λ = 0.1 is as good on the test set."""

    def fits(self, reading):
        sign, loss = (1.0, 3.0) if reading == "sums" else (-1.0, 0.0)
        return [
            {
                "fold": fold, "sigma2": sigma2, "lam": lam, "beta": beta, "flops": lam, "evaluation_seconds": 1.0,
                "train_nll": 10.0 - lam + sign * beta, "test_nll": 20.0 + (sigma2 == 10) * (lam + loss) + 0.001 * fold,
            }
            for fold, sigma2, lam, beta in itertools.product((0, 1), (0.5, 1.0, 10.0), (0.1, 1.0), (0.1, 1.0))
        ]  # fmt: skip

    def grid(self, source, model, higher, reading="sums"):
        return [cell for cell in self.fits(reading) if cell["fold"] == 0]

    def differences(self, source, model, higher, reading="sums"):
        return differences(self.fits(reading))


def test_sentiment_rows_have_both_readings():
    rows = list(sentiment_claims(TwoReadings(None, "paper")))
    assert len(rows) == 9
    verdicts = {row.claim.split(" (")[0]: (row.first.verdict, row.second.verdict) for row in rows if row.second}
    assert all(row.second for row in rows)
    assert verdicts["Train likelihood increases with the selection probability of FL"] == (Verdict.AGREES,) * 2
    assert verdicts["Train likelihood increases with the weight of PL2"] == (Verdict.DIFFERS, Verdict.AGREES)
    assert verdicts["Under weak regularisation"] == (Verdict.AGREES,) * 2
    assert verdicts["The weaker regularisation"] == (Verdict.DIFFERS, Verdict.AGREES)
    assert [row.claim for row in rows if "differs" in row.verdict and not row.why] == []


def test_small_chains_differ_in_length_and_labels():
    assert len({chain.n_labels for chain in CHAINS}) == len({chain.longest for chain in CHAINS}) == len(CHAINS) == 3
    for chain in CHAINS:
        made = sequences(chain, SEEDS["small"][0])
        lengths = set((made.offsets[1:] - made.offsets[:-1]).tolist())
        assert lengths == set(range(chain.shortest, chain.longest + 1))
        assert sorted(set(made.labels.tolist())) == list(range(chain.n_labels))


@pytest.mark.slow
def test_the_row_of_small_chains_counts_all_seeds(monkeypatch):
    assert len(SEEDS["paper"]) == 6
    few = replace(CHAINS[0], n_sequences=200)
    monkeypatch.setattr("fieldfit_paper.small_chain.CHAINS", (CHAINS[1], few))
    row = diagonal_claim("small")
    assert row.measured.count(f"{few}: ") == 2  # once by each formula
    assert "2 sets of sequences of each kind" in row.measured
    away = distances(CHAINS[1], "published", "small")
    assert len(away) == 2 * len(LAMBDAS)
    below = sum(distance < CLOSE_BETA for distance in away)
    assert f"{CHAINS[1]}: {below} of {len(away)} below 0.1, the largest {max(away):.2f}" in row.measured
    assert max(away[: len(LAMBDAS)]) < CLOSE_BETA < max(away)  # one set of sequences is not enough
    assert row.first.verdict is Verdict.DIFFERS
