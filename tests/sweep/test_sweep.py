"""Sweeps: grids, seeds, stores and their mistakes, results and warm starts."""

import hashlib
import json
import sqlite3
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sweep_cells
from hypothesis import given
from hypothesis import strategies as st

import fieldfit as ff
from fieldfit.sweep import Sweep, open_sweep, read_sweep, run_sweep, seed_of
from fieldfit.sweep.fit_table import fill_policy, fit_table, fold_masks
from fieldfit.sweep.progress import Bar
from fieldfit.sweep.store import Counts, Store
from fieldfit.types import FieldfitError, FileAccessError, FileFormatError, SweepError


def numbers(coordinates, seed):
    """Depends on the seed, so that a wrong one shows."""
    draw = float(np.random.default_rng(seed).normal())
    return {"value": coordinates["a"] + draw, "vector": np.arange(3) * draw, "nothing": None, "missing": np.nan}


def results(path):
    frame = open_sweep(path).frame()
    return {(a, b): (v, s) for a, b, v, s in frame[["a", "b", "value", "cell_seed"]].itertuples(index=False)}


@pytest.mark.slow
def test_results_depend_neither_on_order_nor_on_workers(tmp_path):
    axes: dict[str, Any] = {"a": [1, 2, 3], "b": ["x", "y"]}
    run_sweep(Sweep(numbers, axes, seed=5), tmp_path / "one")
    run_sweep(Sweep(numbers, {"b": ["y", "x"], "a": [3, 1, 2]}, seed=5), tmp_path / "two", n_jobs=2)
    assert results(tmp_path / "one") == results(tmp_path / "two")
    run_sweep(Sweep(numbers, axes, seed=6), tmp_path / "three")
    assert not set(results(tmp_path / "one").values()) & set(results(tmp_path / "three").values())
    assert len({seed for _, seed in results(tmp_path / "one").values()}) == 6


def test_seeds_are_fixed_for_ever():
    text = b'{"coordinates":{"beta":1,"lam":0.5},"seed":0}'
    expected = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") // 2
    assert seed_of(0, {"lam": 0.5, "beta": 1}) == seed_of(0, {"beta": 1.0, "lam": 0.5}) == expected


@given(
    st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.booleans()),
    st.integers(0, 2**64),
)
def test_any_coordinates_have_a_seed_that_numpy_and_sqlite_can_hold(coordinates, seed):
    assert 0 <= seed_of(seed, coordinates) < 2**63
    assert seed_of(seed, coordinates) == seed_of(seed, dict(reversed(coordinates.items())))


def test_paired_axes_do_not_change_the_seed():
    axes: dict[str, Any] = {"replicate": [0, 1, 2], "policy": ["PL1", "PL2"]}
    cells = list(Sweep(numbers, axes, paired=["policy"]).cells())
    seeds = {(cell.coordinates["replicate"], cell.coordinates["policy"]): cell.seed for cell in cells}
    assert all(seeds[k, "PL1"] == seeds[k, "PL2"] == seed_of(0, {"replicate": k}) for k in range(3))
    assert len(set(seeds.values())) == 3
    assert len({cell.key for cell in cells}) == 6
    assert Sweep(numbers, axes, paired=["policy"]).definition() != Sweep(numbers, axes).definition()
    assert "paired" not in Sweep(numbers, axes).definition()


def test_arrays_missing_values_and_times_come_back(tmp_path):
    run_sweep(Sweep(numbers, {"a": [1]}), tmp_path / "s")
    row = open_sweep(tmp_path / "s").frame().iloc[0]
    draw = float(np.random.default_rng(int(row["cell_seed"])).normal())
    assert row["value"] == 1 + draw
    assert row["vector"] == [0.0, draw, 2 * draw]
    assert row["nothing"] is None
    assert np.isnan(row["missing"])
    assert row["cell_seconds"] > 0
    assert json.loads(row["cell_versions"])["fieldfit"] == ff.__version__


