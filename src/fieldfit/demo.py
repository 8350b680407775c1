"""The demonstration: scikit-learn's 8×8 digits as a binary field on the 8-neighbour grid.

    python -m fieldfit.demo --out demo-output

Four parts. A plan: the best policy for a budget, before anything is fitted; it is one with a second stage. All digits on
the grid with a coupling for each edge: fits by the recommended policy and by others, the held-out likelihood, and
couplings with standard errors.
The same grid with one coupling for each direction: what each policy costs and how accurate theory says that it is. One
field for each digit: samples from it.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import fieldfit as ff
from fieldfit.planner.result import Plan
from fieldfit.report.figures import make_folder, save_figure
from fieldfit.report.grids import draw_couplings, draw_images
from fieldfit.report.page import Page
from fieldfit.report.scatter import ScatterPoint, draw_cost_variance
from fieldfit.report.table import PlainTable, aligned_text
from fieldfit.types import Array, FieldfitError, FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 8
INK_FROM = 8  # of 16 grey levels
#: Some border pixels are never inked, so that without a penalty their parameters would have no finite estimate.
SIGMA2 = 5.0
TRAIN = 1200
FREE_POLICIES = ("PL1", "Partition(2)", "PL1 >> FL", "FL")
TIED_POLICIES = ("FL", "PL1", "PL2(connected)", "0.5*PL1", "PL1 + 0.2*PL2(connected)", "0.25*PL2(connected)")
DRAWS = 2000
#: For the pilot of the plan and the fit that it recommends.
BUDGET = "20s"
#: Couplings are listed where each of the four joint states of the two pixels occurs in this many images: the others are
#: determined by the penalty more than by the data, and appear more significant than they are.
SEEN = 20


def digits() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Binary images (1797, 64) and which digit each shows."""
    from sklearn.datasets import load_digits

    grey, label = load_digits(return_X_y=True)
    return (np.asarray(grey) >= INK_FROM).astype(np.int64), np.asarray(label)


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration and write its pictures and page."""
    parser = argparse.ArgumentParser(prog="fieldfit.demo", description="Fit the 8×8 digits as a field.")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for the pictures and the page")
    out = parser.parse_args(arguments).out
    # An evaluation takes about a millisecond: waiting for a second thread would cost more than it saves.
    ff.set_threads(1)
    try:
        run(out)
    except FieldfitError as error:
        print(f"fieldfit: {error}", file=sys.stderr)
        return 2
    finally:
        ff.set_threads(None)
    return 0


def run(out: Path) -> None:
    """All four parts, printed as they are done."""
    began = time.perf_counter()
    folder = make_folder(out)
    images, label = digits()
    page = Page("fieldfit: handwritten digits as a Markov random field")
    page.paragraph(
        f"{len(images):,} images of 8×8 pixels (scikit-learn's digits), a pixel is 1 from grey level {INK_FROM} of 16 "
        f"on. Every pixel is coupled with its up to eight neighbours. Penalty: σ² = {SIGMA2:g}."
    )
    plan = _plan(images, folder, page)
    _free_grid(images, plan, folder, page)
    _tied_grid(images, folder, page)
    _each_digit(images, label, folder, page)
    page.paragraph("report.html is the interactive page of the recommended fit.")
    page.write(folder / "index.html")
    print(f"\nDone in {time.perf_counter() - began:.0f} s. Open these pages in a browser:")
    print(f"  {folder}/report.html  the recommended fit and its plan, interactive")
    print(f"  {folder}/index.html   everything that was printed here, with pictures")


def _show(table: PlainTable, page: Page) -> None:
    note = textwrap.fill(table.note, 80)
    print("\n" + aligned_text(replace(table, note=note)), flush=True)
    page.table(table)


def _picture(drawing: Figure, folder: Path, name: str, caption: str, page: Page) -> None:
    (path,) = save_figure(drawing, folder, name, kinds=("png",))
    page.picture(path.read_bytes(), caption)


# --- the plan -----------------------------------------------------------------------------------------------------


def _split(images: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Images to fit and images held out."""
    order = np.random.default_rng(0).permutation(len(images))
    return images[order[:TRAIN]], images[order[TRAIN:]]


