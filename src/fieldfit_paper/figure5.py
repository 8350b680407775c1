"""Figure 5: sentence sentiment by a CRF with σ² = 1/2, NLL against FLOPs for mixtures of PL1 with FL and with PL2."""

from __future__ import annotations

from pathlib import Path

from fieldfit.plots import Cloud, Drawable, PlainTable, TradeOffPanel, draw_surfaces, make_folder, save_figure
from fieldfit_paper.chain_figures import COST_AXES, NLL, numbered, scale_note
from fieldfit_paper.chain_folds import FLOPS
from fieldfit_paper.chain_sweeps import POLICIES
from fieldfit_paper.chain_tables import SweepTables, at_sigma2
from fieldfit_paper.reproduction import Reproduction
from fieldfit_paper.tables import columns_of, write_tables

SIGMA2 = 0.5


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it (against FLOPs and against seconds) and write its table."""
    tables = SweepTables(out, scale)
    by_policy = {higher: at_sigma2(tables.grid("sentiment", "crf", higher), SIGMA2) for higher in POLICIES}
    rows = []
    for higher, records in by_policy.items():
        best = min(records, key=lambda r: float(r["test_nll"]))
        values = (
            best["lam"],
            best["beta"],
            best["flops"],
            best["train_nll"],
            best["test_nll"],
            best["test_nll_error"],
        )
        rows.append((f"PL1/{higher}", *values))
    table = PlainTable(
        f"{numbered(5)}: sentiment CRF, σ² = 1/2, the policy of least test NLL",
        ("policy", "λ", "β", "FLOPs", "train NLL", "test NLL", "±"),
        tuple(rows),
        FLOPS["crf"],
        ("", "g", "g", ",.0f", ".3f", ".3f", ".3f"),
    )
    files: list[Path] = []
    caption = (
        f"{numbered(5)}. Complexity and negative log-likelihood (left: train, right: test) of the sentiment CRF "
        "with σ² = 1/2. "
        "Each point is a policy (λ, β); large marks and steps: no cheaper one is as good. The shaded region was not "
        "reached by any. "
        f"{scale_note(scale, 'sentiment')}"
    )
    if out is not None:
        folder = make_folder(out)
        for axis, suffix, unit_note in (("flops", "", FLOPS["crf"]), ("evaluation_seconds", "-seconds", "")):
            label, unit = COST_AXES[axis]
            panels: list[Drawable] = []
            for value, name in NLL.items():
                clouds = [
                    Cloud(f"PL1/{higher}", unit * columns_of(of_policy, axis), columns_of(of_policy, value))
                    for higher, of_policy in by_policy.items()
                ]
                panels.append(TradeOffPanel(name, clouds, label, f"{name} (nats per document)", frontier=True))
            drawing = draw_surfaces([panels], f"{caption} {unit_note}".strip(), width=4.8, height=3.6)
            files += save_figure(drawing, folder, f"figure-5{suffix}")
        joined = [{"policy": f"PL1/{higher}"} | r for higher, of_policy in by_policy.items() for r in of_policy]
        files += write_tables(folder, "figure-5", joined, caption)
    return Reproduction({"experiment": "figure-5", "scale": scale, "points": by_policy}, (table,), (), tuple(files))