def test_a_failing_cell_is_recorded_stops_nothing_and_can_be_retried(tmp_path):
    mended = tmp_path / "mended"

    def cell(coordinates, seed):
        if coordinates["a"] == 2 and not mended.exists():
            raise ValueError("two is not allowed")
        return {"value": coordinates["a"]}

    sweep = Sweep(cell, {"a": [1, 2, 3]})
    summary = run_sweep(sweep, tmp_path / "s")
    assert (summary.done, summary.failed) == (2, 1)
    frame: Any = open_sweep(tmp_path / "s").frame().set_index("a")
    assert "ValueError: two is not allowed" in frame.loc[2, "cell_error"]
    assert "Traceback" in frame.loc[2, "cell_error"]
    assert "1 × ValueError: two is not allowed" in open_sweep(tmp_path / "s").summary()
    before = frame.loc[1, "cell_finished"], frame.loc[1, "cell_seconds"]
    mended.touch()
    assert run_sweep(sweep, tmp_path / "s").failed == 1  # not by itself
    assert run_sweep(sweep, tmp_path / "s", retry_failed=True).done == 3
    frame = open_sweep(tmp_path / "s").frame().set_index("a")
    assert (frame.loc[1, "cell_finished"], frame.loc[1, "cell_seconds"]) == before


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3, "returns a dict"),
        ({"a": 1}, "neither a coordinate"),
        ({"cell_x": 1}, "begin with cell_"),
        ({"x": {1: 2}}, "'x' is of type dict"),
        ({"x": "y" * 1_000_001}, "at most 1,000,000 are kept"),
    ],
)
def test_results_that_are_no_lines_of_a_table_are_errors_of_the_cell(tmp_path, returned, message):
    run_sweep(Sweep(lambda c, s: returned, {"a": [1]}), tmp_path / "s")
    assert message in open_sweep(tmp_path / "s").frame()["cell_error"][0]


def test_warnings_and_system_exit_stay_with_their_cell(tmp_path):
    def cell(coordinates, seed):
        import warnings

        warnings.warn("look out", stacklevel=1)
        if coordinates["a"] == 1:
            sys.exit(3)
        return {}

    run_sweep(Sweep(cell, {"a": [1, 2]}), tmp_path / "s")
    frame = open_sweep(tmp_path / "s").frame()
    assert list(frame["cell_status"]) == ["failed", "done"]
    assert list(frame["cell_warnings"]) == ["UserWarning: look out"] * 2


def test_a_result_may_be_called_state_where_there_are_no_warm_starts(tmp_path):
    run_sweep(Sweep(lambda c, s: {"state": "solid"}, {"a": [1]}), tmp_path / "s")
    assert list(open_sweep(tmp_path / "s").frame()["state"]) == ["solid"]


# --- stores --------------------------------------------------------------------------------------------------------


def other(coordinates, seed):
    return {"value": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": {"a": [1, 2], "c": [1]}}, r"axes.c was absent and is \[1\]"),
        ({"axes": {"a": [1]}}, r"axes.a was \[1, 2\] and is \[1\]; .*|axes.a was \[1, 2\] and is \[1\]"),
        ({"constants": {"k": 2}}, "constants.k was 1 and is 2"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"version": 2}, "version was 1 and is 2"),
        ({"experiment": other}, "experiment was .*numbers.* and is .*other"),
    ],
)
def test_a_store_refuses_another_definition(tmp_path, change, message):
    given: dict[str, Any] = {"experiment": numbers, "axes": {"a": [1, 2]}, "constants": {"k": 1}}
    run_sweep(Sweep(**given), tmp_path / "s")
    for extend in (False, True):
        with pytest.raises(SweepError, match=f"made by another definition of this sweep: {message}"):
            run_sweep(Sweep(**given | change), tmp_path / "s", extend=extend)


def test_a_changed_function_of_the_same_name_is_noticed_and_a_changed_comment_is_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing_cells.py"

    def sweep(text):
        module.write_text(text)
        sys.modules.pop("changing_cells", None)
        import importlib
        import linecache

        importlib.invalidate_caches()
        linecache.clearcache()
        (tmp_path / "__pycache__").exists() and [p.unlink() for p in (tmp_path / "__pycache__").glob("changing*")]
        return Sweep("changing_cells:cell", {"a": [1]})

    run_sweep(sweep("def cell(c, seed):\n    return {'v': 1}\n"), tmp_path / "s")
    run_sweep(sweep("def cell(c, seed):\n    # why\n    return {'v':  1}\n"), tmp_path / "s")
    with pytest.raises(SweepError, match="the experiment's own code has changed"):
        run_sweep(sweep("def cell(c, seed):\n    return {'v': 2}\n"), tmp_path / "s")


