"""Networks: nodewise regressions against glmnet, scikit-learn and skglm, recovery of known graphs, coverage of intervals.

Run: python benchmarks/networks.py [glmnet] [solvers] [recovery] [coverage]. The first needs R with glmnet (Debian:
r-cran-glmnet); recovery writes docs/figures/network-recovery.png and .csv. CPU seconds of one thread.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import fieldfit as ff
from fieldfit import networks
from fieldfit.data.locate import find_data
from fieldfit.networks.logistic_paths import logistic_paths
from fieldfit.networks.nodewise import RULES, split
from fieldfit.report.figures import figure, save_figure
from fieldfit.threads import use_threads

HERE = Path(__file__).parent


def tables() -> dict[str, networks.Responses]:
    """Survey, votes, spikes and simulated answers."""
    random = np.random.default_rng(0)
    common = random.normal(size=(1000, 1))
    simulated = (random.normal(size=(1000, 60)) + common > 0).astype(int)
    court = pd.read_csv(find_data("votes/supreme_court.csv")).dropna()
    return {
        "survey, 355 x 18": networks.read_responses(find_data("psych/adhd.csv"), leave_out=["group"]),
        "votes, 464 x 9": networks.read_responses(court),
        "simulated, 1,000 x 60": networks.read_responses(simulated),
        "spikes, 40,000 x 15": networks.read_responses(find_data("spikes/neurons15.csv.gz")),
        "spikes, 10,000 x 50": networks.read_responses(
            networks.read_responses(find_data("spikes/neurons50.csv.gz")).subset(np.arange(10_000))
        ),
    }


def against_glmnet() -> None:
    """The same paths and networks by glmnet, at its usual and at a strict tolerance."""
    if shutil.which("Rscript") is None:
        print("glmnet: skipped, there is no Rscript")
        return
    print(
        "table                     glmnet s   fieldfit s   ratio   glmnet 1e-14 s   edges   same edges   largest difference"
    )
    for name, answers in tables().items():
        with tempfile.TemporaryDirectory() as folder:
            data, out = Path(folder) / "x.csv", Path(folder) / "out.txt"
            pd.DataFrame(answers.codes, columns=list(answers.names)).to_csv(data, index=False)
            seconds = {}
            for tolerance in ("1e-7", "1e-14"):
                told = subprocess.run(
                    ["Rscript", str(HERE / "nodewise_glmnet.R"), str(data), str(out), "0.25", tolerance],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
                seconds[tolerance] = float(told.stdout.split()[0])
            result = np.loadtxt(out)
        with use_threads(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.process_time()
            ours = networks.nodewise_network(answers)
            spent = time.process_time() - began
        couplings = RULES["and"](split(result[:, : answers.m])[0])
        same = np.array_equal(couplings != 0, ours.couplings != 0)
        print(
            f"{name:24} {seconds['1e-7']:9.2f} {spent:12.3f} {seconds['1e-7'] / spent:7.1f} {seconds['1e-14']:16.2f} "
            f"{len(ours.pairs):7d} {same!s:>12} {np.abs(couplings - ours.couplings).max():20.1e}"
        )


def against_solvers() -> None:
    """One λ for all variables by scikit-learn's solvers and skglm, node by node, and by our solver at that λ alone.

    The problems are the same, with an intercept that has no penalty (liblinear has a small one). ``excess`` is the largest
    difference of an objective to ours, for each sample; a negative one would be better than ours.
    """
    from sklearn.linear_model import LogisticRegression

    lam = 0.02

    def sklearn_solver(solver: str, tol: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            peer = LogisticRegression(
                l1_ratio=1.0, C=1 / (lam * len(x)), solver=solver, tol=tol, max_iter=5000, random_state=0
            ).fit(x, y)
            return np.append(peer.coef_[0], peer.intercept_)

        return fit

    peers = {"liblinear": sklearn_solver("liblinear", 1e-6), "saga": sklearn_solver("saga", 1e-6)}
    try:
        from skglm import SparseLogisticRegression
    except ImportError:
        print("skglm is not installed and left out")
    else:

        def skglm(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            peer = SparseLogisticRegression(alpha=lam, tol=1e-6).fit(np.asfortranarray(x), y)
            return np.append(np.ravel(peer.coef_), peer.intercept_)

        peers["skglm"] = skglm
    print(f"L1 regressions of every variable at λ = {lam}, CPU seconds of one thread, best of 2 runs")
    for name, answers in tables().items():
        x = answers.codes[answers.whole].astype(float)
        scale = x.std(axis=0)
        scaled = x / scale
        rest = [np.delete(scaled, j, axis=1) for j in range(answers.m)]

        def objective(j: int, beta: np.ndarray, rest: list[np.ndarray] = rest, x: np.ndarray = x) -> float:
            field = rest[j] @ beta[:-1] + beta[-1]
            return float(np.mean(np.logaddexp(0.0, field) - x[:, j] * field)) + lam * float(np.abs(beta[:-1]).sum())

        best: dict[str, float] = {}
        found: dict[str, list[np.ndarray]] = {}
        with use_threads(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                began = time.process_time()
                path = logistic_paths(
                    answers.distinct[0], answers.counts[None].astype(float), lambdas=np.array([lam]), tol=1e-6
                )
                best["fieldfit"] = min(best.get("fieldfit", np.inf), time.process_time() - began)
                for peer, fit in peers.items():
                    if len(x) > 5000 and peer != "skglm" and peer in best:
                        continue
                    began = time.process_time()
                    found[peer] = [fit(rest[j], x[:, j]) for j in range(answers.m)]
                    best[peer] = min(best.get(peer, np.inf), time.process_time() - began)
        couplings, intercepts = split(path.coefficients[0, :, -1])
        ours = [objective(j, np.append(np.delete(couplings[j] * scale, j), intercepts[j])) for j in range(answers.m)]
        excess = {
            peer: max(objective(j, beta) - ours[j] for j, beta in enumerate(betas)) for peer, betas in found.items()
        }
        shown = "; ".join(f"{peer} {best[peer]:.3f} s (excess {value:.0e})" for peer, value in excess.items())
        fastest = min(best[peer] for peer in peers)
        print(
            f"  {name}: fieldfit {best['fieldfit']:.3f} s; {shown}; ratio to the fastest {fastest / best['fieldfit']:.1f}"
        )


def recovery(side: int = 4, coupling: float = 0.6, trials: int = 15) -> None:
    """Spin glasses on a grid: the share of graphs that each estimator recovers without a mistake, and F1, against n."""
    model = ff.BoltzmannMachine.grid(side, side, biases=True, states=(-1, 1))
    truth = np.zeros((side**2, side**2), dtype=bool)
    truth[tuple(model.edge_array.T)] = True
    truth |= truth.T
    upper = np.triu_indices(side**2, 1)
    half = coupling / 2  # couplings below half of the true ones are set to 0

    def penalised(sample: networks.Responses) -> np.ndarray:
        # The pseudo-likelihood with λ of the same form, c = 0.2, and the same threshold.
        lam = 0.2 * np.sqrt(np.log(side**4 / 0.05) / sample.n)
        path = logistic_paths(
            sample.distinct[0], sample.counts[None].astype(float), lambdas=np.geomspace(max(0.5, 2 * lam), lam, 20)
        )
        directed = split(path.coefficients[0, :, -1])[0] / 4.0
        directed[np.abs(directed) < half] = 0.0
        return RULES["and"](directed)

    methods = {
        "pseudo-likelihood, EBIC": lambda sample: networks.nodewise_network(sample).couplings,
        "pseudo-likelihood, threshold": penalised,
        "RISE, threshold": lambda sample: networks.rise_network(sample, threshold=half).couplings,
        "logRISE, threshold": lambda sample: networks.log_rise_network(sample, threshold=half).couplings,
    }
    rows = []
    for n in (200, 400, 800, 1600, 3200):
        found: dict[str, list[tuple[bool, float]]] = {name: [] for name in methods}
        for trial in range(trials):
            random = np.random.default_rng(trial)
            signs = random.choice([-coupling, coupling], len(model.edge_array))
            theta = np.concatenate([signs, np.zeros(side**2)])
            sample = networks.read_responses(model.sample(theta, n, random_state=trial).values.astype(int))
            for name, estimate in methods.items():
                edges = estimate(sample)[upper] != 0
                right = int((edges & truth[upper]).sum())
                score = 2 * right / (int(edges.sum()) + int(truth[upper].sum()))
                found[name].append((np.array_equal(edges, truth[upper]), score))
        for name, results in found.items():
            exact, score = np.mean(np.array(results, dtype=float), axis=0)
            rows.append({"n": n, "method": name, "recovered": exact, "F1": score, "trials": trials})
    table = pd.DataFrame(rows)
    print(table.pivot(index="n", columns="method", values="recovered").round(2).to_string())
    print(table.pivot(index="n", columns="method", values="F1").round(3).to_string())
    folder = HERE.parent / "docs" / "figures"
    table.to_csv(folder / "network-recovery.csv", index=False)
    colours = ("#2b5c8a", "#7fa8cc", "#b3541e", "#6b8e23")
    with figure(8.2, 3.6) as drawing:
        for place, (measure, label) in enumerate(
            (("recovered", "share of graphs recovered"), ("F1", "mean F1 of edges"))
        ):
            axes = drawing.add_axes((0.08 + 0.5 * place, 0.15, 0.4, 0.68))
            for (method, part), colour, mark in zip(
                table.groupby("method", sort=False), colours, "osD^", strict=True
            ):
                axes.plot(
                    part["n"],
                    part[measure],
                    color=colour,
                    marker=mark,
                    markersize=4.5,
                    linewidth=1.4,
                    label=str(method),
                )
            axes.set_xscale("log")
            axes.set_xticks([200, 400, 800, 1600, 3200], ["200", "400", "800", "1,600", "3,200"])
            axes.minorticks_off()
            axes.set_xlabel("samples")
            axes.set_ylabel(label)
        handles, labels = axes.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="upper center", ncols=4, frameon=False, fontsize=8.5)
    save_figure(drawing, folder, "network-recovery", kinds=("png",))


def coverage(trials: int = 300) -> None:
    """The share of intervals of strength and expected influence, nominally 95%, that contain the true value."""
    random = np.random.default_rng(5)
    chain, some, all_pairs = np.zeros((8, 8)), np.zeros((10, 10)), np.zeros((8, 8))
    chain[np.arange(7), np.arange(1, 8)] = np.where(np.arange(7) % 2, -1.2, 1.2)
    chosen = np.transpose(np.triu_indices(10, 1))[random.permutation(45)[:18]]
    some[tuple(chosen.T)] = random.uniform(0.2, 1.5, 18) * random.choice([-1, 1], 18)
    all_pairs[np.triu_indices(8, 1)] = random.normal(0.0, 0.6, 28)
    print(f"{trials} samples; coverage: mean over the variables, and of single variables; bias and errors: means")
    print("network                              n  measure              coverage              bias  deviation  error")
    for name, couplings, n in (
        ("chain of 8, couplings 1.2", chain, 1500),
        ("10 variables, 18 of 0.2 to 1.5", some, 300),
        ("10 variables, 18 of 0.2 to 1.5", some, 1000),
        ("8 variables, all pairs, N(0, 0.36)", all_pairs, 1000),
    ):
        whole = couplings + couplings.T
        model = ff.BoltzmannMachine(len(whole), biases=True)
        theta = np.concatenate([whole[tuple(model.edge_array.T)], -whole.sum(axis=1) / 2])
        truths = {"strength": np.abs(whole).sum(axis=1), "expected_influence": whole.sum(axis=1)}
        found: dict[str, list[pd.DataFrame]] = {measure: [] for measure in truths}
        for trial in range(trials):
            sample = networks.read_responses(model.sample(theta, n, random_state=trial).values.astype(int))
            table = networks.centrality_intervals(sample, networks.nodewise_network(sample))
            for measure, truth in truths.items():
                part = table.filter(regex=f"^{measure}_")
                found[measure].append(part.set_axis(["estimate", "error", "lower", "upper"], axis=1).sub(
                    pd.DataFrame({"estimate": truth, "error": 0.0, "lower": truth, "upper": truth}, index=table.index)
                ))  # fmt: skip
        for measure, tables_ in found.items():
            drawn = np.stack([table.to_numpy() for table in tables_])
            inside = ((drawn[:, :, 2] <= 0) & (drawn[:, :, 3] >= 0)).mean(axis=0)
            print(
                f"{name:34} {n:5,}  {measure:18} {inside.mean():.3f} ({inside.min():.2f} to {inside.max():.2f}) "
                f"{drawn[:, :, 0].mean():9.3f} {drawn[:, :, 0].std(axis=0).mean():10.3f} {drawn[:, :, 1].mean():6.3f}"
            )


if __name__ == "__main__":
    RUNS = {"glmnet": against_glmnet, "solvers": against_solvers, "recovery": recovery, "coverage": coverage}
    for chosen in sys.argv[1:] or list(RUNS):
        RUNS[chosen]()
