"""Fits by averaged stochastic gradients stop near the optimum: whatever shows their standard errors says so."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import ConvergenceWarning

SAID = "stop near the optimum, not at it"


@pytest.fixture(scope="module")
def sentences():
    random = np.random.default_rng(0)
    X = [[{"word": f"w{random.integers(8)}"} for _ in range(6)] for _ in range(80)]
    y = [["A" if token["word"] < "w4" else "B" for token in sentence] for sentence in X]
    for labels in y[::7]:
        labels[0] = "A"
    return X, y


@pytest.fixture(scope="module")
def tagger(sentences):
    return ff.CRFTagger(method="sgd", sigma2=1.0).fit(*sentences)


@pytest.mark.filterwarnings("ignore::fieldfit.types.FewSamplesWarning")
def test_tables_tests_and_summaries_of_sgd_say_that_it_is_not_at_the_optimum(tagger, sentences):
    fit = tagger.fit_
    assert not fit.converged
    with pytest.warns(ConvergenceWarning, match=SAID):
        fit.table(parameters=["A->B"])
    with pytest.warns(ConvergenceWarning, match=SAID):
        fit.discoveries()
    assert SAID in str(fit.functional({"A->B": 1.0}))
    assert SAID in str(fit.wald_test(["A->B"]))
    assert SAID in fit.summary()
    exact = ff.CRFTagger(sigma2=1.0).fit(*sentences, start=tagger).fit_
    exact.table(parameters=["A->B"])  # no warning
    assert SAID not in exact.summary()


@pytest.mark.filterwarnings("ignore::fieldfit.types.FewSamplesWarning")
def test_the_page_of_sgd_has_no_empty_columns_and_says_that_stopping_is_by_design(tagger, tmp_path, monkeypatch):
    tagger.to_html(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert "Stochastic gradients (sgd) stop near the optimum by design" in page
    assert "did not converge" not in page
    assert "std. error" in page
    # With too many parameters for errors, there are no columns for them and no cautions about them.
    monkeypatch.setattr("fieldfit.api.fit_page.fits_matrices", lambda fit: False)
    tagger.fit_.to_html(tmp_path / "large.html")
    large = (tmp_path / "large.html").read_text()
    assert "std. error" not in large
    assert "robust errors" not in large
    assert "estimates are shrunk towards 0." in large


def test_the_python_code_of_a_page_names_the_file_of_the_fit(tagger):
    from fieldfit.api.fit_page import fit_page

    parts = "".join(fit_page(tagger.fit_, None, 0.95, file="my tagger.ff").parts)
    assert "ff.CRFTagger.load(&quot;my tagger.ff&quot;)" in parts or 'ff.CRFTagger.load("my tagger.ff")' in parts


def test_a_matrix_of_transitions_has_a_colour_scale():
    from fieldfit.report.fit_charts import matrix_chart

    chart = matrix_chart(["A", "B"], np.array([[2.5, -1.0], [0.0, 1.0]]), "weight", directed=True)
    assert "−2.5</text>" in chart
    assert ">2.5</text>" in chart