def test_axes_may_grow_when_asked(tmp_path):
    run_sweep(Sweep(numbers, {"a": [1, 3]}), tmp_path / "s")
    old = open_sweep(tmp_path / "s").frame().set_index("a")
    grown = Sweep(numbers, {"a": [1, 2, 3]})
    with pytest.raises(SweepError, match="run with --extend"):
        run_sweep(grown, tmp_path / "s")
    assert run_sweep(grown, tmp_path / "s", extend=True).done == 3
    new = open_sweep(tmp_path / "s").frame().set_index("a")
    assert list(new.index) == [1, 2, 3]
    pd.testing.assert_frame_equal(new.loc[[1, 3]], old)


def test_files_that_are_no_stores_are_refused_and_left_alone(tmp_path):
    sweep = Sweep(numbers, {"a": [1]})
    text = tmp_path / "text"
    text.write_text("not a database " * 100)
    foreign = tmp_path / "foreign"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    for path, message in ((text, "not a sweep store, or it is damaged"), (foreign, "SQLite file of something else")):
        before = path.read_bytes()
        for attempt in (lambda p=path: run_sweep(sweep, p), lambda p=path: open_sweep(p)):
            with pytest.raises(FileFormatError, match=message):
                attempt()
        assert path.read_bytes() == before
    with pytest.raises(FileAccessError, match="There is no sweep store"):
        open_sweep(tmp_path / "absent")
    with pytest.raises(FileAccessError, match=r"folder .* does not exist"):
        run_sweep(sweep, tmp_path / "no" / "s")
    assert not (tmp_path / "absent").exists()


def test_a_damaged_store_or_one_of_another_version_says_so(tmp_path):
    sweep = Sweep(numbers, {"a": list(range(200))})
    path = tmp_path / "s"
    Store.for_sweep(path, sweep).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * 8192 + whole[12288:])
    with pytest.raises(FileFormatError, match="damaged"):
        run_sweep(sweep, path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="damaged"):
        open_sweep(path)
    path.write_bytes(whole)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FileFormatError, match="store format 99"):
        open_sweep(path)


# --- definitions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("experiment = 'fit-table'", "lacks 'axes'"),
        ("experiment = 'no'\n[axes]\na = [1]", "no experiment 'no'; built in are"),
        ("experiment = 'sys:nothing'\n[axes]\na = [1]", "'sys' has no function 'nothing'"),
        ("experiment = 'no_such_module:f'\n[axes]\na = [1]", "cannot be imported"),
        ("experiment = 'fit-table'\n[axes]\na = []", "'a' needs a list of at least one value"),
        ("experiment = 'fit-table'\n[axes]\na = [1, 1.0]", "same value twice"),
        ("experiment = 'fit-table'\n[axes]\na = [[1]]", "values are finite numbers, text"),
        ("experiment = 'fit-table'\n[axes]\na = [nan]", "values are finite numbers, text"),
        ("experiment = 'fit-table'\n[axes]\na = {start = 1, stop = 2}", "a range is written as"),
        ("experiment = 'fit-table'\n[axes]\na = {start = 0, stop = 2, count = 3, scale = 'log'}", "must be positive"),
        ("experiment = 'fit-table'\nspeed = 1\n[axes]\na = [1]", "unknown key 'speed'"),
        ("experiment = 'fit-table'\nseed = 'x'\n[axes]\na = [1]", "seed of a sweep is an integer"),
        ("experiment = 'fit-table'\n[constants]\na = 1\n[axes]\na = [1]", "an axis and a constant"),
        ("experiment = 'sweep_cells:slow'\nwarm_start_axis = 'a'\n[axes]\na = [1]", "has no parameter 'start'"),
        ("experiment = 'fit-table'\nwarm_start_axis = 'b'\n[axes]\na = [1]", "which is not an axis"),
        ("experiment = 'fit-table'\n[axes]\na = {start = 0, stop = 2, count = 2000000}", "at most 1,000,000"),
        ("experiment = 'fit-table'\npaired = ['b']\n[axes]\na = [1]", "must be a list of axes"),
        ("experiment = 'fit-table'\npaired = 'a'\n[axes]\na = [1]", "must be a list of axes"),
        ("experiment = ", "is not a TOML file"),
    ],
)
def test_sweep_files_with_mistakes_are_refused_with_a_sentence(tmp_path, text, message):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(SweepError, match=message):
        read_sweep(tmp_path / "sweep.toml")


