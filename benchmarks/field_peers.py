"""Peers for single questions: qgraph's centralities, huge's networks, coniii's couplings, contacts of pydca and adabmDCA.

    python benchmarks/field_peers.py [networks] [coniii] [pydca] [adabmdca]

The first needs R with qgraph and huge (Debian: r-cran-qgraph, r-cran-huge). The environment variables CONIII, PYDCA and
ADABMDCA have the paths of Python interpreters that have these packages. CPU seconds of one thread. The script says which
peers it skips.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fieldfit as ff
from fieldfit import networks, proteins
from fieldfit.data.locate import find_data
from fieldfit.networks.logistic_paths import logistic_paths
from fieldfit.networks.nodewise import split
from fieldfit.proteins.contacts import contact_precision
from fieldfit.threads import use_threads

HERE = Path(__file__).parent

_CONIII = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from coniii.solvers import Pseudo
x = np.loadtxt(sys.argv[1], dtype=int)
Pseudo(x, iprint=False).solve()  # compiles
began = time.process_time()
theta = Pseudo(x, iprint=False).solve()
print(json.dumps([time.process_time() - began, list(map(float, theta))]))
"""

_PYDCA = """
import json, sys, time
from pydca.plmdca.plmdca import PlmDCA
began = time.process_time()
peer = PlmDCA(sys.argv[1], "protein", seqid=0.8, max_iterations=int(sys.argv[2]), num_threads=1)
scores = peer.compute_sorted_FN_APC()
print(json.dumps([time.process_time() - began, [[int(i), int(j), float(s)] for (i, j), s in scores]]))
"""


