"""The examples of docs/sequences.md run, and print what their remarks say."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "sequences.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples(block):
    *before, last = block.strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(before), names)
    call, remark = last.split("#")
    assert eval(call, names) == ast.literal_eval(remark.strip())


def test_there_are_examples():
    assert len(BLOCKS) == 2
