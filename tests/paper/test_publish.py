"""The command that writes the page of the documentation."""

import html

from fieldfit_paper import claims, experiments, publish
from fieldfit_paper.chain_tables import SweepTables
from fieldfit_paper.claim_page import HOW
from fieldfit_paper.claim_rows import Finding, Row, Section
from fieldfit_paper.tables import Reproduction

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000040001f61738550000"
    "000049454e44ae426082"
)


def draw(out, scale):
    files = [out / f"figure-1.{kind}" for kind in ("png", "svg", "csv", "json")]
    out.mkdir(parents=True, exist_ok=True)
    for path in files:
        path.write_bytes(PIXEL)
    return Reproduction({}, (), (), tuple(files))


def never(out, scale):
    raise AssertionError("not on the page")


def test_publish_draws_the_pictures_and_writes_the_page_beside_them(tmp_path, monkeypatch):
    chosen = {"figure-1": draw, "refined-frontier": never, "report": never}
    monkeypatch.setattr(publish, "EXPERIMENTS", chosen)
    monkeypatch.setattr(experiments, "EXPERIMENTS", chosen)
    row = Row("Figure 1", "A claim.", Finding.of("1", False), "A reason.")
    section = Section("One", "one thing", (row,), (("figure-1", "Figure 1: a picture"),))
    asked = []

    def sections(tables: SweepTables):
        asked.append((tables.out, tables.scale))
        return [section]

    monkeypatch.setattr(claims, "sections", sections)
    assert publish.main([str(tmp_path)]) == 0
    assert asked == [(tmp_path / "figures", "paper")]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["figure-1.csv", "figure-1.png"]
    text = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert "![Figure 1: a picture](figures/figure-1.png)" in text
    page = (tmp_path / "reproduction.html").read_text(encoding="utf-8")
    assert [text for text in HOW if html.escape(text.replace("`", "")) not in page] == []
    assert 'alt="Figure 1: a picture"' in page

    monkeypatch.setattr(publish, "draw_figures", never)
    assert publish.main([str(tmp_path), "--page-only"]) == 0
