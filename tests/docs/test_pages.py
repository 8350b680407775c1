"""Every page's examples run: those with prompts print what the page says, the others run from top to bottom."""

import doctest
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from fieldfit import find_data
from fieldfit.types import MissingDataError

ROOT = Path(__file__).parents[2]
PAGES = {
    path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
}
PROMPTED = [name for name, text in PAGES.items() if ">>> " in text]
PLAIN = [name for name, text in PAGES.items() if "```python" in text and name not in PROMPTED]
FIRST = ("README.md", "start.md")  # what a new user tries first is in the fast tests, too


def marked(names):
    return [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", marked(PROMPTED))
def test_examples_print_what_the_page_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The closing fence of a block is not part of the expected output: a blank line stands before it.
    parsed = doctest.DocTestParser().get_doctest(PAGES[name], {}, name, name, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(parsed, out=report.append)
    assert runner.tries > 0
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", marked(PLAIN))
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL):
        if "distributed" in block:  # an extra
            pytest.importorskip("distributed")
        for name_of_data in re.findall(r'find_data\("([^"]+)"\)', block):
            try:
                find_data(name_of_data)
            except MissingDataError as missing:
                pytest.skip(str(missing))
        exec(compile(block, name, "exec"), names)


def test_the_release_makes_the_links_of_the_readme_absolute():
    script = ROOT / ".github" / "absolute_links.py"
    if not script.exists():
        pytest.skip("an installed package has no release scripts")
    names = runpy.run_path(str(script))
    text = names["absolute"](PAGES["README.md"], "https://example.org/project")
    assert "](https://example.org/project/raw/main/docs/figures/refined-frontier.png)" in text
    assert "](https://example.org/project/blob/main/docs/networks.md)" in text
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 20
    assert all(target.startswith("https://") for target in targets)


def test_links_between_pages_lead_somewhere():
    for name, text in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (folder / target).exists(), f"{name} links to {target}"