def test_ranges(tmp_path):
    text = "experiment='fit-table'\n[axes]\nlam={start=0.1,stop=1,count=10}\nsigma2={start=1,stop=1000,count=4,scale='log'}"
    (tmp_path / "s.toml").write_text(text)
    axes = read_sweep(tmp_path / "s.toml").axes
    assert axes["lam"] == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert axes["sigma2"] == (1.0, 10.0, 100.0, 1000.0)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_ranges_of_integers_beyond_any_type(tmp_path, scale):
    (tmp_path / "s.toml").write_text(
        f"experiment='fit-table'\n[axes]\nn={{start=1,stop={'9' * 40},count=2,scale='{scale}'}}"
    )
    assert read_sweep(tmp_path / "s.toml").axes["n"] == (1.0, 1e40)


# --- the built-in experiment ---------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    model = ff.BoltzmannMachine(4)
    values = model.sample(np.linspace(-1, 1, 6), 300, 1).values
    pd.DataFrame(values, columns=list("wxyz")).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


SWEEP = """
experiment = "fit-table"
seed = 3
{extra}
[constants]
data = "table.csv"
policy = "PL1@{{1-beta}} + {{lam}}*PL2@{{beta}}"
beta = 0.25
folds = 3
tol = 1e-9
[axes]
lam = [0.5, 1.0]
fold = [0, 1, 2]
sigma2 = [1.0, 10.0]
"""


@pytest.mark.slow
def test_fit_table_is_what_fit_gives_on_each_fold(tmp_path, table):
    (tmp_path / "s.toml").write_text(SWEEP.format(extra=""))
    sweep = read_sweep(tmp_path / "s.toml")
    assert run_sweep(sweep, tmp_path / "s").done == 12
    frame: Any = open_sweep(tmp_path / "s").frame()
    data = pd.read_csv(table).to_numpy()
    model = ff.BoltzmannMachine(4)
    for row in frame[::5].itertuples():
        train, test = fold_masks(300, 3, row.fold, 0)
        policy = f"PL1@0.75 + {row.lam}*PL2@0.25"
        fit = ff.fit(model, data[train], policy, sigma2=row.sigma2, random_state=row.cell_seed, tol=1e-9)
        assert row.objective == fit.objective
        assert row.flops == fit.cost.flops
        assert row.test_nll == pytest.approx(-model.conditional(fit.theta, data[test], range(4)).mean(), rel=1e-12)
        assert row.train_nll == pytest.approx(-model.conditional(fit.theta, data[train], range(4)).mean(), rel=1e-12)
    assert (frame["n_test"] == 100).all()


@pytest.mark.slow
def test_warm_starts_change_results_by_no_more_than_the_tolerance(tmp_path, table):
    (tmp_path / "cold.toml").write_text(SWEEP.format(extra=""))
    (tmp_path / "warm.toml").write_text(SWEEP.format(extra='warm_start_axis = "sigma2"'))
    frames = []
    for name, jobs in (("cold", 1), ("warm", 1), ("warm", 2)):
        store = tmp_path / f"{name}{jobs}"
        run_sweep(read_sweep(tmp_path / f"{name}.toml"), store, n_jobs=jobs)
        frames.append(open_sweep(store).frame())
    cold, warm, again = frames
    assert (cold["cell_status"] == "done").all()
    np.testing.assert_allclose(warm["test_nll"], cold["test_nll"], rtol=1e-7)
    assert (warm["evaluations"] < cold["evaluations"]).any()  # they were used
    assert list(warm["test_nll"]) == list(again["test_nll"])  # and do not depend on the workers
    assert "state" not in warm.columns


@pytest.mark.slow
def test_a_store_notices_that_the_data_have_changed_and_not_that_the_folder_has(tmp_path, table):
    (tmp_path / "s.toml").write_text(SWEEP.format(extra=""))
    run_sweep(read_sweep(tmp_path / "s.toml"), tmp_path / "s")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("s.toml", "table.csv"):
        (elsewhere / name).write_bytes((tmp_path / name).read_bytes())
    run_sweep(read_sweep(elsewhere / "s.toml"), tmp_path / "s")
    table.write_text(table.read_text() + "1,1,1,1\n")
    with pytest.raises(SweepError, match=r"another definition of this sweep: inputs\.data was"):
        run_sweep(read_sweep(tmp_path / "s.toml"), tmp_path / "s")


