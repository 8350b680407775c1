"""What every model can do: read samples, compile them to a `Problem`, simulate, and describe itself to other layers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fieldfit.arguments import real_array, unmasked
from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import fingerprint
from fieldfit.data.outline import Outline
from fieldfit.models.memory import LARGEST_NUMBER
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import Structure
from fieldfit.types import Array, Arrays, BoolArray, DataError, FloatArray, IntArray, ModelError, Plain
from fieldfit.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.inference.ragged import Ragged
    from fieldfit.models.boltzmann_chain import BoltzmannChain
    from fieldfit.models.chain_crf import ChainCRF
    from fieldfit.models.couplings import Couplings
    from fieldfit.models.field import FieldModel
    from fieldfit.models.located import LocatedScores
    from fieldfit.models.tied import TiedField
    from fieldfit.policies.policy import BoundPolicy


@dataclass(frozen=True)
class Draws:
    """Samples from a model and how they were made. ``np.asarray(draws)`` gives the values.

    Parameters
    ----------
    values : ndarray of shape (n, m)
        The samples, in the states' own values.
    codes : ndarray of int32, shape (n, m)
        The samples as codes of states.
    method : str
        "exact" or "gibbs".
    burn_in : int, default: 0
        Gibbs sweeps before the first use of each draw.
    note : str, default: ""
        A sentence on how the draws were made.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> draws = ff.BoltzmannMachine(3).sample([1.0, -1.0, 0.5], 10)
    >>> np.asarray(draws).shape, draws.method
    ((10, 3), 'exact')
    >>> draws
    <Draws: 10 samples of 3 variables, independent exact draws; see values>
    """

    values: Array  # (n, m), in the states' own values
    codes: NDArray[np.int32]  # (n, m)
    method: str  # "exact" or "gibbs"
    burn_in: int = 0  # Gibbs sweeps before each draw's first use
    note: str = ""

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        n, m = self.values.shape
        return (
            f"<Draws: {counted(n, 'samples')} of {counted(m, 'variables')}, {self.note or self.method}; see values>"
        )


@dataclass(frozen=True)
class Cost:
    """Cost of one evaluation: selected components and the paper's FLOPs, for the given samples."""

    components: int
    flops: float

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON."""
        return {"components": self.components, "flops": self.flops}


#: Methods that other layers call. Authors of models override them; users do not call them.
QUESTIONS = frozenset(
    {
        "all_samples",
        "as_crf",
        "as_field",
        "as_tied",
        "boundary_directions",
        "candidate_policies",
        "check_estimable",
        "determined_contrasts",
        "expected_counts",
        "expected_states",
        "has_free_tables",
        "located_scores",
        "mean_groups",
        "outline",
        "possible_states",
        "read_file",
        "read_piece",
        "refuse_constant",
        "refuse_size",
        "sample_flops",
        "selection_cost",
        "state_functions",
        "statistics",
        "states_at_once",
        "symbol_chain",
        "weighted_samples",
        "with_input_names",
    }
)


def check_model(model: object, what: str) -> None:
    """Refuse anything that is not a model."""
    if not isinstance(model, Model):
        raise ModelError(f"{what} needs a model, such as BoltzmannMachine(5); got {type(model).__name__}.")


class Model(ABC):
    """An exponential family with parameters θ: the base class of all models.

    ``kind`` is the model's name in files and on the command line. `specification` describes a model completely, so
    a new model is one file in this folder.
    """

    kind: ClassVar[str]
    registry: ClassVar[dict[str, type[Model]]] = {}

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if "kind" in cls.__dict__:
            Model.registry[cls.kind] = cls

    def sizes(self) -> dict[str, int]:
        """Return the sizes that describe the model, as its ``repr`` and a notebook show them.

        Returns
        -------
        dict
            From words, such as "variables", to numbers.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(5, biases=True).sizes()
        {'variables': 5, 'couplings': 10, 'biases': 5}
        """
        return {"parameters": self.n_parameters}

    def __repr__(self) -> str:
        words = ", ".join(counted(count, what) for what, count in self.sizes().items())
        return f"<{type(self).__name__}: {words}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{what}</th><td>{count:,}</td></tr>' for what, count in self.sizes().items()
        )
        return f"<table><caption>{type(self).__name__}</caption><tbody>{rows}</tbody></table>"

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of parameters r, the length of θ."""

    @property
    @abstractmethod
    def parameter_names(self) -> Sequence[str]:
        """Name of each entry of θ."""

    @property
    def feature_units(self) -> FloatArray | None:
        """The size of the feature behind each parameter (r,), a power of two; None: all are of size 1.

        θ_k times its unit is dimensionless. Convergence, separation and singular directions are judged in these units.
        """
        return None

    @abstractmethod
    def read(
        self,
        data: object,
        *,
        sample_weight: ArrayLike | str | None = None,
        weight_kind: str = "importance",
        groups: ArrayLike | str | None = None,
    ) -> Dataset:
        """Convert data (arrays, data frames, files) to a frozen dataset of this model.

        Parameters
        ----------
        data : object
            Samples, in any form that the model accepts.
        sample_weight : array_like, str or None, default: None
            Weight of each sample, or the name of the column with the weights.
        weight_kind : {"importance", "counts"}, default: "importance"
            Whether a weight multiplies the log-likelihood of the sample or is a number of copies.
        groups : array_like, str or None, default: None
            Group of each sample, or the name of the column with the groups. Samples of one group may depend on each other.

        Returns
        -------
        dataset
            A `Table` for fields, `Sequences` for chains.

        Examples
        --------
        >>> import fieldfit as ff
        >>> table = ff.BoltzmannMachine(2).read([[0, 1], [1, 1], [0, 0]])
        >>> table.codes.tolist(), table.names
        ([[0, 1], [1, 1], [0, 0]], ('x0', 'x1'))
        """

    def read_new(self, data: object) -> Dataset:
        """Convert samples that are not used in a fit. Values that a fit requires may be missing.

        Parameters
        ----------
        data : object
            Samples, in any form that the model accepts.

        Returns
        -------
        dataset
            A `Table` for fields, `Sequences` for chains.

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).read_new([[0, np.nan]]).codes.tolist()
        [[0, -1]]
        """
        return self.read(data)

    def complete(self, dataset: Dataset) -> Model:
        """Return the model with the information that it takes from the training data.

        Fields take the names of the columns. A `ChainCRF` takes the (feature, label) pairs that occur.

        Parameters
        ----------
        dataset
            The result of `read`.

        Returns
        -------
        Model
            The completed model, or the model itself if it is complete.

        Examples
        --------
        >>> import pandas as pd
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(2)
        >>> dataset = model.read(pd.DataFrame({"age": [0, 1], "vote": [1, 1]}))
        >>> model.complete(dataset).parameter_names
        ['age:vote']
        """
        return self

    def read_piece(self, data: object, *, sample_weight: str | None, weight_kind: str) -> Dataset:
        """Read one piece of the data in the process that holds it. A column may be missing in the whole piece."""
        raise DataError(f"A {self.kind} model needs its samples in one table in this process.")

    def outline(self, dataset: Dataset) -> Outline:
        """Summarise one piece of the data: what a fit must know of it in advance."""
        raise DataError(f"A {self.kind} model needs its samples in one table in this process.")

    def read_file(
        self,
        path: Path,
        *,
        sample_weight: str | None = None,
        weight_kind: str = "importance",
        groups: str | None = None,
        header: bool | None = None,
    ) -> Dataset:
        """Read samples from a file without an encoder; ``sample_weight`` and ``groups`` name columns."""
        raise ModelError(
            f"A {self.kind} model reads files of sentences with the encoder of its tagger, and this fit has none. Fit it "
            "with `fieldfit fit`, or with a tagger of fieldfit."
        )

    def with_input_names(self, labels: Sequence[str] | None, inputs: Sequence[str] | None) -> Model:
        """Return the model with an encoder's names for labels and inputs. Models of tables ignore them."""
        return self

    def as_field(self, what: str) -> FieldModel:
        """Return the model as a field with the same variables in every sample, or raise ModelError about ``what``."""
        raise ModelError(
            f"{what} is for fields with the same variables in every sample; a {self.kind} model has sequences."
        )

    def located_scores(
        self, problem: Problem, dataset: Dataset, selection: Selection, theta: FloatArray
    ) -> tuple[LocatedScores, Ragged] | None:
        """Return the scores as sums of terms located at variables, and the graph of the variables; None without a graph."""
        return None

    def as_crf(self, what: str) -> ChainCRF:
        """Return the model as a chain CRF, or raise ModelError about ``what``."""
        raise ModelError(f"{what} needs a chain CRF; this model is of the kind {self.kind!r:.80}.")

    def as_tied(self, what: str) -> TiedField:
        """Return the model as a field on a graph with shared parameters, or raise ModelError about ``what``."""
        raise ModelError(f"{what} needs one of `fieldfit fit graph`; this model is of the kind {self.kind!r:.80}.")

    @property
    def symbol_chain(self) -> BoltzmannChain | None:
        """The model as a chain of labels with one symbol per label, for predicting labels; None for other models."""
        return None

    @property
    def mean_groups(self) -> IntArray | None:
        """Return a group number for each variable (m,): variables of one group share the parameters of their states.

        In each group a good fit reproduces the mean frequency of each state. None if a variable has no parameters for
        its states, or if samples have no variables in common.
        """
        return None

    @property
    def has_free_tables(self) -> bool:
        """Whether each parameter is one entry of one table of a field."""
        return False

    @property
    def has_graph(self) -> bool:
        """Whether every sample has the same variables on one graph, so that `located_scores` gives terms."""
        return False

    def refuse_size(self, n: int) -> None:  # noqa: B027 - most models have no such limit
        """Raise DataError if one evaluation with n samples does not fit into this machine's memory.

        Parameters
        ----------
        n : int
            Number of samples.

        Raises
        ------
        DataError
            If it does not fit. The message gives the number of bytes.

        Examples
        --------
        >>> import fieldfit as ff
        >>> from fieldfit.types import DataError
        >>> ff.Potts(10, 3).refuse_size(1000)
        >>> try:
        ...     ff.Potts(300, 21).refuse_size(10**11)
        ... except DataError:
        ...     print("does not fit")
        does not fit
        """

    def coupling_matrix(self, theta: ArrayLike) -> Couplings:
        """Compute how strongly each pair of variables, or of neighbouring labels, is coupled at θ.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.

        Returns
        -------
        Couplings

        Raises
        ------
        ModelError
            If the model has factors of more than two variables.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(3).coupling_matrix([0.5, 0.0, -1.0]).values
        array([[ 0. ,  0.5,  0. ],
               [ 0.5,  0. , -1. ],
               [ 0. , -1. ,  0. ]])
        """
        raise ModelError(f"A {self.kind} model has no couplings of pairs.")

    @property
    def joint(self) -> bool:
        """Whether the model describes all values of a sample, so that expectations over samples need no data."""
        return False

    def all_samples(self, most: int) -> Dataset | None:
        """Return all possible samples as one dataset, or None if there are more than ``most``."""
        return None

    def expected_states(
        self, theta: FloatArray, dataset: Dataset, most: int
    ) -> tuple[Dataset, FloatArray, FloatArray] | None:
        """Return all possible samples given the observed values of ``dataset``, with the sums of w p and of w² p.

        See `fieldfit.models.field_expectations`. None if there are more than ``most``, or if they cannot be listed.
        """
        return None

    def selection_cost(self, selection: Selection) -> Cost | None:
        """Return the cost of one evaluation of a selection in the paper's operations; None if the paper has no count."""
        return None

    def candidate_policies(self, structure: Structure) -> tuple[str, ...]:
        """Return the terms of policies that a plan compares by default, the most useful first."""
        return ("PL1", "PL1/row", "FL")

    @property
    def parameter_copies(self) -> FloatArray | None:
        """Number of weights that each parameter stands for (r,); None: one each."""
        return None

    def sample_flops(self, bound: BoundPolicy, dataset: Dataset) -> float:
        """The paper's FLOPs for one sample, averaged over Z. By default, the parameters of each selected component."""
        return float(bound.expected_counts(0).sum()) * self.n_parameters

    def states_at_once(self, bound: BoundPolicy) -> float:
        """Number of joint states in the single table that a policy sums over; 0 if it needs no such table."""
        return 0.0

    @property
    def n_states(self) -> float:
        """Number of possible samples; infinite if they cannot be listed."""
        return math.inf

    def weighted_samples(self, theta: FloatArray) -> tuple[Dataset, FloatArray]:
        """Return all possible samples with their probabilities at θ, for models with a finite `n_states`."""
        raise ModelError(f"The samples of a {self.kind} model cannot be listed.")

    def refuse_constant(self, dataset: Dataset, unpenalised: BoolArray) -> None:
        """Raise DataError if a constant column leaves an ``unpenalised`` parameter without an estimate."""
        return

    def check_estimable(self, dataset: Dataset, bound: BoundPolicy, estimated: BoolArray) -> None:
        """Raise an error if unpenalised parameters (``estimated``) have no finite, unique estimate.

        The samples or the policy may be the reason. The default accepts all: chains have weights only for what was
        observed.
        """
        return

    def boundary_directions(self, dataset: Dataset) -> csr_array | None:
        """Directions of θ (k, r) along which the likelihood grows without bound; None if unknown."""
        return None

    def determined_contrasts(self) -> FloatArray | None:
        """The contrasts of θ (k, r) that an over-complete model determines, in units of the features; None: all of θ."""
        return None

    @abstractmethod
    def structure(self, dataset: Dataset) -> Structure:
        """Return what a policy needs to know about the samples: variables and graph, or lengths of sequences.

        Parameters
        ----------
        dataset
            The result of `read`. Not needed for fields.

        Returns
        -------
        Structure

        Examples
        --------
        >>> import fieldfit as ff
        >>> structure = ff.BoltzmannMachine(3).structure()
        >>> ff.Policy.parse("PL1 + 0.2*PL2").bind(structure).expected_counts()
        array([3. , 0.6])
        """

    @abstractmethod
    def compile(self, dataset: Dataset, selection: Selection) -> Problem:
        """Compile model, data and selection to read-only arrays.

        Parameters
        ----------
        dataset
            The result of `read`.
        selection : Selection
            The selected components of each sample, from `BoundPolicy.draw`.

        Returns
        -------
        Problem
            Computes the stochastic composite log-likelihood and its derivatives.

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(2)
        >>> dataset = model.read([[0, 1], [1, 1], [0, 0]])
        >>> selection = ff.Policy.parse("PL1").bind(model.structure()).draw(seed=0, start=0, stop=3)
        >>> value, gradient = model.compile(dataset, selection).value_grad(np.zeros(1))
        >>> round(value, 4)
        -4.1589
        """

    def simulate(self, dataset: Dataset, theta: ArrayLike, random_state: int = 0) -> Dataset:
        """Draw a dataset like ``dataset`` from p_θ.

        The variables that the model conditions on, the lengths of sequences, sample weights and the positions of
        missing values stay the same. Model-based standard errors and goodness of fit use this.

        Parameters
        ----------
        dataset
            The result of `read`.
        theta : array_like of shape (r,)
            Parameters.
        random_state : int, default: 0
            Seed.

        Returns
        -------
        dataset
            Of the same type and size.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(2)
        >>> dataset = model.read([[0, 1], [1, 1], [0, 0]])
        >>> model.simulate(dataset, [1.0], random_state=0).codes.shape
        (3, 2)
        """
        raise ModelError(f"A {self.kind} model cannot draw samples, so nothing can be simulated from it.")

    def fingerprint(self, dataset: Dataset) -> str:
        """Return a hash of the modelled values and the weights of a dataset.

        Composite likelihoods of two models are comparable if both model the same samples.

        Parameters
        ----------
        dataset
            The result of `read`.

        Returns
        -------
        str
            Equal datasets have equal fingerprints.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(2)
        >>> samples = [[0, 1], [1, 1]]
        >>> model.fingerprint(model.read(samples)) == model.fingerprint(model.read(samples))
        True
        """
        return fingerprint(dataset)

    @abstractmethod
    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model completely, for saving it.

        Returns
        -------
        header : dict
            Values that JSON can represent.
        arrays : dict of str to ndarray

        Examples
        --------
        >>> import fieldfit as ff
        >>> header, arrays = ff.BoltzmannMachine(3).specification()
        >>> ff.BoltzmannMachine.from_specification(header, arrays).n_parameters
        3
        """

    @classmethod
    @abstractmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> Model:
        """Build the model that `specification` describes.

        Parameters
        ----------
        header : dict
            Values that JSON can represent.
        arrays : dict of str to ndarray
            Arrays.

        Returns
        -------
        Model
            With the same distribution for the same parameters.

        Examples
        --------
        >>> import fieldfit as ff
        >>> header, arrays = ff.Potts(3, 2).specification()
        >>> ff.Potts.from_specification(header, arrays).parameter_names[0]
        'x0=0:x1=0'
        """

    def check_theta(self, theta: ArrayLike) -> FloatArray:
        """Check θ and convert it to an array of floats.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.

        Returns
        -------
        ndarray of shape (r,)

        Raises
        ------
        ModelError
            If θ has the wrong shape, or an entry that is not finite or beyond ±1e150.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(3).check_theta([0, 1, 2])
        array([0., 1., 2.])
        """
        unmasked(theta, "θ", ModelError)
        try:
            array = np.ascontiguousarray(real_array(theta))
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(
                f"θ is {theta!r:.80}; it must be {self.n_parameters} real numbers, in the order of model.parameter_names."
            ) from error
        if array.shape != (self.n_parameters,):
            given = counted(array.size, "numbers") if array.ndim == 1 else f"shape {array.shape}"
            first = [self.parameter_names[k] for k in range(min(5, self.n_parameters))]
            names = ", ".join([*first, "…"] if len(first) < self.n_parameters else first)
            raise ModelError(
                f"θ has {given}; this model has {counted(self.n_parameters, 'parameters')} and needs a number for each, in "
                f"the order of model.parameter_names ({names})."
            )
        if not np.all(np.isfinite(array)):
            place = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ModelError(f"θ[{place}] ({self.parameter_names[place]}) is {array[place]}; it must be finite.")
        if np.abs(array).max(initial=0.0) > LARGEST_NUMBER:
            place = int(np.argmax(np.abs(array)))
            raise ModelError(
                f"θ[{place}] ({self.parameter_names[place]}) is {array[place]:g}; it must be between "
                f"−{LARGEST_NUMBER:g} and {LARGEST_NUMBER:g}, so that sums of parameters are finite."
            )
        return array
