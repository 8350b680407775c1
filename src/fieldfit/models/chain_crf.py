"""The linear-chain conditional random field, a model of label sequences given observations (Section 7.2).

    p_θ(y | x) = exp( Σ_t Σ_f x_tf w(f, y_t) + Σ_t T(y_{t−1}, y_t) + start(y_1) + end(y_T) − log Z(x) )

FL is log p(y | x) of a sequence, PLk log p(y_w | y_left, y_right, x) of its windows of k tokens. Unknown labels are
summed out: FL is then the log-probability of the known ones, log Z(known labels fixed) − log Z. The same holds in a
window. A window next to an unknown label is left out, because it would condition on that label. With
``transitions="observed", start=False, end=False`` it is CRFsuite's model. With ``pairs="all"`` as well, it is
CRFsuite's model with all possible states.

With ``order=2`` the score also has Σ_t U(y_{t−2}, y_{t−1}, y_t), for the label triples that occur in training, and a
window of PLk is conditioned on two labels on each side. Two start symbols come before the first label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fieldfit import _kernels
from fieldfit.arguments import check_names, count_of, one_of, seed, truth_value, whole_number, whole_numbers
from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import fingerprint
from fieldfit.data.observed import observed_pairs, observed_transitions
from fieldfit.data.packing import pack_text, unpack_text
from fieldfit.data.sequences import Sequences, as_sequences
from fieldfit.docstrings import filled
from fieldfit.models.chain import MOST_CHAIN_FEATURES, MOST_LABELS, SHARED, ChainModel
from fieldfit.models.chain_decoding import ScoredChains, ScoredLabels
from fieldfit.models.chain_layout import ChainLayout, ChainNames, feature_sizes, label_name, observed_columns
from fieldfit.models.chain_layout_check import checked_layout
from fieldfit.models.chain_outline import KnownSequences, SequenceOutline
from fieldfit.models.chain_problem import ChainProblem, Windows, chain_tokens
from fieldfit.models.couplings import Couplings
from fieldfit.models.label_triples import observed_triples, triple_name
from fieldfit.models.triple_decoding import ScoredTriples
from fieldfit.models.triple_problem import TripleProblem
from fieldfit.threads import get_threads
from fieldfit.types import Arrays, DataError, FloatArray, Int32Array, IntArray, ModelError, Plain

#: Most numbers of edge scores in memory at once, for models whose label pairs have features.
_MOST_EDGE_SCORES = 16_000_000


@filled(SHARED)
class ChainCRF(ChainModel):
    """Linear-chain conditional random field over sparse token features.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    n_features : int
        Number of token features.
    pairs : {"observed", "all"}, default: "observed"
        Which (feature, label) pairs have a weight: those that occur in training, or all.
    transitions : {"all", "observed", "none"}, default: "all"
        Which pairs of adjacent labels have a weight. The others have weight 0.
    order : {1, 2}, default: 1
        2: triples of adjacent labels that occur in training have weights too (a second-order chain).
    unseen_transitions : {"zero", "forbidden"}, default: "zero"
        With ``order=2``, whether other triples have weight 0 or are forbidden. Forbidden triples save most of the
        time: K labels have K³ triples, and few of them occur.
    start : bool, default: True
        Whether the first label of a sequence has a weight. With ``order=2``: whether triples with start symbols have
        one.
    end : bool, default: True
        Whether the last label of a sequence has a weight.
    label_pairs : bool or sequence of int, default: False
        Features with weights for pairs of adjacent labels that occur in training (Sha & Pereira 2003). True: all
        features.
    state_features : int or None, default: None
        The first ``state_features`` features have weights with single labels. The others have weights with label
        pairs only. None: all features have weights with single labels.
    labels : sequence of str or None, default: None
        Names of the labels, for `parameter_names`.
    features : sequence of str or None, default: None
        Names of the features, for `parameter_names`.
    layout : ChainLayout or None, default: None
        Which weights the model has. None: `observe` finds them in the training data.

    Notes
    -----
    The distribution is p_θ(y | x) = exp(Σ_t Σ_f x_tf w(f, y_t) + Σ_t T(y_{t−1}, y_t) + start(y_1) + end(y_T) − log
    Z(x)), with the additional term Σ_t U(y_{t−2}, y_{t−1}, y_t) if ``order=2``. FL is log p(y | x) of a sequence, and
    PLk is log p(y_w | y_left, y_right, x) of its windows of k tokens, given the label (``order=2``: two labels) on
    each side. Unknown labels (−1) are summed out.

    Examples
    --------
    >>> from fieldfit.data.sequences import Sequences
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> data = Sequences([0, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 2], None, [0, 1, 1, 0, 1], 3, 2)
    >>> fit = ff.fit(ff.ChainCRF(2, 3), data, "FL", sigma2=1.0)
    >>> list(fit.parameter_names)[:3]
    ['x0:y0', 'x1:y1', 'x2:y1']
    """

    kind = "chain_crf"
    inputs = "features"

    def __init__(
        self,
        n_labels: int,
        n_features: int,
        *,
        pairs: str = "observed",
        transitions: str = "all",
        order: int = 1,
        unseen_transitions: str = "zero",
        start: bool = True,
        end: bool = True,
        label_pairs: bool | Sequence[int] = False,
        state_features: int | None = None,
        labels: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        layout: ChainLayout | None = None,
    ) -> None:
        n_labels = count_of(n_labels, "The number of labels", 1, MOST_LABELS)
        n_features = count_of(n_features, "The number of features", 0, MOST_CHAIN_FEATURES)
        one_of(pairs, "pairs", ("observed", "all"), ModelError)
        one_of(transitions, "transitions", ("observed", "all", "none"), ModelError)
        order = whole_number(order, "order", 1, 2, ModelError)
        one_of(unseen_transitions, "unseen_transitions", ("zero", "forbidden"), ModelError)
        if order == 1 and unseen_transitions == "forbidden":
            raise ModelError("unseen_transitions='forbidden' is about label triples: use it with order=2.")
        if order == 2 and label_pairs is not False:
            raise ModelError("Features of label pairs (label_pairs) need order=1.")
        for what, names, size in (("labels", labels, n_labels), ("features", features, n_features)):
            check_names(names, what, size)
        self.n_labels, self.n_features = n_labels, n_features
        self.pairs, self.transitions = pairs, transitions
        self.order, self.unseen_transitions = int(order), unseen_transitions
        self.start, self.end = truth_value(start, "start"), truth_value(end, "end")
        self.label_pairs: bool | tuple[int, ...] = (
            label_pairs
            if isinstance(label_pairs, bool)
            else tuple(whole_numbers(label_pairs, "label_pairs").ravel().tolist())
        )
        chosen = n_features if state_features is None else state_features
        self.state_features = count_of(chosen, "state_features", 0, n_features)
        self.labels, self.features = labels, features
        everything = pairs == "all" and transitions == "all" and self.state_features == n_features
        if layout is None and everything and label_pairs is False and order == 1:
            layout = ChainLayout(self.n_labels, self.n_features, np.arange(n_labels**2), start=start, end=end)
        self._layout = layout

    def observe(self, dataset: Sequences) -> ChainCRF:
        """Return the model with the weights that occur in the training data.

        Parameters
        ----------
        dataset : Sequences
            Training data.

        Returns
        -------
        ChainCRF

        Examples
        --------
        %(data)s
        >>> ff.ChainCRF(2, 3, transitions="observed").observe(data).n_parameters
        9
        """
        self._checked(dataset)
        pair_ptr, pair_labels = self._state_pairs(dataset)
        seen = np.arange(self.n_labels**2)
        if self.transitions == "observed":
            seen = np.flatnonzero(observed_transitions(dataset))
        elif self.transitions == "none":
            seen = np.zeros(0, dtype=np.int64)
        column_ptr, column_pairs = None, None
        if self.label_pairs is not False:
            chosen = None if self.label_pairs is True else np.array(self.label_pairs, dtype=np.int64)
            if chosen is not None and chosen.size and not (chosen.min() >= 0 and chosen.max() < self.n_features):
                raise ModelError(f"label_pairs must be features 0..{self.n_features - 1}; got {chosen.tolist()}.")
            column_ptr, column_pairs = observed_columns(dataset, chosen)
        layout = ChainLayout(
            self.n_labels,
            self.n_features,
            seen.astype(np.int64),
            pair_ptr,
            pair_labels,
            self.start and self.order == 1,
            self.end,
            column_ptr,
            column_pairs,
            feature_sizes(dataset),
            observed_triples(dataset, self.start) if self.order == 2 else None,
            self.unseen_transitions == "forbidden",
        )
        return self._with(layout, self.labels, self.features)

    def _state_pairs(self, dataset: Sequences) -> tuple[IntArray | None, Int32Array | None]:
        """The labels that have a weight with each feature, as in `ChainLayout`."""
        count = self.state_features
        if self.pairs == "all" and count == self.n_features:
            return None, None
        if self.pairs == "all":
            pointer = np.minimum(np.arange(self.n_features + 1), count) * self.n_labels
            return pointer.astype(np.int64), np.tile(np.arange(self.n_labels, dtype=np.int32), count)
        pointer, labels = observed_pairs(dataset)
        return np.minimum(pointer, pointer[count]), labels[: pointer[count]]

    def _with(
        self, layout: ChainLayout | None, labels: Sequence[str] | None, features: Sequence[str] | None
    ) -> ChainCRF:
        return ChainCRF(
            self.n_labels,
            self.n_features,
            pairs=self.pairs,
            transitions=self.transitions,
            order=self.order,
            unseen_transitions=self.unseen_transitions,
            start=self.start,
            end=self.end,
            label_pairs=self.label_pairs,
            state_features=self.state_features,
            labels=labels,
            features=features,
            layout=layout,
        )

    def with_input_names(self, labels: Sequence[str] | None, inputs: Sequence[str] | None) -> ChainCRF:
        """Return the same model with other names for labels and features."""
        return self._with(self._layout, labels, inputs)

    def keep_features(self, features: ArrayLike) -> ChainCRF:
        """Return the model with some of its features, which keep all their weights.

        A feature that no training sequence has enters no score, so with a penalty its weights stay 0. Without these
        features the fit is the same and smaller. `Sequences.recode` gives the sequences the new codes.

        Parameters
        ----------
        features : array_like of int
            Codes of the features to keep, in ascending order. They become 0, 1, …

        Returns
        -------
        ChainCRF

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.ChainCRF(2, 3, pairs="all", start=False, end=False)
        >>> list(model.keep_features([0, 2]).parameter_names)[:4]
        ['x0:y0', 'x0:y1', 'x1:y0', 'x1:y1']
        """
        kept = whole_numbers(features, "features")
        if (
            kept.ndim != 1
            or np.any(np.diff(kept) <= 0)
            or (len(kept) and not 0 <= kept[0] <= kept[-1] < self.n_features)
        ):
            raise ModelError(f"features must be codes 0..{self.n_features - 1} in ascending order, each once.")
        if self.label_pairs is not False:
            raise ModelError("keep_features needs a model without features of label pairs (label_pairs=False).")
        whole = self.layout
        pointer, labels = whole.pair_ptr, whole.pair_labels
        if pointer is not None and labels is not None:
            counts = np.diff(pointer)[kept]
            ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            taken = np.repeat(pointer[:-1][kept] - ends[:-1], counts) + np.arange(ends[-1])
            pointer, labels = ends, np.ascontiguousarray(labels[taken])
        sizes = None if whole.sizes is None else whole.sizes[kept]
        layout = replace(whole, n_features=len(kept), pair_ptr=pointer, pair_labels=labels, sizes=sizes)
        return ChainCRF(
            self.n_labels,
            len(kept),
            pairs=self.pairs,
            transitions=self.transitions,
            order=self.order,
            unseen_transitions=self.unseen_transitions,
            start=self.start,
            end=self.end,
            state_features=int(np.searchsorted(kept, self.state_features)),
            labels=self.labels,
            features=None if self.features is None else [self.features[int(code)] for code in kept],
            layout=layout,
        )

    @property
    def layout(self) -> ChainLayout:
        """Which weights the model has."""
        if self._layout is None:
            raise ModelError(
                "This CRF takes its weights from training data, which it has not seen. Use "
                "model.observe(dataset), or pairs='all' and transitions='all'."
            )
        return self._layout

    @property
    def n_inputs(self) -> int:
        """The number of features."""
        return self.n_features

    @property
    def n_parameters(self) -> int:
        """Number of parameters r, the length of θ."""
        return self.layout.n_parameters

    def as_crf(self, what: str) -> ChainCRF:
        """The model itself."""
        del what
        return self

    @property
    def parameter_names(self) -> Sequence[str]:
        """``feature:label``, ``label->label``, ``^->label``, ``label->$``, ``label,label->label``.

        Each name is created on access. If a label is ``^`` or ``$``, the mark is doubled (``$$``).
        """
        return ChainNames(self.layout, self.labels, self.features)

    def complete(self, dataset: Dataset) -> ChainCRF:
        """Return the model with the weights that occur in these sequences, unless it has a layout already.

        Labels may be unknown (−1) in some tokens, but not in all.
        """
        if isinstance(dataset, KnownSequences):
            return self if dataset.layout is None else self._with(dataset.layout, self.labels, self.features)
        sequences = as_sequences(dataset)
        if sequences.n_tokens and int(sequences.labels.max()) < 0:
            raise DataError(
                f"None of the {sequences.n_tokens} tokens has a known label, so the model cannot be fitted. Give labels "
                "to some of them; those of the others are summed out."
            )
        if self._layout is None:
            observing = self.observe(sequences)
            observing._refuse_impossible(sequences)
            return observing
        if self._layout.forbidden:
            self._refuse_forbidden(sequences)
            self._refuse_impossible(sequences)
        if self._layout.sizes is not None or (sizes := feature_sizes(self._checked(sequences))) is None:
            return self
        return self._with(replace(self._layout, sizes=sizes), self.labels, self.features)

    def _refuse_forbidden(self, sequences: Sequences) -> None:
        """Refuse training data with a label triple that the model does not allow."""
        codes = observed_triples(sequences, start=True)
        absent = codes[~np.isin(codes, self.layout.arcs.codes)]
        if len(absent):
            name = triple_name(int(absent[0]), self.n_labels, lambda code: label_name(self.labels, code))
            raise DataError(
                f"The training data have {len(absent)} label triples that the model forbids, for example {name}: their "
                "probability is 0. Let the model observe these sequences, or use unseen_transitions='zero'."
            )

    def _refuse_impossible(self, sequences: Sequences) -> None:
        """Refuse training data whose known labels cannot be completed without a forbidden triple."""
        if self.layout.forbidden and (sequences.labels < 0).any():
            self.scored(np.zeros(self.n_parameters), sequences).fix(sequences.labels).viterbi()

    def outline(self, dataset: Dataset) -> SequenceOutline:
        """The lengths of the sequences, and the weights that occur in them."""
        sequences = self._checked(dataset)
        layout = self.observe(sequences).layout if self._layout is None else self._layout
        return SequenceOutline.of(sequences, None if layout is self._layout and layout.sizes is not None else layout)

    def coupling_matrix(self, theta: ArrayLike) -> Couplings:
        """Return the weights of all transitions; row and column are the label before and after."""
        if self.order == 2:
            raise ModelError(
                "A second-order chain has weights for triples of labels, so it has no matrix of couplings of pairs. "
                "model.parameter_names and theta have its weights."
            )
        K = self.n_labels
        names = tuple(label_name(self.labels, code) for code in range(K))
        transitions = self.layout.unpack(self.check_theta(theta))[1][:K, :K]
        return Couplings(names, transitions.copy(), "transition weight", directed=True)

    @property
    def feature_units(self) -> FloatArray | None:
        """The size of the feature behind each weight (r,) in training; None: all are of size 1."""
        return None if self._layout is None else self._layout.units

    def fingerprint(self, dataset: Dataset) -> str:
        """Return a hash of the modelled values, without those that the model conditions on."""
        return fingerprint(dataset, symbols=False)

    # Prediction -----------------------------------------------------------------------------------------------------

    @property
    def _n_edges(self) -> int:
        return self.n_labels**2 if self.order == 1 else self.layout.arcs.n_arcs

    @property
    def _tokens_at_once(self) -> int | None:
        """Number of tokens in memory at once, for models with edge scores for each token or with many states."""
        if self.order == 2:
            return max(1, _MOST_EDGE_SCORES // self.layout.arcs.n_states)
        return None if self.layout.column_ptr is None else max(1, _MOST_EDGE_SCORES // self.layout.padded**2)

    def _problem(self, sequences: Sequences, families: tuple[Windows, ...]) -> ChainProblem:
        kind = ChainProblem if self.order == 1 else TripleProblem
        return kind(self.layout, sequences, families)

    def _scored(self, theta: FloatArray, dataset: Sequences) -> ScoredLabels:
        weights = self.layout.unpack(theta)
        tokens = chain_tokens(self.layout, dataset)
        scores = np.empty((dataset.n_tokens, self.layout.padded))
        n_threads = get_threads(float(len(dataset.indices)) * self.layout.padded)
        _kernels.chain_scores(tokens, weights, scores=scores, n_threads=n_threads)
        if self.order == 2:
            arcs = self.layout.arcs
            return ScoredTriples(dataset.offsets, scores, self.n_labels, arcs, self.layout.arc_scores(theta))
        edges = weights[1][None]
        if self.layout.column_ptr is not None and self.layout.kernel_columns is not None:
            edges = np.repeat(edges, dataset.n_tokens, axis=0)
            counts = np.diff(self.layout.column_ptr)[dataset.indices]
            ends = np.cumsum(counts)
            first = self.layout.column_ptr[:-1][dataset.indices]
            columns = np.arange(int(counts.sum())) + np.repeat(first - (ends - counts), counts)
            token = np.repeat(np.repeat(np.arange(dataset.n_tokens), np.diff(dataset.indptr)), counts)
            values = weights[5][columns]
            if dataset.values is not None:
                values = values * np.repeat(dataset.values, counts)
            places = token * self.layout.padded**2 + self.layout.kernel_columns[columns]
            np.add.at(edges.reshape(-1), places, values)
        return ScoredChains(dataset.offsets, scores, self.n_labels, edges)

    def _marginals(self, theta: FloatArray, dataset: Sequences, given: Int32Array | None) -> FloatArray:
        if given is None and self.layout.column_ptr is None and self.order == 1:
            return -self._expectations(theta, dataset)[0][:, : self.n_labels]
        return super()._marginals(theta, dataset, given)

    def simulate(self, dataset: Dataset, theta: ArrayLike, random_state: int = 0) -> Sequences:
        """Draw labels from p_θ(y | x) for the same observations.

        Unknown labels stay unknown, unless all labels are unknown. In that case all are drawn.

        Parameters
        ----------
        %(dataset)s
        %(theta)s
        random_state : int, default: 0
            Seed.

        Returns
        -------
        Sequences

        Examples
        --------
        %(data)s
        %(crf)s
        >>> model.simulate(data, theta, random_state=0).labels.shape
        (5,)
        """
        random = np.random.Generator(np.random.Philox(seed(random_state)))
        sequences = as_sequences(dataset)
        labels = self._gather(
            self.check_theta(theta),
            sequences,
            None,
            lambda chains: chains.sample(random.random(len(chains.scores))),
        )
        unknown = sequences.labels < 0
        if not unknown.all():
            labels = np.where(unknown, sequences.labels, labels)
        return replace(sequences, labels=labels)

    def expected_counts(
        self, theta: FloatArray, sentence: Sequences, given: Int32Array
    ) -> tuple[FloatArray, FloatArray]:
        """p(y_t | x, given) of one sequence, and the expected numbers of its label pairs (``order=2``: of its arcs)."""
        scored = self.scored(theta, sentence).fix(given)
        if isinstance(scored, ScoredTriples):
            return scored.expectations()[:2]
        return scored.marginals()[0], scored.edge_marginals().sum(axis=0)

    def _expectations(self, theta: FloatArray, dataset: Sequences) -> tuple[FloatArray, FloatArray]:
        """The negative node marginals (n_tokens, padded) and −log Z (n_sequences,), computed in probability space."""
        self._checked(dataset)
        tokens = chain_tokens(self.layout, dataset)
        residuals = np.empty((dataset.n_tokens, self.layout.padded))
        values = np.empty(dataset.n_sequences)
        weights = self.layout.unpack(self.check_theta(theta))
        whole = [Windows(0, 1.0, None, None, None)]
        _kernels.chain_evaluate(
            tokens,
            weights,
            direction=None,
            families=whole,
            row_weight=None,
            observed=False,
            squares=False,
            values=values,
            tangents=None,
            residuals=residuals,
            gradient=None,
            n_threads=get_threads(),
        )
        return residuals, values

    # Files ----------------------------------------------------------------------------------------------------------

    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model: options and names, and the layout's arrays."""
        layout = self.layout
        header: Plain = {
            "n_labels": self.n_labels,
            "n_features": self.n_features,
            "pairs": self.pairs,
            "transitions": self.transitions,
            "order": self.order,
            "unseen_transitions": self.unseen_transitions,
            "start": self.start,
            "end": self.end,
            "label_pairs": self.label_pairs if isinstance(self.label_pairs, bool) else None,
            "state_features": self.state_features,
        }
        arrays: Arrays = {"transition_pairs": layout.transition_pairs}
        # Names are arrays: a tagger may have more of them than a header can hold.
        for name, names in (("labels", self.labels), ("features", self.features)):
            if names is not None:
                pack_text(arrays, name, list(map(str, names)))
        if not isinstance(self.label_pairs, bool):
            arrays["label_pairs"] = np.array(self.label_pairs, dtype=np.int64)
        for name in ("pair_ptr", "pair_labels", "column_ptr", "column_pairs", "sizes", "triples"):
            if getattr(layout, name) is not None:
                arrays[name] = getattr(layout, name)
        return header, arrays

    @classmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> ChainCRF:
        """Build the model that `specification` describes."""
        layout = ChainLayout(
            header["n_labels"],
            header["n_features"],
            arrays["transition_pairs"],
            arrays.get("pair_ptr"),
            arrays.get("pair_labels"),
            header["start"] and header["order"] == 1,
            header["end"],
            arrays.get("column_ptr"),
            arrays.get("column_pairs"),
            arrays.get("sizes"),
            arrays.get("triples"),
            header["unseen_transitions"] == "forbidden",
        )
        if (layout.triples is None) == (header["order"] == 2):
            raise ModelError("A second-order chain has label triples with weights, a first-order chain none.")
        names: Plain = {
            name: unpack_text(arrays, name) if f"{name}.ends" in arrays else None for name in ("labels", "features")
        }
        given = dict(header)
        if given["label_pairs"] is None:
            given["label_pairs"] = arrays["label_pairs"].tolist()
        return cls(layout=checked_layout(layout), **names, **given)
