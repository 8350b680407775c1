"""The pages of fits and plans in a real browser: clicks, sliders, search, names that are hostile, phone, dark and paper."""

import numpy as np
import pytest
from browser import open_page, opened_browser

import fieldfit as ff
from fieldfit.report.fit_charts import Coefficient, add_coefficients
from fieldfit.report.network_chart import add_network
from fieldfit.report.page import Page

pytestmark = pytest.mark.slow

HOSTILE = "<script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def driver():
    with opened_browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a fit with its plan, that of the plan, and that of a tagger."""
    folder = tmp_path_factory.mktemp("pages")
    names = [HOSTILE, 'b"1', "b2", "plain", "x&y"]
    model = ff.BoltzmannMachine(5, biases=True, names=names)
    theta = np.resize([0.8, -0.6, 0.3], model.n_parameters)
    x = model.sample(theta, 400, random_state=0).values
    plan = ff.plan(model, x, flops=1e7)
    fit = ff.fit(model, x, "PL1")
    fit.to_html(folder / "fit.html", plan=plan)
    plan.to_html(folder / "plan.html")
    sentences = [[{"word": w} for w in text.split()] for text in ("the dog runs", "a cat sleeps", "the cat runs")] * 5
    labels = [["D", "N", "V"]] * 15
    tagger = ff.CRFTagger(sigma2=1.0).fit(sentences, labels)
    tagger.fit_.to_html(folder / "tagger.html")
    return folder


@pytest.mark.parametrize("name", ["fit", "plan", "tagger"])
def test_a_page_loads_nothing_and_complains_of_nothing(driver, pages, name):
    open_page(driver, pages / f"{name}.html")
    assert driver.get_log("browser") == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert "broken" not in driver.title
    assert driver.execute_script("return document.querySelectorAll('h1').length") == 1
    links = driver.execute_script("return [...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert all(driver.execute_script("return document.querySelector(arguments[0]) !== null", link) for link in links)


def test_names_are_shown_as_text(driver, pages):
    open_page(driver, pages / "fit.html")
    cells = driver.execute_script(
        "return [...document.querySelectorAll('#coefficients tbody th')].map(c => c.textContent)"
    )
    assert HOSTILE in cells
    assert 'b"1:x&y' in cells
    assert driver.title == "boltzmann fitted by PL1"
    tips = driver.execute_script("return [...document.querySelectorAll('circle.node')].map(c => c.dataset.tip)")
    assert any(tip.startswith(HOSTILE) for tip in tips)


def test_the_search_box_filters_and_counts(driver, pages):
    open_page(driver, pages / "fit.html")
    box = driver.find_element("css selector", "input[type=search]")
    shown = "return [...document.querySelectorAll('#coefficients tbody tr')].filter(r => !r.hidden).length"
    assert driver.execute_script(shown) == 15
    box.send_keys("B2 plain")
    assert driver.execute_script(shown) == 1
    assert driver.find_element("id", "coefficients-count").text == "1 of 15 shown"
    box.clear()
    box.send_keys("no such name")
    assert driver.execute_script(shown) == 0


def test_columns_are_sorted_by_their_heads(driver, pages):
    open_page(driver, pages / "fit.html")
    cells = "[...document.querySelectorAll('#coefficients tbody tr')].map(row => row.cells[1])"
    values = f"return {cells}.map(cell => parseFloat(cell.dataset.value))"
    button = driver.find_element("css selector", "#coefficients th:nth-child(2) button")
    button.click()
    down = driver.execute_script(values)
    assert down == sorted(down, reverse=True)
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    button.click()
    assert driver.execute_script(values) == sorted(down)


@pytest.mark.parametrize("name", ["fit", "plan"])
def test_sliders_move_the_point(driver, pages, name):
    from selenium.webdriver.support.select import Select

    open_page(driver, pages / f"{name}.html")
    point = driver.find_element("id", "mixtures-point")
    said = driver.find_element("name", "said")
    before, text = point.get_attribute("transform"), said.text
    assert "variance relative to maximum likelihood" in text
    driver.find_element("name", "lam").send_keys("\ue014" * 4)  # the right arrow key
    assert point.get_attribute("transform") != before
    moved, policy = point.get_attribute("transform"), said.text
    assert policy != text
    driver.find_element("name", "beta").send_keys("\ue012" * 3)  # the left arrow key
    assert point.get_attribute("transform") != moved
    choice = Select(driver.find_element("name", "family"))
    choice.select_by_index(len(choice.options) - 1)
    assert choice.first_selected_option.text in said.text


def test_the_sliders_say_what_the_plan_says(driver, pages):
    """λ = 1 and β = 0 are the first family alone, whose variance is in the table."""
    open_page(driver, pages / "plan.html")
    driver.find_element("name", "beta").send_keys("\ue011")  # the home key: β = 0
    text = driver.find_element("name", "said").text
    assert text.startswith("PL1: ")
    shown = float(text.split("maximum likelihood ")[1].split(",")[0])
    cells = driver.execute_script(
        "return [...document.querySelectorAll('main table tr')].map(r => [...r.cells].map(c => c.textContent.trim()))"
    )
    row = next(row for row in cells if row[0].lstrip("→• ") == "PL1")
    assert shown == pytest.approx(float(row[3]), rel=1e-3)


def test_a_slider_draws_more_couplings(driver, tmp_path):
    m = 9
    values = np.zeros((m, m))
    values[np.triu_indices(m, 1)] = np.linspace(-1, 2, m * (m - 1) // 2)
    page = Page("Network")
    add_network(page, [f"x{j}" for j in range(m)], values + values.T, "coupling", "Lines: coupling.")
    page.write(tmp_path / "network.html")
    open_page(driver, tmp_path / "network.html")
    sizes = (
        "return [...document.querySelectorAll('[data-rank]')].filter(l => l.getBBox().width).map(l => l.dataset.size)"
    )
    drawn = [float(size) for size in driver.execute_script(sizes)]
    strongest = np.sort(np.abs(values[values != 0]))[::-1]
    assert drawn == pytest.approx(strongest[:18][::-1], rel=0.05)  # two for each variable, the strongest in front
    said = driver.find_element("id", "edges-shown")
    assert said.text == f"The 18 strongest of 36 couplings are shown, down to a size of {strongest[17]:.2g}."
    slider = driver.find_element("css selector", "input[type=range]")
    slider.send_keys("\ue014" * 3)  # the right arrow key
    assert len(driver.execute_script(sizes)) == 21
    assert "The 21 strongest of 36" in said.text
    slider.send_keys("\ue011")  # the home key
    assert said.text == "The strongest of 36 couplings is shown; its size is 2."
    slider.send_keys("\ue010")  # the end key
    assert len(driver.execute_script(sizes)) == 36
    assert driver.get_log("browser") == []


def test_marks_show_a_note_to_mouse_and_keyboard(driver, pages):
    from selenium.webdriver import ActionChains

    open_page(driver, pages / "plan.html")
    tip = driver.find_element("id", "tip")
    assert not tip.is_displayed()
    mark = driver.find_element("css selector", "svg.chart [data-tip*='recommended']")
    ActionChains(driver).move_to_element(mark).perform()
    assert "recommended" in tip.text
    assert "variance" in tip.text
    box = tip.rect
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1100
    driver.execute_script("arguments[0].focus()", driver.find_elements("css selector", "svg.chart [tabindex]")[0])
    assert tip.is_displayed()
    driver.find_element("tag name", "body").send_keys("\ue00c")  # Escape
    assert not tip.is_displayed()


@pytest.mark.parametrize("name", ["fit", "plan", "tagger"])
def test_a_phone_needs_no_sideways_scrolling(driver, pages, name):
    open_page(driver, pages / f"{name}.html", width=360, height=740)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 360


def test_plan_and_estimates_are_as_wide_as_a_phone(driver, pages):
    open_page(driver, pages / "fit.html", width=390, height=740)
    widths = "return [...document.querySelectorAll('.wide, .tall')].map(box => box.scrollWidth - box.clientWidth)"
    rows = "document.querySelectorAll('#coefficients tbody tr')"
    driver.execute_script(f"for (const row of {rows}) if (row.textContent.includes('<')) row.remove()")  # a long name
    assert driver.execute_script(widths)[:2] == [0, 0]  # the plan and the estimates


def test_a_search_says_how_many_parameters_are_not_on_the_page(driver, tmp_path):
    page = Page("a page")
    add_coefficients(page, [Coefficient(f"x{i}", 1.0, 0.1, 0.8, 1.2) for i in range(3)], 0.95, 1003)
    page.write(tmp_path / "some.html")
    open_page(driver, tmp_path / "some.html")
    box = driver.find_element("css selector", "input[type=search]")
    box.send_keys("x77")
    told = driver.find_element("id", "coefficients-count").text
    assert told == "0 of 3 shown; 1,000 more are not on this page"


def _luminance(colour):
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_light_and_dark(driver, pages, scheme):
    open_page(driver, pages / "fit.html", prefers_color_scheme=scheme)
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    paper = _luminance(driver.execute_script(style, "body", "backgroundColor"))
    assert (paper < 0.1) == (scheme == "dark")
    for selector, name in (
        ("body", "color"),
        (".note", "color"),
        ("a", "color"),
        (".accent", "stroke"),
        (".blue", "stroke"),
    ):
        ink = _luminance(driver.execute_script(style, selector, name))
        contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert contrast >= (4.5 if name == "color" else 3.0), (selector, contrast)


def test_on_paper_controls_are_gone_and_tables_are_whole(driver, pages):
    open_page(driver, pages / "fit.html", media="print", prefers_color_scheme="dark")
    assert not driver.find_element("css selector", ".controls").is_displayed()
    assert not driver.find_element("tag name", "nav").is_displayed()
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert driver.execute_script(style, ".tall", "maxHeight") == "none"
    assert driver.execute_script(style, "body", "backgroundColor") == "rgb(255, 255, 255)"
    # Chromium leaves buttons out of the heads that it repeats on each page.
    assert driver.execute_script(style, "th button", "display") == "contents"


@pytest.mark.parametrize("name", ["fit", "plan", "tagger"])
def test_screen_readers_have_a_name_for_everything(driver, pages, name):
    open_page(driver, pages / f"{name}.html")
    unnamed = driver.execute_script(
        """return [
            ...document.querySelectorAll('svg.chart:not([aria-label]), svg.interval[role=img]:not([aria-label])'),
            ...document.querySelectorAll('[tabindex]:not([aria-label]):not(pre)'),
            ...[...document.querySelectorAll('input, select')].filter(e => !e.labels.length),
            ...document.querySelectorAll('table:not(:has(caption)), thead th:not([scope])'),
        ].map(e => e.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    assert driver.execute_script("return document.documentElement.lang") == "en"