def test_fit_table_takes_letters_missing_values_and_fields_too_wide_for_an_exact_likelihood(tmp_path):
    random = np.random.default_rng(0)
    letters = pd.DataFrame({"x": random.choice(list("ab"), 80), "y": random.choice(list("bc"), 80)})
    missing = pd.DataFrame(random.integers(0, 2, (80, 3)).astype(float), columns=list("xyz"))
    missing.iloc[5, 1] = np.nan
    wide = pd.DataFrame(random.integers(0, 2, (80, 40)), columns=[f"v{j}" for j in range(40)])
    paths = []
    for name, frame in (("letters", letters), ("missing", missing), ("wide", wide)):
        paths.append(str(tmp_path / f"{name}.csv"))
        frame.to_csv(paths[-1], index=False)
    common = {"policy": "PL1", "sigma2": 1.0, "folds": 2, "fold": 0}
    first = fit_table({"data": paths[0], "model": "potts", **common}, 1)
    second = fit_table({"data": paths[1], "biases": True, **common}, 1)
    third = fit_table({"data": paths[2], **common}, 1)
    assert len(first["state"]) == 9 + 2 * 3  # three states each, though no column shows all of them
    assert 0 < first["test_nll"] < 3
    again = fit_table({"data": paths[1], "biases": True, **common}, 1, start=np.full(6, 5.0))
    assert again["objective"] == second["objective"]  # missing values: not concave, so the start is not used
    assert third["test_nll"] is None
    assert third["test_pl1"] > 0


def test_policy_templates():
    assert fill_policy("PL1@{1-b} + {lam}*PL2@{b}", {"b": 0.9, "lam": 1}) == ("PL1@0.1 + 1*PL2@0.9", {"b", "lam"})
    with pytest.raises(SweepError, match="needs 'lam'"):
        fill_policy("{lam}*PL2", {})


def test_coordinates_that_do_nothing_are_an_error(tmp_path, table):
    sweep = Sweep("fit-table", {"lam": [0.1]}, {"data": "table.csv", "policy": "PL1"}, folder=tmp_path)
    run_sweep(sweep, tmp_path / "s")
    assert "does not use 'lam'" in open_sweep(tmp_path / "s").frame()["cell_error"][0]


def test_export(tmp_path):
    run_sweep(Sweep(numbers, {"a": [1, 2]}), tmp_path / "s")
    opened = open_sweep(tmp_path / "s")
    assert opened.export(tmp_path / "out.csv") == 2
    read = pd.read_csv(tmp_path / "out.csv")
    assert list(read["value"]) == list(opened.frame()["value"])
    assert list(read.columns) == list(opened.frame().columns)
    with pytest.raises(SweepError, match=r"exported to a \.csv or \.parquet file"):
        opened.export(tmp_path / "out.xlsx")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(FieldfitError, match="Parquet needs pyarrow"):
            opened.export(tmp_path / "out.parquet")
    else:
        opened.export(tmp_path / "out.parquet")
        assert list(pd.read_parquet(tmp_path / "out.parquet")["value"]) == list(opened.frame()["value"])


def test_lines_tell_how_far_it_is(tmp_path, capsys):
    run_sweep(sweep_cells.make(tmp_path / "log", seconds=0.0, a=1, b=3), tmp_path / "s", progress="lines")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "sweep: 0 of 3 cells done, 0 failed, time left unknown"
    assert said[-1] == "sweep: 3 of 3 cells done, 0 failed"


