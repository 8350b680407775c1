"""Draw the pictures of gallery.md: run its blocks in an empty folder and keep what they save in docs/figures."""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent


def main() -> None:
    """Run the page."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "gallery.md").read_text(encoding="utf-8"), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names: dict[str, object] = {}
        for block in blocks:
            exec(compile(block, "gallery.md", "exec"), names)
        for picture in sorted(Path(folder).glob("*.png")):
            shutil.copy(picture, DOCS / "figures" / picture.name)
            print(picture.name, picture.stat().st_size)


if __name__ == "__main__":
    main()
