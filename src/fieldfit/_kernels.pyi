"""Types of the compiled kernels (sources in kernels/ at the root of the repository)."""

from numpy import float32, float64, int64
from numpy.typing import NDArray

def isa() -> str: ...
def uniforms(seed: int, stream: int, rows: NDArray[int64], out: NDArray[float64]) -> None: ...
def exp_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
def log_array(x: NDArray[float64], out: NDArray[float64]) -> None: ...
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
    orthant: bool,
    direction: NDArray[float64],
    trial: NDArray[float64],
    n_threads: int,
) -> float: ...
def step_along(
    point: NDArray[float64],
    direction: NDArray[float64],
    pseudo: NDArray[float64] | None,
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
def orthant_progress(
    point: NDArray[float64],
    trial: NDArray[float64],
    pseudo: NDArray[float64],
    l1: NDArray[float64],
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
