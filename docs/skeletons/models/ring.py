"""A ring of binary sites with one coupling and one bias: the skeleton of a model. Copy it to src/fieldfit/models/.

    p_θ(x) ∝ exp( θ_1 Σ_t x_t x_{t+1} + θ_2 Σ_t x_t ),    x_t ∈ {0, 1},  site m + 1 is site 1

A field model gives its graph and its feature matrix F (table entries × parameters) to `FieldModel`, which does the rest:
log φ = F θ, exact inference, sampling, compilation. What is left to write is the constructor, the names of the parameters,
and the specification by which saved fits are read. Then add an example to tests/models/test_contract.py and, for the
command line, a file in src/fieldfit/cli/models/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.inference import FactorGraph
from fieldfit.models.field import FieldModel
from fieldfit.types import ModelError


class Ring(FieldModel):
    """A ring of binary sites.

    Parameters
    ----------
    sites : the sites 0, …, m − 1 in their order around the ring
    names : names of the sites
    """

    kind = "ring"  # the model's name in files

    def __init__(self, sites: Sequence[int], *, names: Sequence[str] | None = None) -> None:
        from scipy.sparse import csr_array

        m = len(sites)
        if m < 3 or sorted(sites) != list(range(m)):
            raise ModelError(
                f"A ring needs each of the sites 0, …, m − 1 once, and at least three; got {list(sites)}."
            )
        self.sites = tuple(map(int, sites))
        edges = [(site, self.sites[(place + 1) % m]) for place, site in enumerate(self.sites)]
        # Tables of the factors lie one after the other: four entries for an edge, two for a site. The last entry of a
        # table, where all its variables are 1, has the feature.
        graph = FactorGraph((2,) * m, (*edges, *((v,) for v in range(m))))
        entries = graph.offsets[1:] - 1
        parameters = np.repeat([0, 1], m)
        features = csr_array((np.ones(2 * m), (entries, parameters)), shape=(graph.table_size, 2))
        super().__init__(graph, features, None, names=names, states=[(0, 1)] * m)

    @property
    def parameter_names(self) -> Sequence[str]:
        """In the order of θ."""
        return ["coupling", "bias"]

    def specification(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What `from_specification` needs: plain JSON values, and arrays where there is much of it."""
        return {"sites": list(self.sites), "names": list(self.names) if self.named else None}, {}

    @classmethod
    def from_specification(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Ring:
        """The model that `specification` describes."""
        return cls(header["sites"], names=header["names"])
