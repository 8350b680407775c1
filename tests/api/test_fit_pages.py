"""Pages of fits, couplings, moments of data and model, and fields that run away."""

import html
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.misfit import differing_moments
from fieldfit.api.moments import fit_moments
from fieldfit.api.runaway import runaway
from fieldfit.data.container import read_container, write_container
from fieldfit.report.fit_charts import Coefficient, add_coefficients
from fieldfit.report.frontier import FrontierPoint, Limits
from fieldfit.report.page import Page
from fieldfit.report.svg import Chart, Scale
from fieldfit.types import FieldfitError, FileFormatError, ModelError, RunawayWarning


def test_couplings_of_binary_fields_are_the_parameters():
    for states in ((0, 1), (-1, 1), (2, 5)):
        model = ff.BoltzmannMachine.grid(2, 3, biases=True, states=states)
        theta = np.random.default_rng(0).normal(size=model.n_parameters)
        found = model.coupling_matrix(theta)
        expected = np.zeros((6, 6))
        for place, (j, k) in enumerate(model.edges):
            expected[j, k] = expected[k, j] = theta[place]
        assert found.signed
        np.testing.assert_allclose(found.values, expected, atol=1e-12)


def test_couplings_of_more_states_do_not_depend_on_the_gauge():
    model = ff.Potts(3, 3)
    random = np.random.default_rng(1)
    theta = random.normal(size=model.n_parameters)
    found = model.coupling_matrix(theta)
    tables = theta[:27].reshape(3, 3, 3)
    shifted = tables + random.normal(size=(3, 3, 1)) + random.normal(size=(3, 1, 3))
    other = np.concatenate([shifted.ravel(), theta[27:]])
    np.testing.assert_allclose(model.coupling_matrix(other).values, found.values, atol=1e-12)
    centre = np.eye(3) - 1 / 3
    assert found.values[0, 2] == pytest.approx(np.linalg.norm(centre @ tables[1] @ centre))
    assert not found.signed


def test_couplings_of_forbidden_states_are_infinite():
    never = -np.inf
    for offset, expected in (
        ([[0.0, never], [0.0, 0.0]], np.inf),
        ([[0.0, 0.0], [0.0, never]], -np.inf),
        ([[never, never], [0.0, 0.0]], 0.0),  # the first variable has one state, whatever the second is
    ):
        model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), np.eye(2), log_offset=offset)])
        assert model.coupling_matrix(np.ones(model.n_parameters)).values[0, 1] == expected
    free = ff.Factor((1, 2), np.arange(6.0).reshape(3, 2) ** 2)
    pairs = [ff.Factor((0, 1)), free, ff.Factor((0, 2), np.eye(2), log_offset=[[0.0, never], [0.0, 0.0]])]
    model = ff.MarkovRandomField([2, 3, 2], pairs)
    x = model.sample(np.zeros(model.n_parameters), 80, random_state=0)
    fit = ff.fit(model, x, "PL1", sigma2=5.0)
    values = fit.couplings().to_numpy()
    assert values[0, 2] == np.inf
    assert np.isfinite(values[[0, 1], [1, 2]]).all()
    fit.plot_network()


def test_couplings_of_chains_are_transitions():
    model = ff.BoltzmannChain(2, 3, labels=["a", "b"])
    theta = np.arange(float(model.n_parameters))
    found = model.coupling_matrix(theta)
    assert found.directed
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.values, [[0, 1], [2, 3]])
    names = list(model.parameter_names)
    assert found.values[1, 0] == theta[names.index("b->a")]


@pytest.mark.slow
def test_transitions_of_chains_are_drawn_as_a_matrix():
    x = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}, {"w": "a"}, {"w": "a"}]]
    tagger = ff.CRFTagger(sigma2=1).fit(x, [["A", "B"], ["B", "A", "A"]])
    axes = tagger.fit_.plot_network().axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), tagger.fit_.couplings())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["A", "B"]
    assert axes.get_ylabel() == "label before"


