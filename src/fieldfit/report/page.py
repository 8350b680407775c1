"""A self-contained HTML page: headings, paragraphs, tables and pictures, with nothing to load from elsewhere."""

from __future__ import annotations

import base64
import html
import os
from dataclasses import dataclass, field

from fieldfit.data.atomic import atomic_writer
from fieldfit.report.table import PlainTable

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1b1b1b;max-width:54rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}img{max-width:100%;height:auto}
figure{margin:1rem 0}figcaption,.note{color:#555;font-size:.9rem}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;margin:1rem 0}caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #ddd}.number{text-align:right}
"""


@dataclass
class Page:
    """A page to which parts are added from top to bottom."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A section's heading."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """A paragraph of plain text."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, table: PlainTable) -> None:
        """A table, which scrolls by itself where the screen is narrow."""
        self.parts.append(f'<div class="wide">{table.to_html()}</div>')

    def picture(self, png: bytes, caption: str) -> None:
        """A picture inside the page; the caption is its alternative text too."""
        data = base64.b64encode(png).decode("ascii")
        text = html.escape(caption, quote=True)
        self.parts.append(
            f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page."""
        title = html.escape(self.title)
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        text = f'<!doctype html>\n<html lang="en"><head>{head}<title>{title}</title><style>{_STYLE}</style></head>\n'
        text += f"<body><h1>{title}</h1>\n" + "\n".join(self.parts) + "\n</body></html>\n"
        with atomic_writer(path) as file:
            file.write(text.encode())
