"""Types of the compiled kernels (sources in kernels/ at the root of the repository)."""

from typing import Any

from numpy import float64, int32, int64, uint8
from numpy.typing import NDArray

def isa() -> str: ...
def uniforms(seed: int, stream: int, rows: NDArray[int64], out: NDArray[float64]) -> None: ...
def exp_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def log_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...

class Programs:
    def __init__(self, *arrays: NDArray[Any]) -> None: ...

def eliminate(
    programs: Programs,
    potential: NDArray[float64],
    logarithm: NDArray[float64],
    direction: NDArray[float64],
    shift: NDArray[float64],
    config_ptr: NDArray[int64],
    bases: NDArray[int64],
    weight: NDArray[float64],
    log_z: NDArray[float64],
    slope: NDArray[float64],
    marginals: NDArray[float64],
    marginal_slope: NDArray[float64],
    each: NDArray[float64],
    each_start: NDArray[int64],
    n_threads: int,
) -> int: ...
def eliminate_decode(
    programs: Programs,
    logarithm: NDArray[float64],
    shift: NDArray[float64],
    bases: NDArray[int64],
    maximise: bool,
    seed: int,
    stream: int,
    first_row: int,
    states: NDArray[int32],
) -> float: ...
def gibbs(
    log_tables: NDArray[float64],
    cardinality: NDArray[int32],
    factor_ptr: NDArray[int32],
    factor: NDArray[int32],
    stride: NDArray[int32],
    fixed: NDArray[uint8],
    entries: NDArray[int64],
    start: NDArray[int32],
    burn_in: int,
    thin: int,
    seed: int,
    stream: int,
    draws: NDArray[int32],
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

class ChainTokens:
    padded: int
    n_chunks: int
    n_hot: int
    def __init__(
        self,
        offsets: NDArray[int64],
        indptr: NDArray[int64],
        indices: NDArray[int32],
        values: NDArray[float64] | None,
        labels: NDArray[int32],
        n_labels: int,
        n_features: int,
        active: NDArray[uint8] | None = None,
        pair_ptr: NDArray[int64] | None = None,
        pair_labels: NDArray[int32] | None = None,
        edge_ptr: NDArray[int64] | None = None,
        edge_features: NDArray[int32] | None = None,
        edge_values: NDArray[float64] | None = None,
        column_ptr: NDArray[int64] | None = None,
        columns: NDArray[int32] | None = None,
        transpose: bool = True,
    ) -> None: ...

def chain_evaluate(
    tokens: ChainTokens,
    weights: tuple[NDArray[float64], ...],
    direction: tuple[NDArray[float64], ...] | None,
    families: list[Any],
    row_weight: NDArray[float64] | None,
    observed: bool,
    squares: bool,
    values: NDArray[float64],
    tangents: NDArray[float64] | None,
    residuals: NDArray[float64] | None,
    gradient: tuple[NDArray[float64], ...] | None,
    n_threads: int,
) -> None: ...
def chain_scores(
    tokens: ChainTokens, weights: tuple[NDArray[float64], ...], scores: NDArray[float64], n_threads: int
) -> None: ...
def chain_viterbi(
    offsets: NDArray[int64],
    scores: NDArray[float64],
    edges: NDArray[float64],
    n_labels: int,
    labels: NDArray[int32],
    best: NDArray[float64],
    n_threads: int,
) -> None: ...
def chain_n_best(
    offsets: NDArray[int64],
    scores: NDArray[float64],
    edges: NDArray[float64],
    n_labels: int,
    labels: NDArray[int32],
    best: NDArray[float64],
    n_threads: int,
) -> None: ...
def chain_marginals(
    offsets: NDArray[int64],
    scores: NDArray[float64],
    edges: NDArray[float64],
    n_labels: int,
    nodes: NDArray[float64],
    pairs: NDArray[float64] | None,
    log_z: NDArray[float64],
    n_threads: int,
) -> None: ...
