"""The planner's promise: no policy of a grid that takes no longer is more accurate than the one it recommends.

    python benchmarks/planner_promise.py [--replications 60] [--out docs/figures] [--store FILE] [--only NAME …]

For each model (six fields, a CRF and a Boltzmann chain): one plan from one dataset, and its recommendations for budgets
around the cost of PL1, in seconds (the pilot being paid: it takes longer than these small fits) and in the paper's FLOPs.
Then the recommended policies and every policy of the grid are fitted to the same replicated datasets, in turn, and timed in
CPU seconds on one thread. Error is (θ̂ − θ)ᵀ I(θ) (θ̂ − θ) n/r, which has mean 1 for maximum likelihood; where that is out
of reach, I is PL1's information.
A rival *beats* the recommendation if it is better beyond noise in both: its time is shorter by more than 3 standard errors
of the paired log ratio (or its FLOPs are not larger), and its error is lower by more than 3 standard errors of the paired
difference, and by more than the half percent below which the planner takes the simpler policy. Refined policies (A >> B)
are in the grid; for each model it is said how far they lie below the frontier of the others. Finished replications are
kept in --store, so that the same command goes on where it was stopped. Seconds are compared only between fits of one
run: take another --store after a change of the code or of the machine's load.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain as chained
from pathlib import Path
from typing import Any

import numpy as np

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.planner.candidates import ENOUGH
from fieldfit.policies import Policy
from fieldfit.report.figures import figure, make_folder, save_figure
from fieldfit.report.labels import name_points
from fieldfit.report.table import PlainTable, aligned_text
from fieldfit.types import FieldfitError

GRID = ("PL1", "PL2", "PL3", "FL", "Partition(2)", "Partition(3)", "0.1*PL1/row", "0.3*PL1/row", "0.3*PL1", "0.6*PL1",
        "PL1 + 0.1*PL2@0.05", "PL1 + 0.3*FL@0.1", "0.7*PL1 + 0.3*PL2", "0.3*PL2", "0.3*FL", "PL1 + 0.3*PL2@0.1",
        "0.3*PL2/row", "0.5*FL/row", "PL1 >> optimal(1)", "PL1 >> optimal(2)", "PL1 >> FL", "0.3*PL1/row >> FL",
        "0.1*PL1/row >> FL")  # fmt: skip
CHAIN_GRID = ("PL1", "PL2", "PL3", "FL", "0.1*PL1/sentence", "0.3*PL1/sentence", "0.6*PL1", "0.3*FL/sentence",
              "0.6*FL/sentence", "PL1 + 0.3*FL@0.3", "PL1 + 0.3*PL2@0.3", "0.5*PL2", "PL1 >> FL",
              "0.3*PL1/sentence >> FL", "0.1*PL1/sentence >> FL")  # fmt: skip
#: Refined policies whose exact variance is compared with that of others, and joint states up to which it is.
EXACT, OTHERS, MOST_LISTED = ("PL1 >> optimal(1)", "PL1 >> optimal(2)"), ("PL1", "PL2", "FL"), 1 << 17
#: Policies that have a name in the picture, besides the recommended ones.
NAMED = ("PL1", "FL", "PL2", "Partition(2)", "0.3*PL1/row", "PL1 >> optimal(1)", "PL1 >> optimal(2)", "PL1 >> FL")
#: Budgets as multiples of what a fit by PL1 costs.
SECONDS, FLOPS = (0.6, 1.2, 3.0, 12.0), (0.4, 1.5, 20.0)
#: A policy that takes this many seconds is too slow for this benchmark: it costs more than anything recommended here.
SLOW = 0.5


@dataclass
class Case:
    """A model with its true θ and samples for all replications."""

    name: str
    model: ff.BoltzmannMachine | ff.Potts
    theta: np.ndarray
    n: int
    rows: np.ndarray
    grid = GRID

    def data(self, replication: int) -> np.ndarray:
        """The samples of a replication; −1 are those of the plan."""
        start = (replication + 1) * self.n
        return self.rows[start : start + self.n]

    def metric(self) -> np.ndarray:
        """The information of FL at the true θ, or of PL1 where that cannot be computed."""
        theory = ff.theory(self.model, self.theta, "PL1", n_simulated=4000)
        return theory.bread if theory.mle_covariance is None else np.linalg.pinv(theory.mle_covariance)


@dataclass
class ChainCase:
    """A chain with its true θ: the observations stay, the labels are drawn anew for each replication."""

    name: str
    model: ChainCRF | BoltzmannChain
    theta: np.ndarray
    n: int
    rows: Sequences
    grid = CHAIN_GRID

    def data(self, replication: int) -> Sequences:
        """The sentences with the labels of a replication."""
        return self.model.simulate(self.rows, self.theta, 1_000 + replication)

    def metric(self) -> np.ndarray:
        """FL's information at the true θ, expected given the observations (a Boltzmann chain: from four draws)."""
        total = np.zeros((len(self.theta),) * 2)
        for draw in range(4):
            data = self.data(-2 - draw)
            bound = Policy.parse("FL").bind(self.model.structure(data))
            total -= self.model.compile(data, bound.draw(0, 0, self.n)).hessian_matrix(self.theta) / self.n / 4
        return total


