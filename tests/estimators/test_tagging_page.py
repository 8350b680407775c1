"""The examples of docs/tagging.md run one after the other, and give what their remarks say."""

import ast
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "tagging.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    compared = 0
    for block in BLOCKS:
        exec(block, names)
        call, _, remark = block.strip().splitlines()[-1].partition("  # ")
        if remark:
            assert eval(call, names) == ast.literal_eval(remark)
            compared += 1
    assert len(BLOCKS) == 7
    assert compared == 7
