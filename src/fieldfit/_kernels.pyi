"""Types of the compiled kernels (sources in kernels/ at the root of the repository)."""

from numpy import float64, int64, uint8
from numpy.typing import NDArray

def isa() -> str: ...
def uniforms(seed: int, stream: int, rows: NDArray[int64], out: NDArray[float64]) -> None: ...
def exp_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def log_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def bernoulli_count(
    seed: int,
    stream: int,
    first_row: int,
    sizes: NDArray[int64],
    lam: float,
    keep: NDArray[float64],
    active: NDArray[uint8],
    counts: NDArray[int64],
    n_threads: int,
) -> None: ...
def bernoulli_fill(
    seed: int,
    stream: int,
    first_row: int,
    sizes: NDArray[int64],
    lam: float,
    keep: NDArray[float64],
    active: NDArray[uint8],
    indptr: NDArray[int64],
    indices: NDArray[int64],
    n_threads: int,
) -> None: ...
def unrank_subsets(ranks: NDArray[int64], m: int, k: int, out: NDArray[int64], n_threads: int) -> None: ...
def rank_subsets(subsets: NDArray[int64], m: int, out: NDArray[int64], n_threads: int) -> None: ...
def partition_ranks(
    seed: int,
    stream: int,
    rows: NDArray[int64],
    m: int,
    k: int,
    blocks: NDArray[int64],
    remainder: NDArray[int64],
    n_threads: int,
) -> None: ...
