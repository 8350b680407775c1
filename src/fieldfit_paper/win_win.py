"""Where a policy has the better test NLL than its higher-order family alone, with intervals over folds (Section 8.4)."""

from __future__ import annotations

import numpy as np

from fieldfit.types import Plain

LEVEL = 0.95


def differences(records: list[Plain]) -> list[Plain]:
    """Test NLL minus that of the higher-order family alone, paired by fold, with t intervals."""
    from scipy.stats import t

    rows = []
    for sigma2 in sorted({record["sigma2"] for record in records}):
        at_sigma2 = [record for record in records if record["sigma2"] == sigma2]
        top = {r["fold"]: r for r in at_sigma2 if r["lam"] == 1.0 and r["beta"] == 1.0}
        for lam, beta in sorted({(r["lam"], r["beta"]) for r in at_sigma2}):
            cells = [r for r in at_sigma2 if (r["lam"], r["beta"]) == (lam, beta)]
            away = np.array([r["test_nll"] - top[r["fold"]]["test_nll"] for r in cells])
            cost = float(np.mean([r["flops"] / top[r["fold"]]["flops"] for r in cells]))
            half = float("nan")
            if len(away) > 1:
                half = float(t.ppf((1 + LEVEL) / 2, len(away) - 1) * away.std(ddof=1) / np.sqrt(len(away)))
            win = cost < 1.0 and float(away.mean()) + half < 0
            rows.append(
                {
                    "sigma2": sigma2, "lam": lam, "beta": beta, "relative_flops": cost,
                    "difference": float(away.mean()), "half_interval": half, "win_win": bool(win), "folds": len(away),
                }
            )  # fmt: skip
    return rows


def differences_of_means(rows: list[Plain]) -> list[Plain]:
    """The same from means over folds, without intervals: where single folds were not kept."""
    top = {row["sigma2"]: row for row in rows if row["lam"] == 1.0 and row["beta"] == 1.0}
    return [
        {
            "sigma2": row["sigma2"], "lam": row["lam"], "beta": row["beta"],
            "relative_flops": row["flops"] / top[row["sigma2"]]["flops"],
            "difference": row["test_nll"] - top[row["sigma2"]]["test_nll"],
            "half_interval": float("nan"), "win_win": False, "folds": row["folds"],
        }
        for row in rows
    ]  # fmt: skip
