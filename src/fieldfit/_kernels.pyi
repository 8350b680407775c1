"""Types of the compiled kernels (sources in kernels/ at the root of the repository)."""

from typing import Any

from numpy import float32, float64, int32, int64, uint8, uint32, uint64
from numpy.typing import NDArray

def isa() -> str: ...
def uniforms(seed: int, stream: int, rows: NDArray[int64], out: NDArray[float64]) -> None: ...
def exp_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def log_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...

class Programs:
    def __init__(self, *arrays: NDArray[Any]) -> None: ...

def eliminate(
    programs: Programs,
    logarithm: NDArray[float64],
    direction: NDArray[float64],
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
    n_threads: int,
) -> None: ...
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

class NameTable:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def add(self, names: list[str]) -> None: ...
    def names(self) -> list[str]: ...
    def encode(
        self, items: list[Any], grow: bool
    ) -> tuple[NDArray[int64], NDArray[int32], NDArray[float64] | None, tuple[int, str] | None]: ...

def append_pair(
    new_point: NDArray[float64],
    old_point: NDArray[float64],
    new_gradient: NDArray[float64],
    old_gradient: NDArray[float64],
    search_gradient: NDArray[float64],
    diagonal: NDArray[float64] | None,
    new_image: NDArray[float64] | None,
    old_image: NDArray[float64] | None,
    steps: NDArray[float32] | NDArray[float64],
    changes: NDArray[float32] | NDArray[float64],
    used: int,
    slot: int,
    sums: NDArray[float64],
    n_threads: int,
) -> None: ...
def combine_rows(
    point: NDArray[float64],
    search_gradient: NDArray[float64],
    diagonal: NDArray[float64] | None,
    image: NDArray[float64] | None,
    steps: NDArray[float32] | NDArray[float64],
    changes: NDArray[float32] | NDArray[float64],
    step_weight: NDArray[float64],
    change_weight: NDArray[float64],
    scale: float,
    step: float,
    direction: NDArray[float64],
    trial: NDArray[float64],
    n_threads: int,
) -> float: ...
def step_along(
    point: NDArray[float64],
    direction: NDArray[float64],
    step: float,
    trial: NDArray[float64],
    n_threads: int,
) -> None: ...
def keep_gradient(
    gradient: NDArray[float64], direction: NDArray[float64] | None, kept: NDArray[float64], n_threads: int
) -> tuple[float, float, bool]: ...
def pseudo_gradient(
    point: NDArray[float64],
    gradient: NDArray[float64],
    l1: NDArray[float64],
    pseudo: NDArray[float64],
    n_threads: int,
) -> tuple[float, float]: ...
def cg_update(
    alpha: float,
    p: NDArray[float64],
    product: NDArray[float64],
    diagonal: NDArray[float64] | None,
    x: NDArray[float64],
    r: NDArray[float64],
    z: NDArray[float64] | None,
    n_threads: int,
) -> tuple[float, float, float]: ...
def cg_direction(beta: float, z: NDArray[float64], p: NDArray[float64], n_threads: int) -> None: ...
def inner_product(a: NDArray[float64], b: NDArray[float64], n_threads: int) -> float: ...

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
def chain_sequence_scores(
    tokens: ChainTokens,
    weights: tuple[NDArray[float64], ...],
    families: list[Any],
    first: int,
    transition_places: NDArray[int64],
    start: bool,
    end: bool,
    residuals: NDArray[float64],
    scores: NDArray[float64],
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
def pairwise_moments(
    edges: NDArray[int32],
    codes: NDArray[uint8],
    residual: NDArray[float64],
    pair_terms: NDArray[float64],
    weight: NDArray[float64],
    state0: float,
    gap: float,
    families: int,
    out: NDArray[float64],
    n_threads: int,
) -> None: ...
def pairwise_information(
    codes: NDArray[uint8],
    edge_number: NDArray[int32],
    matrix: NDArray[float64],
    bias: NDArray[float64],
    targets: NDArray[int32],
    beta: NDArray[float64],
    row_weight: NDArray[float64],
    indptr: NDArray[int64],
    component: NDArray[int32],
    entry_weight: NDArray[float64],
    out: NDArray[float64],
    n_threads: int,
) -> None: ...
def lasso_descent(
    gradient: NDArray[float64],
    scale: NDArray[float64],
    left: NDArray[float64],
    right: NDArray[float64],
    curvature: NDArray[float64],
    point: NDArray[float64],
    l1: NDArray[float64],
    limit: int,
    tol: float,
    step: NDArray[float64],
    products: NDArray[float64],
) -> int: ...