def test_factors_of_three_variables_have_no_couplings():
    model = ff.MarkovRandomField([2, 2, 2], [ff.Factor((0, 1, 2))])
    with pytest.raises(ModelError, match="factor of 3 variables"):
        model.coupling_matrix(np.zeros(model.n_parameters))


def test_moments_agree_with_those_of_the_data_at_the_maximum_likelihood():
    model = ff.Potts(3, 3)
    x = model.sample(np.random.default_rng(0).normal(size=model.n_parameters), 2000, random_state=1).values
    fit = ff.fit(model, x, "FL", sigma2=1e4)
    means, correlations, triplets = fit_moments(fit, draws=20_000)
    assert means.names[:2] == ("x0=1", "x0=2")
    assert means.values[0, 0] == pytest.approx((x[:, 0] == 1).mean())
    # Standard errors of 20,000 draws are below 0.0036 for means and 0.0072 for correlations: six of them.
    assert np.abs(np.diff(means.values, axis=0)).max() < 0.022
    assert np.abs(np.diff(correlations.values, axis=0)).max() < 0.043
    first = correlations.names.index("x0=1 · x1=2")
    assert correlations.values[0, first] == pytest.approx(np.corrcoef(x[:, 0] == 1, x[:, 1] == 2)[0, 1])
    assert triplets.values.shape == (2, 8)


def _second_mode():
    """Twelve variables that are rarely 1, and couplings that are too strong for them: the field prefers all 1."""
    x = (np.random.default_rng(0).random((1000, 12)) < 0.05).astype(int)
    model = ff.BoltzmannMachine(12, biases=True)
    return model, x, {name: 1.0 for name in model.parameter_names if ":" in name}


def test_a_field_that_runs_away_is_said_to():
    model, x, strong = _second_mode()
    with pytest.warns(RunawayWarning, match="runs away from the data"):
        fit = ff.fit(model, x, "PL1", fixed=strong)
    assert "penalty" in fit.runaway
    assert "'PL1 >> optimal'" in fit.runaway
    assert fit.runaway in fit.summary()
    assert ff.fit(model, x, "PL1", fixed=strong, check_drift=False).runaway == ""
    # The field itself: exact means are far from those of the data.
    exact = np.array([table[1] for table in model.marginals(fit.theta)])
    assert (exact - x.mean(axis=0)).max() > 0.5


@pytest.mark.slow
def test_the_page_of_a_field_that_runs_away_recommends_no_estimator(tmp_path):
    model, x, strong = _second_mode()
    with pytest.warns(RunawayWarning):
        fit = ff.fit(model, x, "PL1", fixed=strong)
    with pytest.raises(FieldfitError, match="finite variance at the pilot's estimate"):
        ff.plan(model, x, flops=1e9)
    fit.to_html(tmp_path / "fit.html", plan=ff.plan(model, x, flops=1e9, sigma2=1.0))
    text = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "Not compared: the fitted model runs away" in text
    assert "is recommended" not in text