def cases(replications: int, only: list[str] | None) -> Iterator[Case]:
    rng = np.random.default_rng(7)
    made = [
        ("grid 4×4", ff.BoltzmannMachine.grid(4, 4), 1.0, 2_000),
        ("dense 14", ff.BoltzmannMachine(14), 0.4, 3_000),
        ("Potts 3×3", ff.Potts.grid(3, 3, 3, couplings="agree"), 0.5, 1_000),
        ("dense 24", ff.BoltzmannMachine(24), 0.2, 3_000),
        ("chain of 8, ±1", ff.BoltzmannMachine.grid(1, 8, states=(-1, 1)), 1.0, 2_000),
        ("grid 3×3, ±0.8", ff.BoltzmannMachine.grid(3, 3, states=(-1, 1)), 0.8, 2_000),
    ]
    for name, model, scale, n in made:
        theta = rng.normal(size=model.n_parameters) * scale
        if "±" in name:
            theta = scale * np.sign(theta)
        if only and name not in only:
            continue
        rows = model.sample(theta, n * (replications + 1), random_state=0).values
        # Draws that were sampled by chains come in order: each dataset takes some of all of them.
        yield Case(name, model, theta, n, rows[np.random.default_rng(1).permutation(len(rows))])  # type: ignore[arg-type]


def sentences(n: int, labels: int, features: int, each: int) -> Sequences:
    """Sentences of 4 to 13 tokens with random features; their labels are to be drawn."""
    rng = np.random.default_rng(1)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(4, 14, n))))
    tokens = int(offsets[-1])
    indices = rng.integers(0, features, tokens * each).astype(np.int32)
    codes = rng.integers(0, labels, tokens).astype(np.int32)
    return Sequences(offsets, np.arange(0, tokens * each + 1, each), indices, None, codes, features, labels)


def chain_cases(only: list[str] | None) -> Iterator[ChainCase]:
    crf, chain = ChainCRF(5, 10, pairs="all"), BoltzmannChain(6, 12)
    for name, model, data in (
        ("CRF, 5 labels", crf, sentences(1_000, 5, 10, 2)),
        ("Boltzmann chain", chain, sentences(3_000, 6, 12, 1)),
    ):
        theta = np.random.default_rng(3).normal(size=model.n_parameters) * 0.8
        if not only or name in only:
            yield ChainCase(name, model, theta, len(data), data)


def timed_fit(case: Case | ChainCase, replication: int, policy: str) -> tuple[np.ndarray, float]:
    data = case.data(replication)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ff.fit(case.model, data, policy, random_state=replication + 1, sigma2=1e4)
    return fit.theta, time.process_time() - began


