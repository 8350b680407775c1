"""Compiled kernels of fieldfit: flat arrays in, preallocated arrays out."""

from collections.abc import Sequence
import enum
from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray

def isa() -> str:
    """The instruction set that the kernels use on this processor."""

def uniforms(
    seed: int,
    stream: int,
    rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None:
    """
    Fill out[i, :] with uniforms on (0, 1) keyed by (seed, stream, rows[i]).
    """

def exp_array(
    x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None:
    """out = exp(x), within 2 ulp."""

def log_array(
    x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None:
    """out = log(x), within 2 ulp."""

class ChainTokens:
    """Sequences of tokens with features: read-only, checked once."""

    def __init__(
        self,
        *,
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        n_labels: int,
        n_features: int,
        active: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        pair_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        pair_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        edge_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        edge_features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        edge_values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        column_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        block_tokens: int = 0,
        compact: bool = False,
    ) -> None: ...
    def selected(
        self,
        *,
        keep: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pair_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pair_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        column_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
    ) -> ChainTokens:
        """
        The same tokens where all state weights but those in `keep`, and all weights of label pairs with features but `columns`, are 0; these are numbered anew.
        """

    @property
    def padded(self) -> int: ...
    @property
    def n_blocks(self) -> int: ...
    @property
    def n_chunks(self) -> int: ...
    @property
    def n_hot(self) -> int: ...

def chain_evaluate(
    tokens: ChainTokens,
    weights: tuple[
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ],
    *,
    direction: tuple[
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ]
    | None,
    families: Sequence[
        tuple[
            int,
            float,
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        ]
    ],
    row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    observed: bool,
    squares: bool,
    values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    tangents: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None,
    residuals: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    gradient: tuple[
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    ]
    | None,
    n_threads: int,
) -> None:
    """
    Log-likelihood of each sequence, token residuals and gradient, in one pass.
    """

def chain_scores(
    tokens: ChainTokens,
    weights: tuple[
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ],
    *,
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """Scores of all tokens, start and end weights included."""

def chain_state_gradient(
    tokens: ChainTokens,
    *,
    residuals: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    squares: bool,
    state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    end: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """The gradient of state, start and end weights from residuals of tokens."""

def chain_sequence_scores(
    tokens: ChainTokens,
    weights: tuple[
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ],
    *,
    families: Sequence[
        tuple[
            int,
            float,
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        ]
    ],
    first: int,
    transition_places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    start: bool,
    end: bool,
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Gradient of the log-likelihood of each sequence from `first` on, by family and without its weight.
    """

def chain_viterbi(
    *,
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    edges: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)],
    n_labels: int,
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    best: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """The best path of each sequence, and its score."""

def chain_n_best(
    *,
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    edges: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)],
    n_labels: int,
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    best: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """The best paths of each sequence, best first, and their scores."""

def chain_marginals(
    *,
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    edges: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)],
    n_labels: int,
    nodes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    pairs: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")] | None,
    log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """Node and edge marginals and log Z of each sequence, in log space."""

def chain_batches(tokens: ChainTokens) -> int:
    """The number of batches that stochastic steps go by."""

def chain_stochastic_pass(
    tokens: ChainTokens,
    weights: tuple[
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    ],
    *,
    base: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    families: Sequence[
        tuple[
            int,
            float,
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        ]
    ],
    row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    visits: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rates: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    precision: float,
    shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    transition_places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    start: bool,
    end: bool,
    values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None:
    """
    One stochastic gradient step for each visited batch; the weights change in place.
    """

def chain_mistakes_pass(
    *,
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pair_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    pair_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    transition_at: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    second: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    rule: int,
    type: int,
    c: float,
    error_sensitive: bool,
    gamma: float,
    visits: float,
) -> tuple[float, int]:
    """
    Visit sequences and learn from mistakes; returns the loss and the number of sequences with mistakes.
    """

class LabelTriples:
    """The allowed triples of labels as arcs between pairs of labels."""

    def __init__(
        self,
        *,
        n_labels: int,
        label: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pairs: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        from_state: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        to_state: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    @property
    def n_states(self) -> int: ...
    @property
    def n_arcs(self) -> int: ...

def triple_evaluate(
    triples: LabelTriples,
    *,
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    tangent_scores: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    tangent_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    families: Sequence[
        tuple[
            int,
            float,
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
        ]
    ],
    row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    squares: bool,
    chunk_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    tangents: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None,
    residuals: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    arcs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    states: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    n_threads: int,
) -> None:
    """
    Log-likelihood of each sequence, residuals of tokens and of arcs; without labels minus log Z.
    """

def triple_n_best(
    triples: LabelTriples,
    *,
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    best: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """The best paths of each sequence, best first, and their scores."""

class Programs:
    """Compiled eliminations, whose indices are checked here once."""

    def __init__(
        self,
        *,
        bucket_ptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        group_ptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        cell_count: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        group_size: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        group_cell: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bucket_size: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bucket_card: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bucket_cell: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        message_cell: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        input_ptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        input_source: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        input_map: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        maps: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bucket_var: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        separator_ptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        separator_var: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        separator_stride: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        wide: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        step_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        input_step: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        program_template: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        program_member: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        program_group: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        group_member: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        member_entry: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        entry_offset: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        program_variable: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        variable: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...

class Configurations:
    """
    Assignments of the clamped variables of programs, whose indices are checked here once for flat tables of this size.
    """

    def __init__(
        self,
        programs: Programs,
        *,
        config_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bases: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        table_size: int,
    ) -> None: ...

def eliminate(
    configurations: Configurations,
    logarithm: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    *,
    direction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None = None,
    slope: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None = None,
    marginals: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None = None,
    marginal_slope: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None = None,
    each: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None = None,
    each_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    message_memory: int,
    n_threads: int,
) -> int:
    """
    Log-partition functions, slopes and marginals of all configurations; returns the batches redone in log space. Wide eliminations keep messages of `message_memory` doubles and make the others again.
    """

def eliminate_decode(
    configurations: Configurations,
    logarithm: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    *,
    maximise: bool,
    seed: int,
    stream: int,
    first_row: int,
    states: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    message_memory: int,
) -> float:
    """
    Fill the free variables of each line of states: exact draws keyed by (seed, stream, row), or the best state.
    """

def elimination_order(
    cardinality: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    neighbours: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    *,
    limit: float,
    enough: float,
    order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
) -> tuple[int, int]:
    """
    Fill `order` with the cheapest elimination order found; returns how many were tried and a lower bound on the width. None is tried, and `order` is left alone, where every order has a table of more than `limit` entries.
    """

def gibbs(
    *,
    log_tables: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    cardinality: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    factor_ptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    factor: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    stride: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    fixed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    entries: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    start: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    burn_in: int,
    thin: int,
    seed: int,
    stream: int,
    draws: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Draw i comes from chain i mod chains, every `thin` sweeps after `burn_in` sweeps.
    """

def gibbs_pairwise(
    *,
    constant: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    neighbour: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    fixed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    start: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    burn_in: int,
    thin: int,
    seed: int,
    stream: int,
    draws: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    The same for two states, with log odds of a constant and the weights of neighbours in state 1.
    """

def bernoulli_count(
    *,
    seed: int,
    stream: int,
    first_row: int,
    sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    lam: float,
    keep: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    active: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """How many components bernoulli_fill will select in each row."""

def bernoulli_fill(
    *,
    seed: int,
    stream: int,
    first_row: int,
    sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    lam: float,
    keep: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    active: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    indices[indptr[i]:indptr[i+1]] = the selected components of row first_row + i, in increasing order.
    """

def unrank_subsets(
    ranks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    m: int,
    k: int,
    *,
    out: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    out[i] = the k-subset of 0..m-1 with this number in lexicographic order.
    """

def rank_subsets(
    subsets: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    m: int,
    *,
    out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    out[i] = the number of this increasing subset of 0..m-1 in lexicographic order.
    """

def partition_ranks(
    *,
    seed: int,
    stream: int,
    rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    m: int,
    k: int,
    blocks: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    remainder: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    A random partition of 0..m-1 for each row: the numbers of its blocks of k (increasing) and of what is left.
    """

class PairwiseBlocks:
    """
    Blocks of a binary pairwise field given all the rest, compiled with samples.

    The arrays are those of kernels/pairwise.hpp. Their indices are checked here, once.
    """

    def __init__(
        self,
        *,
        n: int,
        columns: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        rows: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        edges: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        adjacent_pointer: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        adjacent: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        adjacent_edge: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        meta: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        meta_weighted: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        targets: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pairs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        entry_component: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        entry_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    def gradient(
        self,
        q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        *,
        row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        entry_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        edges_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        biases_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        outer_out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None = None,
        n_threads: int,
    ) -> float:
        """
        The value; its gradient goes to edges_out and biases_out. outer_out[k, j] takes the sum of r_j c_k.
        """

    def hessian_product(
        self,
        q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        dq: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        dbias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        *,
        row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        entry_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        edges_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        biases_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """
        The Hessian times the direction (dq, dbias), into edges_out and biases_out.
        """

    def diagonal(
        self,
        q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        *,
        state0: float,
        state_gap: float,
        row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        entry_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        edges_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        biases_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """
        The curvature of each parameter, for variables with the states state0 and state0 + state_gap.
        """

    def values(
        self,
        q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        *,
        row_out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
        entry_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """The log-likelihood of each sample (parts, n) or listed entry."""

    def products(
        self,
        q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        dq: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        dbias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        *,
        row_out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
        entry_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """
        The score of each sample (parts, n) or listed entry times the direction (dq, dbias).
        """

    def scores(
        self,
        q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        *,
        residual: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
        pair_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """
        The residuals (n, variables) and pair terms (n, edges) of which the scores are made.
        """

class PottsField:
    """
    The samples, graph and selected components of a Potts field, checked once.

    columns (sites, samples) are the states; pointer and samples list the samples of each site's
    component, or are empty for all. With `single`, rows are in single precision. Modes are those of kernels/potts.hpp.
    """

    def __init__(
        self,
        columns: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        edges: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        q: int,
        pointer: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        single: bool,
    ) -> None: ...
    def sums(
        self,
        mode: int,
        couplings: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        fields: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        couplings_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        fields_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        *,
        beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        sample_weight: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        entry_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        couplings_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        fields_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> float:
        """
        Set the results to sums over samples and return the value (modes gradient, hessian, diagonal).
        """

    def components(
        self,
        mode: int,
        first: int,
        count: int,
        couplings: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        fields: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        couplings_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        fields_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        *,
        beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """
        Numbers of each component of some samples (modes values, products, residuals).
        """

class PottsBlocks:
    """
    The samples, graph and selected blocks of a Potts field, checked once.

    columns (sites, samples) are the states; block b has the sites members[block_pointer[b]:block_pointer[b+1]].
    pointer and samples list the samples of each block in increasing order, or are empty for all.
    Modes are those of kernels/potts.hpp.
    """

    def __init__(
        self,
        columns: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        edges: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        q: int,
        block_pointer: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pointer: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    def sums(
        self,
        mode: int,
        first: int,
        count: int,
        couplings: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        fields: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        couplings_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        fields_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        *,
        beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        sample_weight: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        rest_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        couplings_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        fields_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> float:
        """
        Set the results to sums over some samples and return the value (modes gradient, hessian, diagonal).

        rest_weight, of the listed samples or empty: each stands for all samples with its configuration of the
        rest, whose summed weight this is; the sums are those of -log Z alone.
        """

    def by_sample(
        self,
        mode: int,
        first: int,
        count: int,
        couplings: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        fields: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        couplings_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        fields_direction: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        *,
        beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        n_threads: int,
    ) -> None:
        """Sums over the blocks of each of some samples (modes values, products)."""

def centred_couplings(
    *,
    edges: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    frequencies: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    precision: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    vector: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    fields: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    floor: float,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    shift: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Divide couplings by their curvature near independence; `shift` gets what belongs to the fields.
    """

def count_neighbours(
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    least: int,
    out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Set out[i] to the number of rows of codes that equal row i in at least `least` columns, itself included.
    """

MOST_MISSING: int = 24

def missing_rows(
    *,
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    pointer: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    missing: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    field: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    scale: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    weights_tangent: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    field_tangent: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    turned: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    ones: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    both: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    cross: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    value_tangent: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None,
    turned_tangent: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    ones_tangent: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None,
    both_tangent: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None,
    cross_tangent: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    n_threads: int,
) -> None:
    """
    PL1 of rows with missing values: what values, gradients and, with tangents, Hessian products are made of.
    """

def pairwise_moments(
    *,
    edges: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    residual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pair_terms: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    state0: float,
    gap: float,
    families: int,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Add the weighted products of the scores of families f <= g along each edge to out (families, families, edges).
    """

def list_code_pairs(
    *,
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    place: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
) -> None:
    """
    List the rows of codes in which both of two codes are not 0, for each number of place (variables, variables).
    """

def row_grams(
    *,
    x: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Add the sum of x x' over the rows of x in each list to out (lists, width, width), each list by one thread.
    """

def pairwise_information(
    *,
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    edge_number: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    bias: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    targets: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    component: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    entry_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Add the information of the blocks to out (edges and biases, squared): the covariances of their statistics.
    """

class NameTable:
    """Different names with codes in order of arrival."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def add(self, names: list[str]) -> None:
        """Add the names that are new."""

    def names(self) -> list[str]:
        """The names in order of their codes."""

    def encode(
        self, items: list[Any], grow: bool
    ) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float64] | None, tuple[int, str] | None]:
        """
        The attributes of each item: (counts, codes, values or None where all are one, failure or None).
        """

class Derivation(enum.Enum):
    """How a text is made from a word."""

    none = 0

    lower = 1

    shape = 2

    stop = 3

    prefix = 4

    suffix = 5

def derive_texts(kind: Derivation, length: int, words: Sequence[str], stop_words: Sequence[str]) -> list[str | None]:
    """
    The derived text of each word; None where it has none (a prefix longer than the word).
    """

def cell_codes(
    offsets: NDArray[numpy.int64], codes: NDArray[numpy.int32], row: int, size: int, reach: int
) -> NDArray[numpy.int32]:
    """
    The code that a cell reads at each token: that of the token `row` places away, or one from `size` on where this is outside the sentence.
    """

class TemplateEncoder:
    """Codes of features of sentences, from templates."""

    def __init__(
        self, *, sources: object, stop_words: object, reach: int, n_columns: int, states: object, pairs: object
    ) -> None: ...
    def codes(self, source: int, words: Sequence[str]) -> NDArray[numpy.int32]:
        """
        The code of each word's value in a source, -1 where it does not occur in training.
        """

    def features(
        self, offsets: NDArray[numpy.int64], codes: list[NDArray[numpy.int32]], states: bool, pairs: bool
    ) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32]]:
        """
        (indptr, indices) of the features of a text, given as codes of its tokens in each source.
        """

class AttributeTagger:
    """Labels of single sentences from their attributes."""

    def __init__(
        self,
        *,
        reader: object,
        names: object,
        state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        transitions: Annotated[
            NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        base: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        end: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pair_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        pair_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        columns: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        column_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        column_places: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
    ) -> None: ...
    def tag(self, sentence: Any) -> list[Any] | None:
        """
        The best labels of a list of tokens; None where it is not one, or a token cannot be read.
        """

class TemplateTagger:
    """Labels of single sentences from their columns."""

    def __init__(
        self,
        *,
        reader: object,
        names: object,
        state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        transitions: Annotated[
            NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        base: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        end: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        pair_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        pair_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        columns: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        column_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        column_places: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
    ) -> None: ...
    def tag(self, sentence: Any) -> list[Any] | None:
        """
        The best labels of a list of tokens; None where it is not one, or a token cannot be read.
        """

@overload
def append_pair(
    *,
    new_point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    old_point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    change: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    search_gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    image: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    steps: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    changes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    used: int,
    slot: int,
    sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def append_pair(
    *,
    new_point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    old_point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    change: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    search_gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    image: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    steps: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    changes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    used: int,
    slot: int,
    sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    Write the pair s, u = M^-1 y into row `slot`; sums[i] = s_i.y, u_i.y, s_i.q, u_i.q for the used rows.
    """

@overload
def combine_rows(
    *,
    point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    search_gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    image: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    steps: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    changes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    step_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    change_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scale: float,
    step: float,
    direction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    trial: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> float: ...
@overload
def combine_rows(
    *,
    point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    search_gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    image: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    steps: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    changes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    step_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    change_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scale: float,
    step: float,
    direction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    trial: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> float:
    """
    direction = -(scale M^-1 q + sum of weighted rows), trial = point + step direction; gives q.direction.
    """

def step_along(
    point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    direction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    step: float,
    *,
    trial: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """trial = point + step direction."""

def keep_gradient(
    gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    direction: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    *,
    kept: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> tuple[float, float, bool]:
    """
    Copy the gradient; gives gradient.direction, max |gradient| and whether all entries are finite.
    """

def pseudo_gradient(
    point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    l1: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    *,
    pseudo: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> tuple[float, float]:
    """
    Pseudo-gradient of f(x) + sum l1 |x|; gives sum l1 |x| and max |pseudo|.
    """

def cg_update(
    *,
    alpha: float,
    p: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    product: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    r: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")] | None,
    n_threads: int,
) -> tuple[float, float, float]:
    """
    x += alpha p, r -= alpha product, z = r / diagonal; gives r.r, r.z (r.r without a diagonal), max |r|.
    """

def cg_direction(
    beta: float,
    z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    *,
    p: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """p = z + beta p."""

def inner_product(
    a: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    b: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    *,
    n_threads: int,
) -> float:
    """a.b, the same bits for any number of threads."""

def lasso_descent(
    *,
    gradient: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    left: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    right: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    curvature: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    point: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    l1: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    limit: int,
    tol: float,
    step: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    products: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> int:
    """
    Lower g.d + d'Bd/2 + sum l1 |x + d| with B = diag(scale) - left right' over the step d, in place, by coordinate descent; returns the passes. products = right' step on entry and exit.
    """

def logistic_paths(
    *,
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    targets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    lambdas: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ratio: float,
    tol: float,
    most_steps: int,
    least: int,
    least_gain: float,
    most_deviance: float,
    prices: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    worse: float,
    coefficients: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    lambdas_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    failed: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None:
    """
    L1 paths of logistic regressions of the columns `targets` of codes on the others, for every row of weights; see logistic_path.hpp. coefficients (weightings, targets, lambdas, m) have the intercept at the column's own place.
    """