def _plan(images: NDArray[np.int64], folder: Path, page: Page) -> Plan:
    """The plan for the grid with a coupling for each edge."""
    model = ff.BoltzmannMachine.grid(SIDE, SIDE, neighbours=8, biases=True)
    plan = ff.plan(model, _split(images)[0], BUDGET, sigma2=SIGMA2)
    page.heading(f"A plan for a budget of {BUDGET}")
    _show(plan.plain_table(12), page)
    print(flush=True)
    for line in plan.explain().split("\n"):
        print(textwrap.fill(line, 80), flush=True)
        page.paragraph(line)
    caption = (
        "Cost against variance, predicted from a pilot. No policy reaches the shaded region; diamond: recommended."
    )
    _picture(plan.plot(), folder, "plan", caption, page)
    return plan


# --- a coupling for each edge --------------------------------------------------------------------------------------


def _free_grid(images: NDArray[np.int64], plan: Plan, folder: Path, page: Page) -> None:
    recommended = plan.best
    model = ff.BoltzmannMachine.grid(SIDE, SIDE, neighbours=8, biases=True)
    train, test = _split(images)
    policies = dict.fromkeys((recommended, *FREE_POLICIES))
    fits = {policy: ff.fit(model, train, policy, sigma2=SIGMA2) for policy in policies}
    errors = {policy: fit.standard_errors() for policy, fit in fits.items()}
    rows = []
    for policy, fit in fits.items():
        assert fit.cost is not None
        held_out = -float(np.mean(model.conditional(fit.theta, test, range(model.m))))
        ratio = float(np.nanmedian((errors[policy] / errors["FL"]) ** 2))
        shown = ("→ " if policy == recommended else "  ") + policy
        rows.append((shown, fit.cost.components, fit.cost.flops, fit.seconds, held_out, ratio))
    page.heading("A coupling for each edge")
    _show(
        PlainTable(
            f"All digits, {model.n_parameters} parameters, {len(train)} images to fit, {len(test)} held out",
            ("policy", "components", "FLOPs", "seconds", "held-out NLL", "variance"),
            tuple(rows),
            "→ recommended. FLOPs: the paper's count (of the second stage, where there is one), in which FL visits all "
            "2^64 states; elimination does not. NLL: exact, for each image. Variance: estimated (sandwich), relative to "
            "FL, median over the parameters that have a robust standard error.",
            ("", ",d", ".3g", ".2f", ".2f", ".2f"),
        ),
        page,
    )
    fit, error = fits[recommended], errors[recommended]
    couplings = len(model.edges)
    theta, error = fit.theta[:couplings], error[:couplings]
    seen = np.array([_least_seen(train[:, j], train[:, k]) >= SEEN for j, k in model.edges])
    z = np.where(seen, theta / np.where(error > 0, error, 1.0), 0.0)
    largest = np.argsort(-np.abs(z))[:10]
    _show(
        PlainTable(
            f"The ten couplings with the largest abs(z) ({recommended})",
            ("pixels", "coupling", "std. error", "z"),
            tuple((fit.parameter_names[p], float(theta[p]), float(error[p]), float(z[p])) for p in largest),
            f"Of {int(seen.sum())} couplings whose pixels show each of their four joint states in {SEEN} images or more.",
            ("", "+.3f", ".3f", "+.1f"),
        ),
        page,
    )
    drawing = draw_couplings(
        (SIDE, SIDE),
        [edge for edge, shown in zip(model.edges, seen, strict=True) if shown],
        theta[seen],
        z[seen],
        images.mean(axis=0).reshape(SIDE, SIDE),
        f"Couplings of neighbouring pixels ({recommended})",
    )
    caption = "A red line joins pixels that tend to be inked together, a blue line pixels that do not. Width: |z|. "
    _picture(drawing, folder, "couplings", caption + "Shade: how often a pixel is inked.", page)
    fit.to_html(folder / "report.html", plan=plan)