def answer_of(variable: str, program: str, *arguments: str) -> tuple[float, list[Any]]:
    """Seconds and result of a peer's program, by the interpreter that an environment variable names."""
    done = subprocess.run(
        [os.environ[variable], "-W", "ignore", "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    seconds, result = json.loads(done.stdout.splitlines()[-1])
    return seconds, result


def against_networks() -> None:
    """Centralities of one network by qgraph and by us, and the edges of huge, which has no model for binary data."""
    if shutil.which("Rscript") is None:
        print("qgraph, huge: skipped, there is no Rscript")
        return
    answers = networks.read_responses(find_data("psych/adhd.csv"), leave_out=["group"])
    network = networks.nodewise_network(answers)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("weights.csv", "data.csv", "centralities.txt", "edges.txt")]
        np.savetxt(files[0], network.couplings, delimiter=",", fmt="%.17g")
        pd.DataFrame(answers.codes, columns=list(answers.names)).to_csv(files[1], index=False)
        told = subprocess.run(
            ["Rscript", str(HERE / "network_centrality.R"), *map(str, files)],
            check=True,
            capture_output=True,
            text=True,
        )
        theirs = np.loadtxt(files[2])
        edges = np.loadtxt(files[3], dtype=str) == "TRUE"
    first, second, qgraph, huge = told.stdout.split()
    networks.centrality(network)  # imports
    began = time.process_time()
    ours = networks.centrality(network).to_numpy(copy=True)
    seconds = time.process_time() - began
    # qgraph counts a path in both directions, and its closeness is 1 / sum of distances.
    ours[:, 2] *= 2
    ours[:, 3] /= network.m - 1
    apart = np.abs(ours - theirs).max(axis=0)
    print(
        f"Centralities of the survey's network, {network.m} variables, {len(network.pairs)} edges, against qgraph {qgraph}"
    )
    print(
        f"  largest difference: strength {apart[0]:.0e}, expected influence {apart[1]:.0e}, betweenness {apart[2]:.0e}, "
        f"closeness {apart[3]:.0e}; {1000 * seconds:.1f} ms, qgraph {1000 * float(first):.0f} ms"
    )
    upper = np.triu_indices(network.m, 1)
    both = int((edges & (network.couplings != 0))[upper].sum())
    began = time.process_time()
    networks.nodewise_network(answers)
    seconds = time.process_time() - began
    print(
        f"Edges of huge {huge}, linear regressions of the 0/1 columns (mb, AND rule, ric): {int(edges[upper].sum())} "
        f"edges, {both} of them among our {len(network.pairs)}; {float(second):.2f} s, ours {seconds:.2f} s"
    )


def against_coniii(n: int = 5000, sizes: tuple[int, ...] = (10, 20, 40)) -> None:
    """Couplings of spins by nodewise regressions without a penalty, each the mean of its two estimates."""
    if "CONIII" not in os.environ:
        print("coniii: skipped, CONIII is not set")
        return
    print(f"Ising fields by nodewise regressions without a penalty, n = {n:,}, against coniii's Pseudo")
    for m in sizes:
        random = np.random.default_rng(m)
        model = ff.BoltzmannMachine(m, biases=True, states=(-1, 1))
        theta = random.normal(scale=1 / np.sqrt(m), size=model.n_parameters) * 0.5
        spins = model.sample(theta, n, random_state=0).values.astype(int)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "spins.txt"
            np.savetxt(file, spins, fmt="%d")
            theirs, found = answer_of("CONIII", _CONIII, str(file))
        with use_threads(1):
            began = time.process_time()
            answers = networks.read_responses(spins)
            path = logistic_paths(
                answers.distinct[0],
                answers.counts[None].astype(float),
                lambdas=np.array([1e-3, 1e-10]),
                tol=1e-10,
            )
            ours = time.process_time() - began
            began = time.process_time()
            ff.fit(model, spins, "PL1", check_drift=False)
            joint = time.process_time() - began
        directed = split(path.coefficients[0, :, -1])[0] / 4.0  # of spins: x = (1 + s) / 2
        couplings = ((directed + directed.T) / 2.0)[np.triu_indices(m, 1)]
        apart = np.abs(couplings - np.array(found)[m:]).max()
        print(
            f"  m = {m}: coniii {theirs:.2f} s, fieldfit {ours:.3f} s: ratio {theirs / ours:.0f}; largest difference of a "
            f"coupling {apart:.0e}; PL1 of all variables together {joint:.3f} s"
        )


def our_contacts(name: str, penalty: proteins.Penalty | str) -> tuple[float, float, pd.DataFrame]:
    """Seconds, precision of the top L/2, and all scores."""
    with use_threads(1):
        began = time.process_time()
        family = proteins.read_alignment(find_data(f"msa/{name}.fasta"))
        scores = proteins.fit_family(family, penalty=penalty).scores()
        seconds = time.process_time() - began
    return seconds, precision_of(name, scores[["i", "j"]].to_numpy(), scores["score"].to_numpy()), scores


def precision_of(name: str, pairs: np.ndarray, scores: np.ndarray) -> float:
    """The share of contacts (8 Å) among the top L/2 pairs at least 6 columns apart."""
    length = int(pairs.max()) + 1
    distances = proteins.read_distances(find_data(f"msa/{name}.distances.csv"), length)
    return contact_precision(scores, pairs, distances, shares=(0.5,))[0.5]


def against_pydca(names: tuple[str, ...] = ("PF00018",)) -> None:
    """plmDCA with pydca's own penalty: scores and contacts."""
    if "PYDCA" not in os.environ:
        print("pydca: skipped, PYDCA is not set")
        return
    for name in names:
        theirs, found = answer_of("PYDCA", _PYDCA, str(find_data(f"msa/{name}.fasta")), "500")
        table = pd.DataFrame(found, columns=["i", "j", "theirs"])
        length = int(table["j"].max()) + 1
        # λ_h = λ_J = 0.2 (L − 1) is pydca's default.
        penalty = proteins.Penalty(fields=0.2 * (length - 1), for_each_column=0.2)
        ours, precision, scores = our_contacts(name, penalty)
        both = scores.merge(table, on=["i", "j"])
        order = float(np.corrcoef(both["score"], both["theirs"])[0, 1])
        peer = precision_of(name, table[["i", "j"]].to_numpy(), table["theirs"].to_numpy())
        print(f"{name} with the penalty of pydca's plmDCA, scores of {len(both):,} pairs")
        print(
            f"  pydca {theirs:.1f} s, top L/2 {peer:.2f}; fieldfit {ours:.1f} s, top L/2 {precision:.2f}: "
            f"ratio {theirs / ours:.1f}; correlation of the scores {order:.4f}"
        )


def _since(before: os.times_result) -> float:
    """CPU seconds of ended subprocesses since then."""
    now = os.times()
    return now.children_user + now.children_system - before.children_user - before.children_system


def _reached(log: Path) -> tuple[int, float]:
    """Gradient steps that adabmDCA has logged, and the correlation of pair frequencies after the last one."""
    rows = [line.split() for line in log.read_text().splitlines()]
    (start,) = (place for place, row in enumerate(rows) if "Pearson" in row)
    last = [row for row in rows[start + 1 :] if row and row[0].isdigit()][-1]
    return int(last[0]), float(last[rows[start].index("Pearson")])


def against_adabmdca(name: str = "PF00018", chains: int = 500, limit: int = 120) -> None:
    """Boltzmann learning by adabmDCA: to its default correlation of 0.95 of pair frequencies, or ``limit`` CPU seconds."""
    if "ADABMDCA" not in os.environ:
        print("adabmDCA: skipped, ADABMDCA is not set")
        return
    program = str(Path(os.environ["ADABMDCA"]).parent / "adabmDCA")
    one = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        train = [program, "train", "-d", str(find_data(f"msa/{name}.fasta")), "-o", folder, "--alphabet", "protein"]
        before = os.times()
        ended = subprocess.run(
            [*train, "--device", "cpu", "--nchains", str(chains), "--no-progress", "--checkpoint-interval", "20"],
            check=False, capture_output=True, env=one,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        )  # fmt: skip
        if ended.returncode not in (0, -signal.SIGXCPU, -signal.SIGKILL):
            raise SystemExit(f"adabmDCA: {ended.stderr.decode()[-500:]}")
        seconds = _since(before)
        steps, correlation = _reached(Path(folder) / "adabmDCA.log")
        (parameters,) = Path(folder).glob("*params*")
        subprocess.run(
            [program, "contacts", "-o", folder, "-p", str(parameters), "--alphabet", "protein", "--device", "cpu"],
            check=True, capture_output=True, env=one,
        )  # fmt: skip
        table = np.loadtxt(Path(folder) / "contact_map.csv", delimiter=",", skiprows=1)
    pairs, scores = table[:, :2].astype(int), table[:, 2]
    kept = pairs[:, 0] < pairs[:, 1]
    ours, precision, _ = our_contacts(name, "evcouplings")
    print(
        f"{name} by Boltzmann learning (adabmDCA, {chains:,} chains, {steps} steps, correlation {correlation:.3f} of its "
        "target of 0.95) and by pseudo-likelihood"
    )
    print(
        f"  adabmDCA {seconds:.0f} s, top L/2 {precision_of(name, pairs[kept], scores[kept]):.2f}; fieldfit {ours:.1f} s, "
        f"top L/2 {precision:.2f}: ratio {seconds / ours:.0f}"
    )


if __name__ == "__main__":
    RUNS = {
        "networks": against_networks,
        "coniii": against_coniii,
        "pydca": against_pydca,
        "adabmdca": against_adabmdca,
    }
    for chosen in sys.argv[1:] or list(RUNS):
        RUNS[chosen]()
