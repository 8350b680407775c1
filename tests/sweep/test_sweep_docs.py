"""The file that docs/sweeps.md shows."""

import re
from pathlib import Path

from fieldfit.sweep import read_sweep

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"


def test_the_file_of_the_page_is_a_sweep_of_so_many_cells(tmp_path):
    (tmp_path / "votes.toml").write_text(re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1])
    sweep = read_sweep(tmp_path / "votes.toml")
    assert sweep.size == 3 * 5 * 3 * 5
    assert sweep.axes["sigma2"] == (1.0, 10.0, 100.0)
