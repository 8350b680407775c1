"""The number of threads: whose it is, its bounds, and processes that are forked after parallel work."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import fieldfit as ff
from fieldfit.threads import MOST_THREADS, get_threads, one_blas_thread, processors, use_threads
from fieldfit.types import FieldfitError

FORKED = """
import multiprocessing
import numpy as np
import fieldfit as ff
from fieldfit.threads import get_threads

MODEL = ff.BoltzmannMachine(12)
X = np.random.default_rng(0).integers(0, 2, (4000, 12))

def work(_):
    return get_threads(), ff.fit(MODEL, X, "PL1 + PL2", sigma2=1.0).theta.tobytes()

if __name__ == "__main__":
    threads, here = work(0)
    assert threads == 2, threads
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for threads, there in pool.map(work, range(2)):
            assert threads == 1, threads
            assert there == here
    assert get_threads() == 2
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_forked_after_a_parallel_fit_fit_with_one_thread_and_end():
    environment = os.environ | {"FIELDFIT_NUM_THREADS": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", FORKED], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_before_parallel_work_keeps_its_threads():
    code = "import os\nfrom fieldfit.threads import get_threads\n_ = os.wait() if os.fork() else print(get_threads())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"FIELDFIT_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["3"]


def test_blocks_in_concurrent_threads_do_not_see_each_other():
    """One block ends while the other is open; a global that is saved and restored would keep the other's number."""
    default = get_threads()
    both, first_done = threading.Barrier(2), threading.Event()
    seen = []

    def first():
        with use_threads(1):
            both.wait()
            seen.append(get_threads())
        first_done.set()

    def second():
        with use_threads(3):
            both.wait()
            first_done.wait()
            seen.append(get_threads())

    workers = [threading.Thread(target=run) for run in (first, second)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [1, 3]
    assert get_threads() == default


def test_blocks_nest_and_stand_above_the_setting_of_the_process():
    ff.set_threads(2)
    with use_threads(5):
        with use_threads(None):
            assert get_threads() == 5
        with use_threads(1):
            assert get_threads() == 1
        assert get_threads() == 5
    assert get_threads() == 2
    for wrong in (0, -1, 1.5):
        with pytest.raises(FieldfitError, match="at least 1"), use_threads(wrong):  # type: ignore[arg-type]
            pass
    assert get_threads() == 2


@pytest.mark.parametrize("count", [100_000, 10**9, 10**30])
def test_more_threads_than_a_machine_can_start_are_not_asked_for(count, monkeypatch):
    most = max(MOST_THREADS, processors())
    with use_threads(count):
        assert get_threads() == most
    ff.set_threads(count)
    try:
        assert get_threads() == most
    finally:
        ff.set_threads(None)
    monkeypatch.setenv("FIELDFIT_NUM_THREADS", str(count))
    assert get_threads() == most


@pytest.mark.parametrize("text", ["0", "-2", "two", "²", "9" * 5000])
def test_a_number_of_threads_that_is_none(text, monkeypatch):
    monkeypatch.setenv("FIELDFIT_NUM_THREADS", text)
    with pytest.raises(FieldfitError, match="FIELDFIT_NUM_THREADS must be an integer of at least 1"):
        get_threads()


def test_a_fit_with_more_threads_than_a_machine_can_start():
    words, tags = [[["a"], ["b"], ["a"]]] * 20, [["x", "y", "x"]] * 20
    tagger = ff.CRFTagger("FL", n_jobs=100_000).fit(words, tags)
    assert list(tagger.predict(words[:1])[0]) == ["x", "y", "x"]


def test_python_threads_share_the_kernels_threads_and_get_the_same_results():
    """More calls at once than there are threads: each goes on by itself where nobody comes to help."""
    model = ff.BoltzmannMachine(20)
    x = np.random.default_rng(0).integers(0, 2, (4000, 20))
    theta = np.random.default_rng(1).normal(size=model.n_parameters)
    dataset = model.read(x)
    selection = ff.Policy.parse("PL1 + PL2").bind(model.structure(dataset)).draw(0, 0, dataset.n)
    problem = model.compile(dataset, selection)
    with use_threads(1):
        value, gradient = problem.value_grad(theta)

    def evaluate(_):
        with use_threads(3):
            return [problem.value_grad(theta) for _ in range(10)]

    with ThreadPoolExecutor(8) as pool:
        for results in pool.map(evaluate, range(8)):
            for other, other_gradient in results:
                assert other == value
                np.testing.assert_array_equal(other_gradient, gradient)


def test_the_last_of_several_threads_sets_the_threads_of_the_libraries_back():
    libraries = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    before = [library.num_threads for library in libraries]
    entered, left = threading.Event(), threading.Event()

    def overlap():
        with one_blas_thread():
            entered.set()
            left.wait()
            assert all(library.num_threads == 1 for library in libraries)

    try:
        for library in libraries:
            library.set_num_threads(2)
        with ThreadPoolExecutor(1) as pool:
            with one_blas_thread():
                other = pool.submit(overlap)
                entered.wait()
            left.set()
            other.result()
        assert [library.num_threads for library in libraries] == [2] * len(libraries)
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)
