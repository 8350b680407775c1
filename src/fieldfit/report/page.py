"""A self-contained HTML page: headings, paragraphs, tables and pictures, without external resources."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import resources

from fieldfit.data.atomic import atomic_writer
from fieldfit.report.table import PlainTable

#: Fewest headings for which a page has a table of contents.
_LISTED = 3
#: Content security policy: inline scripts and styles only, nothing is loaded.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass
class Page:
    """A self-contained HTML page to which parts are added from top to bottom.

    Parameters
    ----------
    title : str
        Its title.
    parts : list of str
        The HTML of its parts. By default none.
    headings : list of (id, text)
        Its headings. By default none.
    words : callable
        Function applied to the text of paragraphs, notes and cautions. By default they are unchanged.

    Examples
    --------
    >>> from fieldfit import plots
    >>> page = plots.Page("A report")
    >>> page.paragraph("Nothing to report.")
    >>> page.write("report.html")
    """

    title: str
    parts: list[str] = field(default_factory=list)
    headings: list[tuple[str, str]] = field(default_factory=list)  # (id, text)
    words: Callable[[str], str] = str

    def heading(self, text: str) -> None:
        """Add a heading.

        Parameters
        ----------
        text : str
            The heading.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.heading("Costs")
        >>> page.headings
        [('costs', 'Costs')]
        """
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"
        if name in {taken for taken, _ in self.headings}:
            name = f"{name}-{len(self.headings)}"
        self.headings.append((name, text))
        self.parts.append(f'<h2 id="{name}">{html.escape(text)}</h2>')

    def paragraph(self, text: str) -> None:
        """Add a paragraph of plain text.

        Parameters
        ----------
        text : str
            The text.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.paragraph("a < b")
        >>> page.parts
        ['<p>a &lt; b</p>']
        """
        self.parts.append(f"<p>{html.escape(self.words(text))}</p>")

    def note(self, text: str) -> None:
        """Add a paragraph of less importance.

        Parameters
        ----------
        text : str
            The text.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.note("Measured once.")
        >>> page.parts
        ['<p class="note">Measured once.</p>']
        """
        self.parts.append(f'<p class="note">{html.escape(self.words(text))}</p>')

    def cautions(self, texts: Sequence[str], title: str = "Cautions") -> None:
        """Add a box with important cautions.

        Parameters
        ----------
        texts : sequence of str
            The sentences.
        title : str, default: "Cautions"
            Title of the box.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.cautions(["The fit did not converge."])
        >>> "did not converge" in page.text()
        True
        """
        items = "".join(f"<li>{html.escape(self.words(text))}</li>" for text in texts)
        self.parts.append(
            f'<section class="cautions" aria-label="{title}"><strong>{title}</strong><ul>{items}</ul></section>'
        )

    def code(self, text: str) -> None:
        """Add lines of a program or a terminal.

        Parameters
        ----------
        text : str
            The lines.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.code("make demo")
        >>> "make demo" in page.text()
        True
        """
        self.parts.append(f'<pre tabindex="0"><code>{html.escape(text)}</code></pre>')

    def table(self, table: PlainTable) -> None:
        """Add a table, which scrolls on narrow screens.

        Parameters
        ----------
        table : PlainTable
            The table.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.table(plots.PlainTable("costs", ("policy", "FLOPs"), (("PL1", 21),)))
        >>> "<table>" in page.text()
        True
        """
        self.parts.append(f'<div class="wide">{table.to_html()}</div>')

    def picture(self, png: bytes, caption: str) -> None:
        """Add a picture.

        Parameters
        ----------
        png : bytes
            The content of a PNG file.
        caption : str
            Text below the picture, and its alternative text.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> from matplotlib.figure import Figure
        >>> page.picture(plots.figure_bytes(Figure(), "png"), "An empty picture.")
        >>> "data:image/png" in page.text()
        True
        """
        data = base64.b64encode(png).decode("ascii")
        text = html.escape(caption, quote=True)
        self.parts.append(
            f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'
        )

    def chart(self, svg: str, caption: str = "") -> None:
        """Add a chart in SVG.

        Parameters
        ----------
        svg : str
            The SVG element.
        caption : str, default: ""
            Text below the chart.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.chart("<svg></svg>", "An empty chart.")
        >>> "<svg>" in page.text()
        True
        """
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        self.parts.append(f"<figure>{svg}{below}</figure>")

    def data(self, name: str, values: object) -> None:
        """Add values for a script of the page.

        Parameters
        ----------
        name : str
            The id of the element that has them.
        values : object
            Plain values, written as JSON.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.data("costs", {"PL1": 21})
        >>> page.parts
        ['<script type="application/json" id="costs">{"PL1":21}</script>']
        """
        text = json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        self.parts.append(f'<script type="application/json" id="{name}">{text}</script>')

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or Path
            The file.

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.write("report.html")
        >>> from pathlib import Path
        >>> Path("report.html").read_text().startswith("<!doctype html>")
        True
        """
        with atomic_writer(path) as file:
            file.write(self.text().encode(errors="backslashreplace"))  # a command may have bytes that are not UTF-8

    def text(self) -> str:
        """Return the whole page as HTML.

        Returns
        -------
        str

        Examples
        --------
        >>> from fieldfit import plots
        >>> page = plots.Page("A report")
        >>> page.text().startswith("<!doctype html>")
        True
        """
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
