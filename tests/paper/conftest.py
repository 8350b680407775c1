"""The figures and the report of a machine without the data sets, made once for all tests of them."""

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fieldfit.cli.app import run
from fieldfit_paper.chain_data import chain_data
from fieldfit_paper.chain_folds import chain_fold


@dataclass(frozen=True)
class Reproduced:
    """What `fieldfit reproduce all --json` wrote, printed and said."""

    folder: Path
    document: dict[str, Any]
    notes: str

    def experiment(self, name: str) -> Any:
        (found,) = (own for own in self.document["experiments"] if own["experiment"] == name)
        return found

    def files(self, name: str) -> set[str]:
        """Names of the files that belong to an experiment; all are in the folder."""
        paths = [Path(text) for text in self.experiment(name)["files"]]
        assert all(path.parent == self.folder for path in paths)
        return {path.name for path in paths}


@pytest.fixture(scope="session")
def without_data(tmp_path_factory):
    empty, printed, said = tmp_path_factory.mktemp("no data"), io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIELDFIT_DATA", str(empty))
        chain_data.cache_clear()  # other tests may have read it
        chain_fold.cache_clear()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            assert run(["reproduce", "all", "--scale", "small", "--out", str(empty / "out"), "--json"]) == 0
    return Reproduced(empty / "out", json.loads(printed.getvalue()), said.getvalue())
