"""Saved fits that someone has changed: what no fit has is refused when the file is loaded."""

from dataclasses import replace

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
from fieldfit.data.container import read_container, write_container
from fieldfit.optim import Progress
from fieldfit.types import DataError, FileFormatError, ModelError

TEXT = "the DT B\ndog NN I\n\nit PR B\nruns VB O\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that loads a saved fit of a tied field after a change of its header and arrays."""
    path = tmp_path_factory.mktemp("saved") / "fit.ff"
    x = np.random.default_rng(0).integers(0, 2, (30, 4))
    ff.fit(ff.TiedField.grid(2, 2), x, "PL1", sigma2=1.0).save(path)

    def load(change):
        header, arrays = read_container(path)
        arrays = {name: array.copy() for name, array in arrays.items()}
        change(header, arrays)
        changed = path.with_name("changed.ff")
        write_container(changed, header, arrays)
        return ff.load(changed)

    return load


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ({"total": -60.0}, "30 samples of size -60.0"),
        ({"total": 0.0}, "size 0.0"),
        ({"total": np.inf}, "size inf"),
        ({"unit_weight": 0.0}, "unit weight 0.0"),
        ({"unit_weight": np.nan}, "unit weight nan"),
        ({"n": 0}, "0 samples of size 30.0"),
    ],
)
def test_sizes_that_no_fit_has(saved, size, said):
    with pytest.raises(FileFormatError, match=said):
        saved(lambda header, _: header["size"].update(size))


def test_a_fit_without_free_parameters(saved):
    with pytest.raises(FileFormatError, match="has no free parameter"):
        saved(lambda _, arrays: arrays["free"].fill(False))


def test_a_penalty_without_a_usable_inverse(saved):
    with pytest.raises(FileFormatError, match="penalties that no fit has"):
        saved(lambda _, arrays: arrays["sigma2"].fill(1e-320))


def test_a_negative_norm_in_the_history(saved):
    def change(_, arrays):
        arrays["history"][0, 2] = -1.0

    with pytest.raises(FileFormatError, match="negative norm of the gradient"):
        saved(change)


@pytest.mark.parametrize("order", [["bias", "horizontal", "vertical", "bias"], ["bias", "horizontal", "vertical", 1]])
def test_an_order_of_parameters_with_a_name_twice(saved, order):
    with pytest.raises(FileFormatError, match="name twice, or one that is not text"):
        saved(lambda header, _: header["model"].update(order=order))


def test_features_beyond_those_of_models(saved):
    def change(_, arrays):
        arrays["model_features1"][0, 0] = -1e308

    with pytest.raises(FileFormatError, match=r"'horizontal' have a feature times a covariate beyond"):
        saved(change)


@pytest.mark.parametrize(
    "changed",
    [
        lambda keys: keys.astype(np.float32),
        lambda keys: np.where(keys == keys.max(), 2**31, keys),
        lambda keys: keys - 1_000,
        lambda keys: keys[::-1].copy(),
        lambda keys: keys[None],
    ],
)
def test_keys_of_features_that_no_template_has(changed):
    encoder, _ = ColumnEncoder.fit(parse_columns(TEXT), parse_templates("U00:%x[0,0]/%x[-1,0]\nB01:%x[0,1]\nU02"))
    arrays = encoder.to_arrays()
    assert ColumnEncoder.from_arrays(arrays).feature_names() == encoder.feature_names()
    with pytest.raises(ValueError, match="keys of a template are"):
        ColumnEncoder.from_arrays(arrays | {"keys0": changed(arrays["keys0"])})
    arrays["vocabulary0.bytes"], arrays["vocabulary0.ends"] = np.zeros(1, np.uint8), np.ones(1, np.int64)
    with pytest.raises(ValueError, match="a template has the radices"):
        ColumnEncoder.from_arrays(arrays)


@pytest.mark.parametrize("norms", [(1e308, 1e-320), (np.inf, 1.0), (np.nan, 0.0)])
def test_the_chart_of_a_history_of_any_norms(tmp_path, norms):
    fit = ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 0], [1, 1], [0, 0]], "PL1")
    history = tuple(Progress(k, 1.0, norm, 0.0) for k, norm in enumerate(norms))
    fit = replace(fit, convergence=replace(fit.convergence, history=history))
    fit.to_html(tmp_path / "page.html")
    assert "inf" not in (tmp_path / "page.html").read_text().partition("largest entry of the gradient")[2][:1000]


def test_texts_of_a_model_that_are_not_unicode(saved):
    with pytest.raises(FileFormatError, match="surrogates not allowed"):
        saved(lambda header, _: header["model"].update(names=["a", "b", "c", "\ud800"]))


def test_names_and_states_that_are_not_unicode():
    """Tables of estimates could not hold them."""
    with pytest.raises(ModelError, match=r"'\\ud800' has a lone surrogate"):
        ff.BoltzmannMachine(2, names=["a", "\ud800"])
    with pytest.raises(ModelError, match="text with a lone surrogate"):
        ff.Potts(2, 2, states=("a", "\udfff"))
    with pytest.raises(DataError, match="text with a lone surrogate"):
        ff.fit(ff.Potts(2, 2), np.array([["\ud800", "b"], ["b", "b"]], dtype=object), "PL1")


def test_a_page_shows_a_command_whose_bytes_are_not_utf8(tmp_path):
    fit = ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 0], [1, 1], [0, 0]], "PL1")
    replace(fit, command="fieldfit fit boltzmann caf\udce9.csv").to_html(tmp_path / "page.html")
    assert r"caf\udce9.csv" in (tmp_path / "page.html").read_text()