def replicate(
    case: Case | ChainCase, policies: list[str], replications: int, metric: np.ndarray, store: Path | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Errors and seconds (policies, replications), and the policies that are too slow to take part."""
    known: dict[tuple[str, int], tuple[float, float]] = {}
    if store is not None and store.exists():
        for line in store.read_text().splitlines():
            name, policy, replication, error, seconds = json.loads(line)
            if name == case.name:
                known[policy, replication] = error, seconds
    rank = int(np.linalg.matrix_rank(metric, tol=1e-8 * np.linalg.norm(metric, 2)))
    slow = [policy for policy in policies if timed_fit(case, -1, policy)[1] > SLOW]
    used = [policy for policy in policies if policy not in slow]
    errors, times = np.full((2, len(used), replications), np.nan)
    for replication in range(replications):
        lines = []
        # In random order: a fit after a long one, or the first one to new samples, finds its data in no cache.
        for place in np.random.default_rng(replication).permutation(len(used)).tolist():
            policy = used[place]
            if (policy, replication) not in known:
                found, seconds = timed_fit(case, replication, policy)
                away = found - case.theta
                known[policy, replication] = float(away @ metric @ away) * case.n / rank, seconds
                lines.append(json.dumps([case.name, policy, replication, *known[policy, replication]]))
            errors[place, replication], times[place, replication] = known[policy, replication]
        if store is not None and lines:
            with store.open("a") as file:
                file.write("\n".join(lines) + "\n")
    return errors, times, slow


def check(
    case: Case | ChainCase, replications: int, store: Path | None
) -> tuple[list[tuple[Any, ...]], int, dict[str, Any]]:
    """Rows for the table, the number of recommendations that are beaten, and what the picture needs."""
    model = case.model
    model.read(case.data(-1))  # what is loaded for the first time is no part of a fit
    plan = ff.plan(model, case.data(-1), sigma2=1e4)
    plain = next(own for own in plan.candidates if own.policy == "PL1")
    metric = case.metric()
    asked = [("seconds", share, plan.within(share * plain.seconds)) for share in SECONDS]
    asked += [("FLOPs", share, plan.within(flops=share * plain.flops)) for share in FLOPS]
    usable = [text for text in case.grid if plan.reference == "FL" or "FL" not in text]
    policies = list(dict.fromkeys([own.best for _, _, own in asked] + usable))
    errors, times, slow = replicate(case, policies, replications, metric, store)
    policies = [policy for policy in policies if policy not in slow]
    flops = np.array(list(map(flops_of(plan, case), policies)))
    median, mean = np.median(times, axis=1), errors.mean(axis=1)
    deviation = errors.std(axis=1, ddof=1) / np.sqrt(replications)
    rows: list[tuple[Any, ...]] = []
    lost = 0
    for unit, share, own in asked:
        if own.best in slow:
            rows.append((f"{share:g} × PL1, {unit}", own.best, None, None, None, None, None, "too slow to be tried"))
            continue
        place = policies.index(own.best)
        beaten = []
        for rival, policy in enumerate(policies):
            quicker = np.log(times[rival] / times[place])
            within = quicker.mean() < -3 * quicker.std(ddof=1) / np.sqrt(replications)
            if unit == "FLOPs":
                within = flops[rival] <= flops[place] * (1 + 1e-9)
            away = errors[place] - errors[rival]
            margin = 3 * away.std(ddof=1) / np.sqrt(replications)
            if within and rival != place and away.mean() > max(margin, ENOUGH * mean[place]):
                beaten.append(f"{policy} ({mean[rival]:.3f} in {1e3 * median[rival]:.3g} ms)")
        lost += bool(beaten)
        best = own.best_candidate
        # The plan's variance is relative to its reference: in the units of the error that is 1 for FL.
        scale = 1.0 if plan.reference == "FL" else mean[policies.index("PL1")]
        rows.append((f"{share:g} × PL1, {unit}", own.best, 1e3 * median[place], 1e3 * best.seconds, float(mean[place]),
                     float(deviation[place]), best.variance * scale, ", ".join(beaten) or "no"))  # fmt: skip
    picture = {"name": case.name, "policies": policies, "median": median, "mean": mean, "deviation": deviation,
               "best": [own.best for unit, _, own in asked if unit == "seconds"]}  # fmt: skip
    picture["exact"] = exact_gain(case, flops_of(plan, case))
    for unit, cost in (("seconds", median), ("FLOPs", flops)):
        picture[f"gain in {unit}"] = gain_of_refined(policies, cost, errors)
    if slow:
        print(f"{case.name}: slower than {SLOW:g} s and left out: {', '.join(slow)}")
    return rows, lost, picture


def exact_gain(case: Case | ChainCase, flops: Callable[[str], float]) -> str:
    """The exact variance of refined policies and of the best others that cost no more FLOPs, where states can be listed."""
    if isinstance(case, ChainCase) or case.model.n_states > MOST_LISTED:
        return ""

    def variance(policy: str) -> float:
        return ff.theory(case.model, case.theta, policy).efficiency("root")

    lines = []
    for refined in EXACT:
        others = [policy for policy in OTHERS if flops(policy) <= flops(refined)]
        best = min(others, key=variance)
        lines.append(f"{refined} {variance(refined):.4f}, {best} {variance(best):.4f}")
    return f"exact det^(1/r), and of the best of {', '.join(OTHERS)} within its FLOPs: {'; '.join(lines)}"


def flops_of(plan: ff.Plan, case: Case | ChainCase) -> Callable[[str], float]:
    """The paper's FLOPs of a whole fit, as the plan counts them; policies that it did not compare are asked for."""
    known = {own.policy: own.flops for own in plan.candidates}

    def flops(policy: str) -> float:
        if policy not in known:
            try:
                asked = ff.plan(case.model, case.data(-1), policies=[policy], sigma2=1e4)
                known[policy] = next(own.flops for own in asked.candidates if own.policy == policy)
            except FieldfitError:
                known[policy] = np.inf  # the second stage would change nothing
        return float(known[policy])

    return flops


def gain_of_refined(policies: list[str], cost: np.ndarray, errors: np.ndarray) -> tuple[str, float] | None:
    """The refined policy that lies farthest below the frontier of the others, and its error over theirs at its cost.

    Below is: by more than 3 standard errors of the paired difference from the most accurate other that costs no more.
    """
    mean, staged = errors.mean(axis=1), np.array([">>" in policy for policy in policies])
    best = None
    for place in np.flatnonzero(staged).tolist():
        others = np.flatnonzero(~staged & (cost <= cost[place] * (1 + 1e-9)))
        if not len(others):
            continue
        rival = others[np.argmin(mean[others])]
        away = errors[rival] - errors[place]
        if away.mean() > 3 * away.std(ddof=1) / np.sqrt(away.size):
            ratio = float(mean[place] / mean[rival])
            if best is None or ratio < best[1]:
                best = policies[place], ratio
    return best


def draw(pictures: list[dict[str, Any]], folder: Path) -> None:
    """Measured error against measured seconds; diamonds are recommended for a budget in seconds."""
    lines = -(-len(pictures) // 2)
    with figure(9.6, 3.9 * lines) as drawing:
        axes = drawing.subplots(lines, 2, squeeze=False)
        for own, place in zip(pictures, axes.ravel(), strict=False):
            best = [policy in own["best"] for policy in own["policies"]]
            shown = own["mean"] <= max(4 * own["mean"].min(), 1.15 * own["mean"][best].max())
            columns = zip(1e3 * own["median"], own["mean"], own["deviation"], best, shown, strict=True)
            for x, y, deviation, chosen, on in columns:
                if on:
                    place.errorbar(x, y, 2 * deviation, fmt="D" if chosen else "o", elinewidth=0.8,
                                   color="#b5482a" if chosen else "#2b5c8a", markersize=7 if chosen else 3.5,
                                   zorder=3 if chosen else 2)  # fmt: skip
            edge = sorted(zip(1e3 * own["median"], own["mean"], strict=True))
            steps, least = [], np.inf
            for x, y in edge:
                least = min(least, y)
                steps.append((x, least))
            place.step(*zip(*steps, strict=True), where="post", color="#8a8378", linewidth=0.8, zorder=1)
            place.set(xscale="log", yscale="log", title=own["name"], xlabel="CPU milliseconds of a fit, median",
                      ylabel="measured error (MLE: 1)")  # fmt: skip
            low, high = own["mean"][shown].min(), own["mean"][shown].max()
            place.set_ylim(0.93 * low, 1.1 * high)
            for axis in (place.xaxis, place.yaxis):
                axis.set_major_formatter(lambda value, _: f"{value:g}")
                axis.set_minor_formatter(lambda value, _: "")
            ticks = [t for t in (0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 10, 15) if 0.93 * low <= t <= 1.1 * high]
            place.set_yticks(ticks)
            left, right = place.get_xlim()
            place.set_xticks([t for t in (2, 3, 4, 6, 8, 10, 20, 30, 50, 100, 200, 300) if left <= t <= right])
        drawing.tight_layout()
        for own, place in zip(pictures, axes.ravel(), strict=False):
            points = list(zip(own["policies"], 1e3 * own["median"], own["mean"], strict=True))
            names = [p for p in points if p[0] in own["best"]] + [p for p in points if p[0] in NAMED]
            low, high = place.get_ylim()
            names = [p for p in dict.fromkeys(names) if low < p[2] < high]
            name_points(place, names, [p[1:] for p in points], 7.5)
        for place in axes.ravel()[len(pictures) :]:
            place.set_visible(False)
    for path in save_figure(drawing, make_folder(folder), "planner-promise", kinds=("png",)):
        print("written:", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=60)
    parser.add_argument("--out", type=Path, help="folder for planner-promise.png")
    parser.add_argument("--store", type=Path, help="file of finished replications; what is in it is not done again")
    parser.add_argument("--only", nargs="+", help="models by name")
    options = parser.parse_args()
    ff.set_threads(1)  # CPU seconds mean something on one thread only
    lost, pictures = 0, []
    columns = ("budget", "recommended", "CPU ms", "predicted", "error", "±", "predicted", "beaten by")
    formats = ("", "", ".3g", ".3g", ".3f", ".2g", ".3f", "")
    every: Iterator[Case | ChainCase] = chained(cases(options.replications, options.only), chain_cases(options.only))
    for case in every:
        began = time.perf_counter()
        rows, own, picture = check(case, options.replications, options.store)
        lost += own
        pictures.append(picture)
        title = (
            f"{case.name}, n = {case.n:,}, {options.replications} replications ({time.perf_counter() - began:.0f} s)"
        )
        print(aligned_text(PlainTable(title, columns, tuple(rows), "", formats)))
        best = np.argsort(picture["mean"])[:4]
        shown = (
            f"{picture['policies'][k]} {picture['mean'][k]:.3f} in {1e3 * picture['median'][k]:.3g} ms" for k in best
        )
        print("most accurate of all:", "; ".join(shown))
        for unit in ("seconds", "FLOPs"):
            gain = picture[f"gain in {unit}"]
            said = "no refined policy is below" if gain is None else f"{gain[0]} has {gain[1]:.3f} times the error of"
            print(f"in {unit} {said} the frontier of the others")
        if picture["exact"]:
            print(picture["exact"])
        print(flush=True)
        if options.out is not None:
            draw(pictures, options.out)
    print("recommendations beaten:", lost)
    below = [own["name"] for own in pictures if own["gain in seconds"] or own["gain in FLOPs"]]
    print(f"models with a lower frontier by refined policies: {len(below)} of {len(pictures)} ({', '.join(below)})")


if __name__ == "__main__":
    main()
