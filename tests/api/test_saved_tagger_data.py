"""A saved tagger is loaded with its sentences from their file, as `fieldfit show` advises."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.columns import read_columns
from fieldfit.data.crfsuite_text import read_crfsuite
from fieldfit.types import DataError

COLUMNS = "the DT B\ndog NN I\nruns VB O\n\na DT B\ncat NN I\n\nit PR B\nsleeps VB O\n\n" * 4


@pytest.mark.parametrize("read", [str, read_columns])
def test_load_takes_the_file_of_sentences_of_a_tagger(tmp_path, read):
    path = tmp_path / "train.txt"
    path.write_text(COLUMNS)
    tagger = ff.CRFTagger(features="chunker", sigma2=1.0).fit(read_columns(path))
    tagger.save(tmp_path / "tagger.ff")
    loaded = ff.load(tmp_path / "tagger.ff", read(path))
    assert loaded.n == 12
    found, expected = (fit.functional({"B->I": 1.0}) for fit in (loaded, tagger.fit_))
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-10)
    path.write_text(COLUMNS.replace("VB O", "VB I"))
    with pytest.raises(DataError, match="not the samples that were fitted"):
        ff.load(tmp_path / "tagger.ff", read(path))


def test_load_takes_the_crfsuite_file_of_a_tagger_of_attributes(tmp_path):
    path = tmp_path / "train.crfsuite"
    path.write_text("D\tw=the\nN\tw=dog\n\nD\tw=a\nN\tw=cat\n\n" * 5)
    tagger = ff.CRFTagger(sigma2=1.0).fit(read_crfsuite(path))
    tagger.save(tmp_path / "tagger.ff")
    loaded = ff.load(tmp_path / "tagger.ff", path)
    np.testing.assert_array_equal(loaded.theta, tagger.fit_.theta)
    assert loaded.prepared is not None
