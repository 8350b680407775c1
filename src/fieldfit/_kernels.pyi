"""Types of the compiled kernels (sources in kernels/ at the root of the repository)."""

from numpy import float64, int32, int64, uint32, uint64
from numpy.typing import NDArray

def isa() -> str: ...
def uniforms(seed: int, stream: int, rows: NDArray[int64], out: NDArray[float64]) -> None: ...
def exp_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def log_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def pairwise(
    mode: int,
    n: int,
    columns: NDArray[uint64],
    rows: NDArray[uint32],
    edges: NDArray[int32],
    adjacent_pointer: NDArray[int64],
    adjacent: NDArray[int32],
    adjacent_edge: NDArray[int32],
    q: NDArray[float64],
    bias: NDArray[float64],
    dq: NDArray[float64],
    dbias: NDArray[float64],
    state0: float,
    state_gap: float,
    meta: NDArray[int64],
    targets: NDArray[int32],
    pairs: NDArray[int32],
    beta: NDArray[float64],
    row_weight: NDArray[float64],
    indptr: NDArray[int64],
    entry_component: NDArray[int32],
    entry_weight: NDArray[float64],
    edges_out: NDArray[float64],
    biases_out: NDArray[float64],
    row_out: NDArray[float64],
    entry_out: NDArray[float64],
    residual: NDArray[float64],
    pair_terms: NDArray[float64],
    n_threads: int,
) -> float: ...
