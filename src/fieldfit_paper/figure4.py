"""Figure 4: sentence sentiment by a CRF, train and test NLL over (λ, β) for σ² = 1 and 10, PL1/FL and PL1/PL2."""

from __future__ import annotations

from pathlib import Path

from fieldfit.plots import Drawable, draw_surfaces, make_folder, save_figure
from fieldfit_paper.chain_figures import contour_rows, grid_table, numbered, scale_note
from fieldfit_paper.chain_sweeps import POLICIES
from fieldfit_paper.chain_tables import SweepTables
from fieldfit_paper.reproduction import Reproduction
from fieldfit_paper.tables import write_tables

SIGMA2 = (1.0, 10.0)


def reproduce(out: Path | None, scale: str = "small") -> Reproduction:
    """Compute the figure; with ``out``, draw it and write its table."""
    by_policy = {}
    for higher in POLICIES:
        rows = SweepTables(out, scale).grid("sentiment", "crf", higher)
        by_policy[higher] = [row for row in rows if row["sigma2"] in SIGMA2]
    note = (
        f"NLL in nats per document. {scale_note(scale, 'sentiment')} The paper's reviews are not public: this is the "
        "fine-grained set of product reviews, so only the shape can be compared."
    )
    table = grid_table(f"{numbered(4)}: sentiment CRF, best cells of the grid", by_policy, note)
    caption = (
        f"{numbered(4)}. Train (left) and test (right) negative log-likelihood for the sentiment CRF. Rows 1 and 2: "
        "σ² = 1; rows "
        f"3 and 4: σ² = 10. Rows 1 and 3: PL1/FL; rows 2 and 4: PL1/PL2. The cross is the least value. {note}"
    )
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        drawn: list[list[Drawable]] = []
        for sigma2 in SIGMA2:
            for higher, of_policy in by_policy.items():
                train, test = contour_rows(of_policy, higher, [sigma2])
                drawn.append([train[0], test[0]])
        files = save_figure(draw_surfaces(drawn, caption, width=4.2, height=2.6), folder, "figure-4")
        joined = [{"policy": f"PL1/{h}"} | r for h, of_policy in by_policy.items() for r in of_policy]
        files += write_tables(folder, "figure-4", joined, caption)
    document = {"experiment": "figure-4", "scale": scale, "grids": by_policy}
    return Reproduction(document, (table,), (note,), tuple(files))
