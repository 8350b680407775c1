"""Make the relative links of README.md absolute, as the page of the package index needs them, before a release."""

import re
import tomllib
from pathlib import Path


def absolute(text: str, source: str) -> str:
    """The text with links to files of the repository at ``source``; pictures lead to the files themselves."""
    text = re.sub(r"(!\[[^\]]*\])\((?!\w+:|#)([^)]+)\)", rf"\1({source}/raw/main/\2)", text)
    return re.sub(r"(?<!!)(\[[^\]]*\])\((?!\w+:|#)([^)]+)\)", rf"\1({source}/blob/main/\2)", text)


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = root / "README.md"
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), project["urls"]["Source"]), encoding="utf-8")