def test_the_bar_tells_cells_failures_and_time_left(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("fieldfit.sweep.progress.time.monotonic", lambda: now[0])
    bar = Bar("votes")
    bar.update(Counts(waiting=5, running=1, done=2, failed=1, seconds=1.0))
    now[0] += 10  # ten seconds later three more are done
    bar.update(Counts(waiting=2, running=1, done=5, failed=1, seconds=1.0))
    bar.close()
    said = capsys.readouterr().err
    assert "votes" in said
    assert "6/9 cells" in said
    assert "1 failed" in said
    assert "10 s left" in said


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE cells SET suspect = 2 WHERE position = 1",
        "UPDATE cells SET status = 'running', worker = NULL WHERE position = 1",
        "UPDATE cells SET predecessor = key WHERE position = 1",
        "UPDATE cells SET predecessor = 'nowhere' WHERE position = 1",
        "UPDATE cells SET coordinates = x'ff' WHERE position = 1",
        "UPDATE cells SET attempts = 'many' WHERE position = 1",
        "UPDATE meta SET value = '[1]' WHERE name = 'definition'",
        "UPDATE meta SET value = '{}' WHERE name = 'definition'",
        "UPDATE workers SET heartbeat = 'soon'",
    ],
)
def test_a_store_whose_contents_were_changed_is_refused_at_once(tmp_path, change):
    path = tmp_path / "s"
    sweep = Sweep(numbers, {"a": [1, 2]})
    run_sweep(sweep, path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE cells SET status = 'waiting' WHERE position = 1")
        connection.execute(change)
    connection.close()
    with pytest.raises(FileFormatError, match="contents of a sweep"):
        run_sweep(sweep, path)


@pytest.mark.parametrize("result", ["[1]", "nonsense", "1" * 5000])
def test_a_result_that_is_no_object_is_refused(tmp_path, result):
    run_sweep(Sweep(numbers, {"a": [1, 2]}), tmp_path / "s")
    with sqlite3.connect(tmp_path / "s") as connection:
        connection.execute("UPDATE cells SET result = ? WHERE position = 1", (result,))
    connection.close()
    with pytest.raises(FileFormatError, match=r"s does not have .*: a cell has a result that no experiment returns"):
        open_sweep(tmp_path / "s")


@pytest.mark.parametrize(
    "axis",
    [
        "lam = [" + "1" * 5000 + "]",
        "lam = { start = " + "1" * 400 + ", stop = 2, count = 3 }",
        "lam = { start = -1e308, stop = 1e308, count = 3 }",
        "lam = { start = nan, stop = 1, count = 3 }",
        "lam = " + "[" * 3000,
    ],
)
def test_extreme_numbers_in_a_sweep_file_get_a_sentence(tmp_path, axis):
    path = tmp_path / "sweep.toml"
    path.write_text(f'experiment = "fit"\n[axes]\n{axis}\n')
    with pytest.raises(SweepError):
        read_sweep(path)


def test_a_file_of_tables_inside_tables_is_refused(tmp_path):
    (tmp_path / "deep.toml").write_text("experiment = 'fit-table'\n[axes]\n" + ".".join(["a"] * 3000) + " = [1]\n")
    with pytest.raises(SweepError, match="tables inside tables, 32 deep"):
        read_sweep(tmp_path / "deep.toml")


@pytest.mark.parametrize(
    "line",
    [
        ".".join(["a"] * 40) + " = 1",
        " . ".join(['"a.b"', "'c'"] * 20) + " = 1",
        "[" + ".".join(["a"] * 40) + "]",
        "x = { " + ".".join(["a"] * 40) + " = 1 }",
        'x = { a = """q"""", ' + ".".join(["a"] * 40) + " = 1 }",
    ],
)
def test_keys_of_many_parts_are_refused_before_the_file_is_parsed(tmp_path, monkeypatch, line):
    def parse(_):
        raise AssertionError("parsed")

    monkeypatch.setattr("fieldfit.sweep.grid.tomllib.loads", parse)
    (tmp_path / "deep.toml").write_text(line)
    with pytest.raises(SweepError, match="tables inside tables, 32 deep"):
        read_sweep(tmp_path / "deep.toml")


def test_texts_and_comments_may_have_many_dots(tmp_path):
    dots = "a." * 40
    lines = [
        'experiment = "fit-table"', f"# {dots}", "[axes]", 'policy = ["PL1"]', "[constants]",
        f'data = "{dots}\\"{dots}"',
        f"b = '{dots}'", f'c = """{dots}\n"{dots}"""', f"d = '''{dots}'{dots}'''", f'"{dots}" = 1',
        "f = [0.5, " + "0.5, " * 40 + "]",
    ]  # fmt: skip
    (tmp_path / "dots.toml").write_text("\n".join(lines))
    constants = read_sweep(tmp_path / "dots.toml").constants
    assert constants["data"] == f'{dots}"{dots}'
    assert constants[dots] == 1
