"""The pictures of docs/graphs.md: a field of pepper plants with its prediction, and a texture with its fit.

    python benchmarks/lattice_pictures.py [folder]

The pepper field needs lattice/pepper.txt (see `ff.find_data`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import fieldfit as ff
from fieldfit.report.figures import figure


def pepper(folder: Path) -> None:
    """Field F2: disease, soil water, and the probability of disease of each plant given all others."""
    table = pd.read_csv(ff.find_data("lattice/pepper.txt"), sep="\t")
    field = table[table.field == "F2"].sort_values(["row", "quadrat"])
    covariates = field[["water", "leaf"]].fillna(field[["water", "leaf"]].median())
    covariates = (covariates - covariates.mean()) / covariates.std()
    model = ff.TiedField.grid(20, 20, covariates, covariate_names=["water", "leaf"], states=("N", "Y"))
    disease = field["disease"].to_numpy()
    fit = ff.fit(model, disease[None], "PL1")
    print(fit.summary())
    print("model-based", fit.standard_errors("model").round(3))
    given = np.array([p[1] for p in model.marginals(fit.theta)]).reshape(20, 20)
    panels = [
        ((disease == "Y").reshape(20, 20), "Greys", "diseased plants"),
        (field["water"].to_numpy().reshape(20, 20), "Blues", "water in the soil"),
        (given, "Reds", "p(diseased | covariates)"),
    ]
    with figure(9.0, 3.3) as drawing:
        for place, (image, colours, title) in enumerate(panels):
            axes = drawing.add_axes((0.01 + place * 0.34, 0.05, 0.26, 0.8))
            shown = axes.imshow(image, cmap=colours, interpolation="nearest")
            axes.set_title(title, fontsize=11)
            axes.set_xticks([])
            axes.set_yticks([])
            if place:
                drawing.colorbar(shown, cax=drawing.add_axes((0.275 + place * 0.34, 0.1, 0.01, 0.7)))
    drawing.savefig(folder / "pepper.png", dpi=130)


def texture(folder: Path) -> None:
    """A texture of a known field with cliques of three, a draw of the fitted field, and the intervals."""
    model = ff.TiedField.grid(64, 64, neighbours=8, states=(-1, 1), coupling="product", triples=True)
    truth = [-0.3, 0.4, 0.15, -0.2, 0.15, 0.1]
    image = model.sample(truth, 1, random_state=0, method="gibbs").values.reshape(64, 64)
    fit = ff.fit(model, image.reshape(1, -1), "PL1")
    print(fit.summary())
    drawn = model.sample(fit.theta, 1, random_state=1, method="gibbs").values.reshape(64, 64)
    table = fit.table()
    with figure(9.0, 3.1) as drawing:
        for place, (picture, title) in enumerate([(image, "texture"), (drawn, "draw of the fitted field")]):
            axes = drawing.add_axes((0.02 + place * 0.31, 0.04, 0.28, 0.82))
            axes.imshow(picture, cmap="Greys", interpolation="nearest")
            axes.set_title(title, fontsize=11)
            axes.set_xticks([])
            axes.set_yticks([])
        axes = drawing.add_axes((0.75, 0.17, 0.23, 0.69))
        lines = np.arange(len(table))[::-1]
        axes.axvline(0, color="0.7", linewidth=0.8)
        axes.errorbar(
            table.estimate, lines, xerr=1.96 * table.std_error, fmt="o", color="black", markersize=4, capsize=2
        )
        axes.plot(truth, lines, "|", color="#b2182b", markersize=13, markeredgewidth=2)
        axes.set_yticks(lines, table.index)
        axes.set_title("estimates; red: true values", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
    drawing.savefig(folder / "texture.png", dpi=130)


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures")
    pepper(where)
    texture(where)
