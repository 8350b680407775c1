"""The report: the paper's claims against the sweeps' tables, as a Markdown and an HTML page.

`fieldfit reproduce report --out DIR`, or with the page in another folder than its pictures

    python -m fieldfit_paper.claims --scale paper --out docs/figures --page docs/reproduction.md
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fieldfit.plots import Page, PlainTable, make_folder, write_file
from fieldfit.sweep import open_sweep, versions
from fieldfit.types import DataError
from fieldfit_paper.chain_claims import chunking_claims, heuristic_claims, regulariser_claims, sentiment_claims
from fieldfit_paper.chain_figures import scale_note
from fieldfit_paper.chain_folds import FLOPS
from fieldfit_paper.chain_sweeps import SCALES, SEED
from fieldfit_paper.claim_rows import CLOSE, Row, SweepTables
from fieldfit_paper.reproduction import Reproduction
from fieldfit_paper.tables import now
from fieldfit_paper.theory_claims import data_claims, theory_claims

HOW = """## How it was computed

- A cell fits PL1 (always selected, weight 1 − β) with FL or PL2 (selected with probability λ, weight β) on one fold, to
  convergence, by truncated Newton steps. Sentences of the training part are drawn without replacement; the test set is
  the test part. Folds redraw the sentences and Z. Results are stored in SQLite, so an interrupted run can continue.
- Only parameters that a fold determines are fitted. This does not change the result: CRF weights of features that do not
  occur in training stay 0, and the weights of symbols that do not occur in training share one value for each label,
  penalised once for each symbol.
- The CRF has weights for all feature/label pairs of the train and test text, all label transitions and the start.
- σ² of the CoNLL-2000 figures refers to the *mean* log-likelihood of a training sentence. The paper prints it for the
  whole sample. We compared both readings on one fold and chose the mean, because test NLLs and the best σ² of FL are then
  closer to the paper's. Their agreement is therefore not independent tables. For the sentiment figures σ² is as printed.
- Algorithm 1 uses the diagonal form of J over all parameters (including symbols that do not occur in training), without a
  ridge. "Best β" is the β of the grid with the smallest train NLL.
- {crf}
- Boltzmann chain: {chain}
- Measured seconds are CPU time for one value and gradient on one thread, the minimum over all cells of a fold that select
  the same windows. Our kernels share work that the FLOPs count separately for each component (windows with the same
  neighbours have one log Z), so the two axes differ.
"""


def all_claims(tables: SweepTables) -> list[Row]:
    """Every row; claims about data that are not on this machine have one row that says so."""
    rows = list(theory_claims(tables.scale))
    parts: tuple[tuple[str, Callable[[], Iterator[Row]]], ...] = (
        ("CoNLL-2000", data_claims),
        ("the sentiment set", lambda: sentiment_claims(tables)),
        ("CoNLL-2000", lambda: chunking_claims(tables)),
        ("CoNLL-2000", lambda: heuristic_claims(tables)),
        ("CoNLL-2000", lambda: regulariser_claims(tables)),
    )
    for name, claims in parts:
        try:
            rows += list(claims())
        except DataError as error:
            rows.append(Row("", f"Claims about {name}", "not measured", None, str(error)))
    return rows


def markdown(rows: list[Row], scale: str, made: str, pictures: Sequence[str] = ()) -> str:
    """The report as a Markdown page, with ``pictures`` (paths relative to it) at its end."""

    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    counts = {word: sum(r.verdict == word for r in rows) for word in ("agrees", "differs", "cannot tell")}
    lines = [
        "# The paper's claims and our results",
        "",
        f"Written by `fieldfit reproduce report --scale {scale}`; all numbers are computed. {made}",
        "",
        scale_note(scale) + " " + scale_note(scale, "sentiment"),
        "",
        f"Of {len(rows)} claims {counts['agrees']} agree, {counts['differs']} differ"
        + (f"; for {counts['cannot tell']} the data cannot tell." if counts["cannot tell"] else "."),
        "",
        "| where | the paper | measured | verdict | why |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {cell(r.where)} | {cell(r.claim)} | {cell(r.measured)} | {r.verdict} | {cell(r.why)} |" for r in rows
    ]
    lines += [
        "",
        f"NLL in nats for each sentence (document). ± is a standard error over folds. A number counts as reproduced within "
        f"{CLOSE:.0%}. σ² belongs to the mean log-likelihood of a training sentence for CoNLL-2000, and to the sum for "
        "the sentiment set.",
        "",
        HOW.format(crf=FLOPS["crf"].replace("FLOPs", "FLOPs of a CRF", 1), chain=FLOPS["boltzmann-chain"]),
    ]
    if pictures:
        lines += ["## Pictures", ""]
        lines += [f"![{Path(picture).stem}]({picture})\n" for picture in pictures]
    return "\n".join(lines)


def reproduce(out: Path | None, scale: str = "small", page_path: Path | None = None) -> Reproduction:
    """Compare every claim; with ``out``, write reproduction.md and .html there, or as ``page_path`` says."""
    rows = all_claims(SweepTables(out, scale))
    made = f"Made {now()[:10]}, seed {SEED}, {', '.join(f'{k} {v}' for k, v in versions().items())}."
    if out is not None:
        made += cells_of(Path(out), scale)
    columns = ("where", "the paper", "measured", "verdict", "why")
    texts = tuple((r.where, r.claim, r.measured, r.verdict, r.why) for r in rows)
    table = PlainTable(f"Claims of the paper, scale {scale!r}", columns, texts, scale_note(scale))
    files: list[Path] = []
    if out is not None:
        folder = make_folder(out)
        target = folder / "reproduction.md" if page_path is None else page_path
        pictures = [*sorted(folder.glob("figure-*.png"), key=_in_order), *folder.glob("selection-noise.png")]
        page = Page("fieldfit: the paper's claims and our results")
        page.paragraph(made)
        page.table(table)
        for picture in pictures:
            page.picture(picture.read_bytes(), picture.stem)
        page.write(target.with_suffix(".html"))
        links = [Path(os.path.relpath(picture, target.parent)).as_posix() for picture in pictures]
        write_file(target, markdown(rows, scale, made, links).encode())
        files = [target, target.with_suffix(".html")]
    listed = [
        {"where": r.where, "claim": r.claim, "measured": r.measured, "verdict": r.verdict, "why": r.why} for r in rows
    ]
    return Reproduction({"experiment": "report", "scale": scale, "claims": listed}, (table,), (), tuple(files))


def cells_of(out: Path, scale: str) -> str:
    """How many cells the stores of a scale hold, and from when to when they were computed; "" if there are none."""
    finished: list[str] = []
    for path in sorted((out / "sweeps").glob(f"*-{scale}.sweep")):
        finished += [str(when) for when in open_sweep(path).frame()["cell_finished"]]
    if not finished:
        return ""
    return f" {len(finished):,} fits, the first done at {min(finished)}, the last at {max(finished)}."


def _in_order(picture: Path) -> tuple[int, str]:
    return int(picture.stem.split("-")[1]), picture.stem


def main(arguments: list[str] | None = None) -> int:
    """The command of the module's text."""
    import argparse

    parser = argparse.ArgumentParser(prog="fieldfit_paper.claims", description="The paper's claims, measured.")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures and of the sweeps")
    parser.add_argument("--page", type=Path, default=None, help="the page to write (reproduction.md in the folder)")
    chosen = parser.parse_args(arguments)
    for path in reproduce(chosen.out, chosen.scale, chosen.page).files:
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
