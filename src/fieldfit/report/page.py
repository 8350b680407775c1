"""A self-contained HTML page: headings, paragraphs, tables and pictures, with nothing to load from elsewhere."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

from fieldfit.data.atomic import atomic_writer
from fieldfit.report.table import PlainTable

#: Headings from which on a page has a list of them at its top.
_LISTED = 3
#: The page may run what it contains, and may load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass
class Page:
    """A page to which parts are added from top to bottom."""

    title: str
    parts: list[str] = field(default_factory=list)
    headings: list[tuple[str, str]] = field(default_factory=list)  # (id, text)

    def heading(self, text: str) -> None:
        """A section's heading."""
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"
        if name in {taken for taken, _ in self.headings}:
            name = f"{name}-{len(self.headings)}"
        self.headings.append((name, text))
        self.parts.append(f'<h2 id="{name}">{html.escape(text)}</h2>')

    def paragraph(self, text: str) -> None:
        """A paragraph of plain text."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def note(self, text: str) -> None:
        """A paragraph of less importance."""
        self.parts.append(f'<p class="note">{html.escape(text)}</p>')

    def cautions(self, texts: Sequence[str], title: str = "Cautions") -> None:
        """A box with sentences that a reader must not miss."""
        items = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
        self.parts.append(
            f'<section class="cautions" aria-label="{title}"><strong>{title}</strong><ul>{items}</ul></section>'
        )

    def code(self, text: str) -> None:
        """Lines of a program or a terminal."""
        self.parts.append(f'<pre tabindex="0"><code>{html.escape(text)}</code></pre>')

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

    def chart(self, svg: str, caption: str = "") -> None:
        """A chart of `fieldfit.report.svg` with its caption."""
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        self.parts.append(f"<figure>{svg}{below}</figure>")

    def data(self, name: str, values: object) -> None:
        """Values for the page's script, under an id."""
        text = json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        self.parts.append(f'<script type="application/json" id="{name}">{text}</script>')

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page."""
        with atomic_writer(path) as file:
            file.write(self.text().encode())

    def text(self) -> str:
        """The whole page."""
        title = html.escape(self.title)
        assets = resources.files("fieldfit.report") / "assets"
        style = (assets / "page.css").read_text(encoding="utf-8")
        script = (assets / "page.js").read_text(encoding="utf-8")
        listed = ""
        if len(self.headings) >= _LISTED:
            links = "".join(f'<li><a href="#{name}">{html.escape(text)}</a></li>' for name, text in self.headings)
            listed = f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
        head = (
            f'<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f'<meta name="color-scheme" content="light dark">'
            f'<link rel="icon" href="data:,"><title>{title}</title><style>\n{style}</style>'
        )
        body = "\n".join(self.parts)
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><header><h1>{title}</h1>{listed}</header>\n'
            f'<main>\n{body}\n</main>\n<div id="tip" role="status" hidden></div>\n'
            f"<script>\n{script}</script></body></html>\n"
        )
