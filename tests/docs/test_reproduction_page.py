"""The reproduction as Markdown and as one HTML file say the same."""

import html
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 3_000_000  # bytes of the HTML file, pictures included


def test_both_pages_have_the_same_rows_and_pictures():
    lines = (DOCS / "reproduction.md").read_text(encoding="utf-8").splitlines()
    page = (DOCS / "reproduction.html").read_text(encoding="utf-8")
    rows = [line for line in lines if line.startswith("| ")]
    cells = [cell.strip().replace("\\|", "|") for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    texts = [html.escape(part) for cell in cells for part in cell.split("<br>")]
    assert len(texts) > 200
    assert [text for text in texts if text not in page] == []
    pictures = [line[2:].split("](")[0] for line in lines if line.startswith("![")]
    assert len(pictures) > 20
    assert [text for text in pictures if f'alt="{html.escape(text)}"' not in page] == []
    assert page.count("<img ") == len(pictures)


def test_the_page_and_its_pictures_are_small_and_there():
    assert (DOCS / "reproduction.html").stat().st_size < LARGEST
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    names = [line.split("](")[1].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert [name for name in names if not (DOCS / name).is_file()] == []