def _least_seen(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """How often the rarest of the four joint states of two pixels occurs."""
    return int(np.bincount(2 * first + second, minlength=4).min())


# --- a coupling for each direction ---------------------------------------------------------------------------------


def _tied_grid(images: NDArray[np.int64], folder: Path, page: Page) -> None:
    model = ff.BoltzmannMachine.grid(SIDE, SIDE, neighbours=8, biases=True, tied=True)
    theta = ff.fit(model, images, "FL", sigma2=SIGMA2).theta
    rows, points = [], []
    for policy in TIED_POLICIES:
        # Only the cost counts here: a tied field is wrong for digits, and by PL1 its means differ from theirs.
        fit = ff.fit(model, images, policy, sigma2=SIGMA2, start=theta, check_drift=False)
        assert fit.cost is not None
        milliseconds = 1000 * _evaluation_seconds(fit)
        theory = ff.theory(model, theta, policy, n_simulated=DRAWS)
        error = (theory.monte_carlo_error or {}).get("root", 0.0)
        exact = policy == "FL"  # the MLE relative to itself
        variance, error = (1.0, 0.0) if exact else (theory.efficiency("root"), error)
        rows.append((policy, fit.cost.components / fit.n, fit.cost.flops / fit.n, milliseconds, variance, error))
        points.append(ScatterPoint(policy, milliseconds, variance, error))
    page.heading("Cost and accuracy of policies")
    _show(
        PlainTable(
            f"One coupling for each direction, {model.n_parameters} parameters: theory at the MLE",
            ("policy", "components", "FLOPs", "ms", "variance", "±"),
            tuple(rows),
            f"Components and FLOPs for each image; ms: one value and gradient over {len(images):,} images, one thread. "
            f"Variance relative to the MLE for each parameter, det^(1/r), from {DRAWS:,} simulated images; ±: its "
            f"Monte Carlo standard error.",
            ("", ".4g", ".3g", ".2f", ".3f", ".3f"),
        ),
        page,
    )
    drawing = draw_cost_variance(
        points, "one value and gradient, one thread (milliseconds)", "variance relative to the MLE, det^(1/r)"
    )
    _picture(
        drawing, folder, "cost-variance", "Cost against variance. The line joins the policies on the frontier.", page
    )


def _evaluation_seconds(fit: ff.Fit) -> float:
    """The best of several evaluations: a loaded machine only ever adds time."""
    objective = fit.objective_function
    assert objective is not None
    best = np.inf
    for _ in range(20):
        began = time.perf_counter()
        objective.value_grad(fit.theta)
        best = min(best, time.perf_counter() - began)
    return float(best)


# --- a field for each digit ----------------------------------------------------------------------------------------


def _each_digit(images: NDArray[np.int64], label: NDArray[np.int64], folder: Path, page: Page) -> None:
    model = ff.BoltzmannMachine.grid(SIDE, SIDE, neighbours=8, biases=True)
    real, drawn, methods = [], [], set()
    began = time.perf_counter()
    for digit in range(10):
        of_digit = images[label == digit]
        fit = ff.fit(model, of_digit, "PL1", sigma2=SIGMA2, check_drift=False)  # the picture shows its samples
        draws = model.sample(fit.theta, 4, random_state=digit)
        methods.add(draws.note)
        real.append(of_digit[:4])
        drawn.append(draws.values)
    seconds = time.perf_counter() - began
    text = f"Ten fields, one for each digit, fitted by PL1 and sampled in {seconds:.1f} s: {', '.join(methods)}."
    print("\n" + textwrap.fill(text, 80))
    page.heading("Samples")
    page.paragraph(text)
    drawing = draw_images([("data", _tiles(real)), ("samples", _tiles(drawn))], [str(d) for d in range(10)])
    _picture(drawing, folder, "samples", "Top: images of the data. Bottom: draws from the fitted fields.", page)


def _tiles(by_digit: list[Array]) -> FloatArray:
    """(digit, image, pixel) as (image, digit, row, column)."""
    stacked = np.asarray(by_digit, dtype=float).transpose(1, 0, 2)
    return stacked.reshape(*stacked.shape[:2], SIDE, SIDE)


if __name__ == "__main__":
    sys.exit(main())
