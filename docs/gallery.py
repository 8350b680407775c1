"""Draw the pictures of gallery.md: run its blocks in an empty folder and keep what they save.

`make docs` draws them for the site with the code of the day (`draw_for_site`), where the data sets are installed. `make
gallery` draws those of the repository, in docs/figures, which the site has where they are not.
"""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from fieldfit.types import MissingDataError

DOCS = Path(__file__).parent


def draw(target: Path) -> list[str]:
    """Run the page and write its pictures to a folder; returns their names."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "gallery.md").read_text(encoding="utf-8"), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names: dict[str, object] = {}
        for block in blocks:
            exec(compile(block, "gallery.md", "exec"), names)
        pictures = sorted(Path(folder).glob("*.png"))
        for picture in pictures:
            shutil.copy(picture, target / picture.name)
    return [picture.name for picture in pictures]


def draw_for_site(app: Sphinx, error: Exception | None) -> None:
    """Replace the gallery's pictures in a finished site by new ones."""
    if error is not None or app.builder.format != "html":
        return
    told = logging.getLogger(__name__)
    try:
        told.info("gallery: %s", ", ".join(draw(Path(app.outdir) / "_images")))
    except MissingDataError as missing:
        told.info("gallery: pictures of the repository (%s)", missing)


if __name__ == "__main__":
    print("\n".join(draw(DOCS / "figures")))
