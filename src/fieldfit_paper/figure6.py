"""Figure 6: how often each label occurs in CoNLL-2000."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldfit.plots import BarPanel, PlainTable, draw_surfaces, make_folder, save_figure
from fieldfit_paper.chain_data import chain_data
from fieldfit_paper.chain_figures import numbered
from fieldfit_paper.tables import Reproduction, write_tables


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it. It has the same size at every scale."""
    data = chain_data("conll2000")
    first_test = int(data.features.offsets[data.n_train])
    codes = data.features.labels
    K = len(data.labels)
    counts = [np.bincount(part, minlength=K) for part in (codes[:first_test], codes[first_test:])]
    total = counts[0] + counts[1]
    order = np.argsort(-total, kind="stable").tolist()
    records = [
        {"label": data.labels[k], "train": int(counts[0][k]), "test": int(counts[1][k]), "all": int(total[k])}
        for k in order
    ]
    caption = f"{numbered(6)}. Label counts in the CoNLL-2000 data ({int(total.sum()):,} tokens, train and test)."
    rows = tuple((r["label"], r["train"], r["test"], r["all"]) for r in records)
    table = PlainTable(f"{numbered(6)}: label counts in CoNLL-2000", ("label", "train", "test", "all"), rows)
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        names = [str(r["label"]) for r in records]
        panel = BarPanel("Label counts, CoNLL-2000", names, total[order].astype(np.float64), "tokens")
        files = save_figure(draw_surfaces([[panel]], caption, width=6.0, height=4.6), folder, "figure-6")
        files += write_tables(folder, "figure-6", records, caption)
    document = {"experiment": "figure-6", "counts": records, "tokens": int(total.sum())}
    return Reproduction(document, (table,), (caption,), tuple(files))