@pytest.mark.parametrize("options", [{"sigma2": {"*:*": 0.5}}, {"l1": {"*:*": 4.0}, "fixed": {"x0:x1": 0.25}}, {}])
def test_a_fit_is_repeated_by_the_lines_on_its_page(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ff.BoltzmannMachine(4, biases=True)
    data = model.sample(np.linspace(-0.5, 0.5, model.n_parameters), 300, random_state=0).values
    fit = ff.fit(model, data, "PL1", **options)
    fit.save("model.ff")
    fit.to_html("fit.html")
    names: dict[str, Any] = {"data": data}
    exec(last_code("fit.html"), names)
    np.testing.assert_array_equal(names["fit"].theta, fit.theta)


def test_a_tagger_is_repeated_by_the_lines_on_its_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = [[["a"], ["b"]], [["b"], ["a"], ["a"]]], [["A", "B"], ["B", "A", "A"]]
    tagger = ff.CRFTagger(sigma2=2, all_transitions=True).fit(X, y)
    tagger.save("model.ff")
    tagger.fit_.to_html("fit.html")
    names: dict[str, Any] = {"X": X, "y": y}
    exec(last_code("fit.html"), names)
    np.testing.assert_array_equal(names["tagger"].fit_.theta, tagger.fit_.theta)


def last_code(path):
    """The last block of code on a page, which is Python."""
    return html.unescape(re.findall(r"<code>(.*?)</code></pre>", Path(path).read_text(encoding="utf-8"), re.S)[-1])


def test_fields_that_stay_are_left_in_peace():
    for seed in range(5):
        model = ff.BoltzmannMachine(12, biases=True)
        x = model.sample(
            np.random.default_rng(seed).normal(0, 0.4, model.n_parameters), 400, random_state=seed
        ).values
        assert runaway(ff.fit(model, x, "PL1")) == ""


def test_fields_that_cannot_have_the_means_of_the_data_are_not_checked():
    x = (np.random.default_rng(0).random((500, 12)) < np.linspace(0.02, 0.98, 12)).astype(int)
    tied = ff.BoltzmannMachine(12, biases=True, bias_groups=[0] * 12)
    assert runaway(ff.fit(tied, x, "PL1")) == ""
    assert runaway(ff.fit(ff.BoltzmannMachine(12), x, "PL1")) == ""


def _strong(model, coupling, x):
    """A fit whose couplings are held at a value that is too strong."""
    return ff.fit(
        model, x, "PL1", fixed={name: coupling for name in model.parameter_names if ":" in name or name == "agree"}
    )


@pytest.mark.parametrize("size", [10, 20])  # exact sums, and a Gibbs run
def test_potts_models_mrfs_and_tied_fields_are_checked_too(size):
    random = np.random.default_rng(1)
    x = (random.random((600, size)) < 0.08).astype(int)
    pairs = [(j, k) for j in range(size) for k in range(j)]
    both = np.array([[0.0, 0.0], [0.0, 1.3]])  # only 1 and 1 attract each other
    factors: list[Any] = [
        *[(j,) for j in range(size)],
        *[ff.Factor(pair, both, f"c{pair[0]}:{pair[1]}") for pair in pairs],
    ]
    mrf = ff.MarkovRandomField([2] * size, factors)
    with pytest.warns(RunawayWarning, match="exact sums" if size == 10 else "400 sweeps"):
        _strong(mrf, 1.0, x)
    with pytest.warns(RunawayWarning, match="runs away"):
        fit = _strong(ff.BoltzmannMachine(size, biases=True, bias_groups=[0] * size), 1.3, x)
    assert f"state 1 over {size} variables" in fit.runaway
    with pytest.warns(RunawayWarning, match="runs away"):
        fit.sample(2)
    if size > 10:  # equal zeros attract each other too: the data's mode holds chains for long
        return
    with pytest.warns(RunawayWarning, match="runs away"):
        _strong(ff.TiedField.pairwise(pairs, m=size), 1.3, x)
    with pytest.warns(RunawayWarning, match="runs away"):
        _strong(ff.Potts(size, 2, couplings="agree"), 1.3, x)


@pytest.mark.slow
def test_good_fits_of_the_same_models_are_left_in_peace():
    x = ff.Potts(12, 3, couplings="agree").sample(np.random.default_rng(0).normal(0, 0.2, 102), 300, random_state=0)
    assert runaway(ff.fit(ff.Potts(12, 3, couplings="agree"), x.values, "PL1", sigma2=5.0)) == ""
    assert runaway(ff.fit(ff.Potts(12, 3), x.values, "PL1", sigma2=1.0)) == ""
    lattice = ff.TiedField.grid(20, 20)
    image = lattice.sample([-0.8, 0.4, 0.4], 1, random_state=0, method="gibbs")
    assert runaway(ff.fit(lattice, image, "PL1")) == ""


def test_one_sample_is_no_reason_for_a_warning():
    model = ff.BoltzmannMachine(12, biases=True)
    x = np.random.default_rng(0).integers(0, 2, (1, 12))
    assert runaway(ff.fit(model, x, "PL1", sigma2=1.0)) == ""


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_history_whose_iterations_are_no_numbers_is_refused(tmp_path, number):
    model = ff.BoltzmannMachine(2)
    ff.fit(model, [[0, 1], [1, 0], [1, 1], [0, 0]], "PL1").save(tmp_path / "a.ff")
    header, arrays = read_container(tmp_path / "a.ff")
    changed = arrays["history"].copy()
    changed[0, 0] = number
    write_container(tmp_path / "b.ff", header, arrays | {"history": changed})
    with pytest.raises(FileFormatError, match="the history has an iteration without a number"):
        ff.load(tmp_path / "b.ff")


def test_files_keep_the_course_and_the_caution(tmp_path):
    model, x, strong = _second_mode()
    with pytest.warns(RunawayWarning):
        fit = ff.fit(model, x, "PL1", fixed=strong)
    fit.save(tmp_path / "a.ff")
    again = ff.load(tmp_path / "a.ff")
    assert again.convergence.history == fit.convergence.history
    assert len(again.convergence.history) == fit.iterations + 1
    assert again.runaway == fit.runaway
    again.to_html(tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "runs away from the data" in text
    assert "does not contain its samples" in text


def test_a_page_says_how_to_make_it_again(tmp_path):
    model = ff.BoltzmannMachine(3)
    x = model.sample([1.0, -1.0, 0.5], 300, random_state=0).values
    ff.fit(model, x, "PL1", sigma2=2.0, random_state=7).to_html(tmp_path / "fit.html")
    text = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "sigma2=2, random_state=7" in text
    assert re.search(r"fieldfit \d+\.\d+", text)
    assert len(text) < 100_000
    ff.fit(model, x, "PL1", tol="statistical", max_iter=70).to_html(tmp_path / "fit.html")
    assert "random_state=0, tol=&quot;statistical&quot;, max_iter=70)" in (tmp_path / "fit.html").read_text(
        encoding="utf-8"
    )
    staged = ff.fit(model, x, "PL1 >> FL", tol=1e-8, max_iter=60)
    assert (staged.convergence.tol, staged.convergence.max_iter) == (1e-8, 60)


def test_the_page_of_a_tagger_names_its_optimiser(tmp_path):
    sentences = [[("the", "DT"), ("dog", "NN")], [("it", "PRP")]]
    tagger = ff.CRFTagger(features="chunker", sigma2=1, method="sgd").fit(sentences, [["B", "I"], ["B"]])
    tagger.save(tmp_path / "tagger.ff")
    ff.load(tmp_path / "tagger.ff").to_html(tmp_path / "tagger.html")
    assert "method=&quot;sgd&quot;, random_state=0" in (tmp_path / "tagger.html").read_text(encoding="utf-8")


def test_the_estimates_of_a_tagger_with_few_sentences_have_a_caution_beside_them(tmp_path):
    words = [["red", "house"], ["old", "tree"], ["house"]]
    features = [[{"word": word, "end": word[-1]} for word in sentence] for sentence in words]
    tagger = ff.CRFTagger(sigma2=1.0).fit(features, [["A", "N"], ["A", "N"], ["N"]])
    tagger.fit_.to_html(tmp_path / "tagger.html")
    caption = re.search("<caption>(Estimates.*?)</caption>", (tmp_path / "tagger.html").read_text(encoding="utf-8"))
    assert caption is not None
    assert "samples for each parameter, robust errors may be far too small, abs(z) too large" in caption[1]


def test_the_table_of_estimates_promises_no_intervals_that_it_lacks():
    lacking = [Coefficient(f"x{i}", 2.0 - i, math.nan, math.nan, math.nan) for i in range(2)]
    page = Page("a page")
    add_coefficients(page, lacking, 0.95, 5)
    assert (
        "<caption>Estimates without intervals. The 2 with the largest abs(estimate) of 5 are listed.<"
        in page.parts[-1]
    )
    assert 'data-absent="3"' in page.parts[-1]
    add_coefficients(page, [replace(lacking[0], lower=1.0, upper=3.0)], 0.95, 1)
    assert "<caption>Estimates with 95% confidence intervals.<" in page.parts[-1]
    assert "data-absent" not in page.parts[-1]


@pytest.mark.slow
def test_a_picture_of_many_couplings_has_the_strongest_ones_inside_its_panel():
    model = ff.BoltzmannMachine(30, biases=True)
    x = (np.random.default_rng(0).random((400, 30)) < 0.5).astype(int)
    fit = ff.fit(model, x, "PL1", sigma2=1.0, check_drift=False)
    sizes = np.sort(np.abs(fit.couplings().to_numpy()[np.triu_indices(30, 1)]))[::-1]
    for edges, count in ((None, 60), (7, 7), (5000, 435)):
        drawing = fit.plot_network(edges=edges)
        axes = drawing.axes[0]
        assert len(axes.lines) == count
        told = [text.get_text() for text in drawing.texts if "Widest edge" in text.get_text()]
        assert told[0].startswith("Widest" if count == 435 else f"The {count} strongest of 435 couplings. Widest")
        low, high = axes.get_xlim()
        points = np.concatenate([np.asarray(line.get_xydata()) for line in axes.lines])
        assert low <= points.min() <= points.max() <= high
        widths = sorted((line.get_linewidth() for line in axes.lines), reverse=True)
        assert widths[-1] == pytest.approx(0.4 + 5.6 * sizes[count - 1] / sizes[0], abs=1e-9)
    with pytest.raises(FieldfitError, match="edges"):
        fit.plot_network(edges=-1)


def test_scales_clip_and_have_round_ticks():
    scale = Scale(1.0, 100.0, 0.0, 200.0, log=True)
    assert [scale(value) for value in (0.1, 1, 10, 1000)] == [0, 0, 100, 200]
    assert Scale(0.0, 1.0, 0.0, 1.0).ticks() == [0, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_names_beside_points_do_not_cover_each_other():
    chart = Chart.of((0, 1), (0, 1))
    chart.mark(0.5, 0.5, "blue", "a")
    chart.mark(0.51, 0.5, "blue", "b")
    chart.names([("first", 0.5, 0.5), ("second", 0.51, 0.5)])
    boxes = chart.taken[2:]
    assert len(boxes) == 2
    (a, b, c, d), (e, f, g, h) = boxes
    assert c <= e or g <= a or d <= f or h <= b


def test_the_label_of_a_line_keeps_clear_of_names_with_the_large_letters_of_phones():
    chart = Chart.of((0, 1), (0, 1))
    chart.mark(0.5, 0.15, "blue", "a", radius=6.0, diamond=True)
    chart.mark(0.9, 0.15, "blue", "b")
    chart.label_line(0.12, "maximum likelihood")
    chart.names([("PL1 >> FL", 0.5, 0.15), ("PL2", 0.9, 0.15)])
    label, *names = chart.taken[2:]
    assert len(names) == 2
    assert label[2] - label[0] >= 0.55 * 17 * len("maximum likelihood")
    for a, b, c, d in names:
        assert d - b >= 17
        assert c <= label[0] or label[2] <= a or d <= label[1] or label[3] <= b


def test_axes_have_room_for_error_bars_but_not_for_endless_ones():
    points = [FrontierPoint("a", 1, 1.2, 0.05, True), FrontierPoint("b", 2, 1.0, 0.02, True)]
    limits = Limits.of(points, 1.0)
    assert limits.bottom < 0.96
    assert limits.top > 1.3
    endless = [*points, FrontierPoint("c", 3, 1.1, 50.0, False)]
    assert Limits.of(endless, 1.0).top < 1.2**4 * 1.2


def test_parameters_are_named_by_patterns_and_in_either_order():
    model = ff.BoltzmannMachine(3, biases=True, names=["avoid", "closeatt", "loses"])
    x = np.random.default_rng(0).integers(0, 2, (300, 3))
    fit = ff.fit(model, x, "PL1")
    assert list(fit.table(parameters="*:*").index) == ["avoid:closeatt", "avoid:loses", "closeatt:loses"]
    assert list(fit.table(parameters=["closeatt:avoid", "loses"]).index) == ["avoid:closeatt", "loses"]
    assert fit.wald_test("*:*").degrees_of_freedom == 3
    assert fit.functional({"avoid:*": 1.0}).estimate == pytest.approx(fit.theta[:2].sum())
    with pytest.raises(ModelError, match=r"nearest names are 'avoid'"):
        fit.table(parameters="avoidd")
    with pytest.raises(ModelError, match=r"'\*:\*' names 3 parameters"):
        fit.functional("*:*")
    with pytest.raises(ModelError, match="No parameter has a name like"):
        fit.table(parameters="zzz*")


def test_couplings_of_a_fit_in_all_their_forms():
    model = ff.BoltzmannMachine(3, edges=[(0, 1), (1, 2)], biases=True)
    x = np.random.default_rng(0).integers(0, 2, (300, 3))
    fit = ff.fit(model, x, "PL1")
    table, graph = fit.couplings(), fit.to_networkx()
    assert table.loc["x1", "x0"] == pytest.approx(fit.theta[0])
    assert sorted(graph.edges) == [("x0", "x1"), ("x1", "x2")]
    assert graph["x1"]["x2"]["weight"] == pytest.approx(fit.theta[1])
    assert fit.strength()["x1"] == pytest.approx(np.abs(fit.theta[:2]).sum())
    assert fit.sample(7, random_state=1).values.shape == (7, 3)
    html = fit._repr_html_()
    assert "<table>" in html
    assert "<pre>" not in html
    tagger = ff.BoltzmannChain(2, 2)
    assert tagger.coupling_matrix(np.zeros(tagger.n_parameters)).directed


def test_the_page_of_a_refined_fit_says_that_its_test_rejects(tmp_path):
    model = ff.BoltzmannMachine(5, [(k, k + 1) for k in range(4)])
    full = ff.BoltzmannMachine(5)
    x = full.sample(np.resize([1.5, -1.5, 1.0], full.n_parameters), 2000, random_state=0).values
    fit = ff.fit(model, x, "PL1 >> optimal")
    assert fit.specification_test().rejects
    fit.to_html(tmp_path / "fit.html")
    text = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "the conditional distributions do not agree with one model of this form" in text
    assert "No cautions" not in text
    told = fit.specification_test().differing
    assert told in text
    assert told in fit.summary()
    # Against exact sums: x4 is the mean that differs most, in standard errors of the data and of 10,000 draws.
    data, exact = x.mean(axis=0), np.array([marginal[1] for marginal in model.marginals(fit.theta)])
    share = (data + exact) / 2
    z = np.abs(exact - data) / np.sqrt(share * (1 - share) * (1 / 2000 + 1 / 10_000))
    assert z.argmax() == 4
    assert f"most in x4 ({data[4]:.3f} in the data, " in told
    assert float(told.split("most in x4")[1].split(" in the data, ")[1].split()[0]) == pytest.approx(
        exact[4], abs=0.01
    )
    fit.save(tmp_path / "fit.ff")
    assert ff.load(tmp_path / "fit.ff").specification_test() == fit.specification_test()


@pytest.mark.slow
def test_moments_are_named_by_chance_in_one_of_twenty_fits():
    """Data of the model itself: 120 fits, at most 5% + 5% (two kinds) named; P(more than 24) is below 0.0004."""
    model = ff.BoltzmannMachine(4, biases=True)
    theta = np.resize([0.6, -0.4, 0.2], model.n_parameters)
    told = [
        differing_moments(ff.fit(model, model.sample(theta, 500, random_state=seed).values, "FL"))
        for seed in range(120)
    ]
    assert sum("Data and model differ" in text for text in told) <= 24
    assert all(text.startswith(("Data and model differ in ", "No single mean or correlation")) for text in told)
