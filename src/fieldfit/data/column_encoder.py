"""From columns of text to Sequences: templates applied to codes, with alphabets that training has frozen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter

import numpy as np

from fieldfit import _kernels
from fieldfit.arguments import whole_number
from fieldfit.data.alphabet import Alphabet
from fieldfit.data.columns import ColumnText
from fieldfit.data.derived import derive, parse_derivation
from fieldfit.data.features import load_stop_words, preset
from fieldfit.data.keys import KeySpace
from fieldfit.data.packing import pack_text, unpack_text
from fieldfit.data.sequences import UNKNOWN, Sequences
from fieldfit.data.template_blocks import Block, Cells, Source, group_templates, learn_blocks
from fieldfit.data.templates import FeatureSpec, parse_templates
from fieldfit.properties import cached_property
from fieldfit.types import Array, Arrays, DataError, Int32Array
from fieldfit.words import counted


@dataclass(frozen=True, eq=False)
class ColumnEncoder:
    r"""Encoder of text in columns: templates, the values in the training data, features and labels. Make one with `fit`.

    Parameters
    ----------
    spec : FeatureSpec
        The templates.
    labels : Alphabet
        The labels of the training data.
    n_columns : int
        Number of columns of the text.
    label_column : int
        The column with the labels.
    stop_words : tuple of str
        Stop words of templates that use them.
    vocabularies : mapping
        Different values of each column and derived column.
    state_blocks, pair_blocks : tuple of Block
        Features of single labels and of pairs of labels, by template.

    Examples
    --------
    >>> from fieldfit.chains import ColumnEncoder, parse_columns
    >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
    >>> encoder, data = ColumnEncoder.fit(text, "tagger")
    >>> encoder.n_features, list(encoder.labels)
    (57, ['B-NP', 'B-VP', 'I-NP'])
    """

    spec: FeatureSpec
    labels: Alphabet
    n_columns: int
    label_column: int
    stop_words: tuple[str, ...]
    vocabularies: Mapping[Source, tuple[str, ...]]
    state_blocks: tuple[Block, ...]
    pair_blocks: tuple[Block, ...]

    @classmethod
    def fit(
        cls,
        text: ColumnText,
        features: FeatureSpec | str = "conll2000",
        *,
        label_column: int = -1,
        min_count: int = 1,
        stop_words: Iterable[str] | None = None,
    ) -> tuple[ColumnEncoder, Sequences]:
        r"""Learn labels and features from a text, and encode it.

        Parameters
        ----------
        text : ColumnText
            The training data.
        features : FeatureSpec or str, default: "conll2000"
            Name of a preset, or templates.
        label_column : int, default: -1
            The column with the labels. By default the last.
        min_count : int, default: 1
            Features that occur less often are left out.
        stop_words : iterable of str, or None, default: None
            Stop words for templates that use them. None: the SMART list.

        Returns
        -------
        encoder : ColumnEncoder
            The encoder.
        data : Sequences
            The text.

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, "tagger")
        >>> data.n_tokens
        4
        """
        spec = preset(features) if isinstance(features, str) else features
        if text.n_tokens == 0:
            raise DataError(f"{text.sources[0][0]} has no tokens; there is nothing to learn features from.")
        min_count = whole_number(min_count, "min_count", 1, error=DataError)
        column = label_column + text.n_columns if label_column < 0 else label_column
        if not 0 <= column < text.n_columns:
            raise DataError(f"label_column is {label_column}, but the text has {text.n_columns} columns.")
        _check_columns(spec, text, column)
        words: tuple[str, ...] = ()
        if stop_words is not None:
            words = tuple(dict.fromkeys(word.lower() for word in stop_words))
        elif spec.uses_stop_words:
            words = load_stop_words()
        vocabularies: dict[Source, tuple[str, ...]] = {}
        codes: dict[Source, Int32Array] = {}
        for source in _sources(spec):
            values = _values(source, text, words)
            different = dict.fromkeys(value for value in values if value is not None)
            vocabularies[source] = tuple(different)
            codes[source] = _recode(values, {value: code for code, value in enumerate(different)}, text, source)
        reader = Cells(text.offsets, spec.reach, codes, vocabularies)
        state_blocks, columns = learn_blocks(spec.states, reader, min_count, slice(None))
        pair_blocks, _ = learn_blocks(spec.pairs, reader, min_count, reader.inner)
        used = np.unique(text.codes[column])
        labels = Alphabet.sorted(text.values[column][code] for code in used.tolist())
        encoder = cls(spec, labels, text.n_columns, column, words, vocabularies, state_blocks, pair_blocks)
        return encoder, encoder._sequences(text, columns, state_blocks, None)

    @property
    def n_features(self) -> int:
        """The number of state features."""
        return sum(len(block.space) for block in self.state_blocks)

    @property
    def n_pair_features(self) -> int:
        """The number of label-pair observation features (without the transitions themselves)."""
        return sum(len(block.space) for block in self.pair_blocks)

    @property
    def block_sizes(self) -> dict[str, int]:
        """The number of features of each template, state templates first."""
        return {str(block.templates[0]): len(block.space) for block in self.state_blocks + self.pair_blocks}

    def encode(self, text: ColumnText, *, unknown_labels: str = "mark") -> Sequences:
        r"""Encode the state features of a text. Features that do not occur in training are ignored.

        Parameters
        ----------
        text : ColumnText
            The text. Without the label column all labels are −1.
        unknown_labels : {"mark", "error"}, default: "mark"
            What becomes of a label that does not occur in training: −1, or a DataError with its file and line.

        Returns
        -------
        Sequences

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, "tagger")
        >>> encoder.encode(parse_columns("the DT\ncat NN\n")).labels.tolist()
        [-1, -1]
        """
        return self._encoded(text, self.n_features, unknown_labels, states=True)

    def encode_pairs(self, text: ColumnText) -> Sequences:
        r"""Encode the features of label pairs.

        Parameters
        ----------
        text : ColumnText
            The text.

        Returns
        -------
        Sequences
            Row i belongs to the labels of tokens i − 1 and i; the row of a sentence's first token is empty. The codes
            are those of `pair_feature_names`.

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, parse_templates("U00:%x[0,0]\nB01:%x[0,1]"))
        >>> encoder.encode_pairs(text).indptr.tolist()
        [0, 0, 1, 1, 2]
        """
        return self._encoded(text, self.n_pair_features, "mark", states=False)

    def with_pairs(self, text: ColumnText, states: Sequences) -> Sequences:
        r"""Add the features of label pairs to an encoded text.

        Parameters
        ----------
        text : ColumnText
            The text.
        states : Sequences
            What `encode` returned for it.

        Returns
        -------
        Sequences
            The features of pairs follow those of each token, with codes from ``n_features`` on.

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, parse_templates("U00:%x[0,0]\nB01:%x[0,1]"))
        >>> encoder.with_pairs(text, data).n_features - data.n_features
        2
        """
        if not self.n_pair_features:
            return states
        pairs = self.encode_pairs(text)
        indices = np.empty(len(states.indices) + len(pairs.indices), dtype=np.int32)
        state_places = np.arange(len(states.indices)) + np.repeat(pairs.indptr[:-1], np.diff(states.indptr))
        more = np.arange(len(pairs.indices)) + np.repeat(states.indptr[1:], np.diff(pairs.indptr))
        indices[state_places] = states.indices
        indices[more] = pairs.indices + np.int32(self.n_features)
        return Sequences(
            offsets=states.offsets,
            indptr=states.indptr + pairs.indptr,
            indices=indices,
            values=None,
            labels=states.labels,
            n_features=self.n_features + self.n_pair_features,
            n_labels=states.n_labels,
        )

    def feature_names(self, codes: Iterable[int] | None = None) -> list[str]:
        r"""Return names of state features.

        Parameters
        ----------
        codes : iterable of int, or None, default: None
            Codes of the features. None: all.

        Returns
        -------
        list of str

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, parse_templates("U00:%x[0,0]\nB01:%x[0,1]"))
        >>> encoder.feature_names([0, 1])
        ['U00:the', 'U00:dog']
        """
        return self._names(self.state_blocks, codes)

    def pair_feature_names(self, codes: Iterable[int] | None = None) -> list[str]:
        r"""Return names of features of label pairs.

        Parameters
        ----------
        codes : iterable of int, or None, default: None
            Codes of the features. None: all.

        Returns
        -------
        list of str

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, parse_templates("U00:%x[0,0]\nB01:%x[0,1]"))
        >>> encoder.pair_feature_names()
        ['B01:NN', 'B01:VB']
        """
        return self._names(self.pair_blocks, codes)

    def _names(self, blocks: Sequence[Block], codes: Iterable[int] | None) -> list[str]:
        sizes = [len(block.space) for block in blocks]
        starts = np.cumsum([0, *sizes])
        chosen = np.arange(starts[-1]) if codes is None else np.asarray(list(codes), dtype=np.int64)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < starts[-1]):
            raise DataError(
                f"Feature codes must lie in 0..{starts[-1] - 1}; they reach {chosen.min()}..{chosen.max()}."
            )
        reach = range(1, self.spec.reach + 1)
        padding = [*(f"_B-{step}" for step in reach), *(f"_B+{step}" for step in reach)]
        names = [""] * len(chosen)
        owner = np.searchsorted(starts, chosen, side="right") - 1
        for number in np.unique(owner).tolist():
            block, where = blocks[number], np.flatnonzero(owner == number)
            template = block.templates[0]
            parts = block.space.decode(chosen[where] - starts[number])
            values = []
            for cell, part in zip(template.cells, parts, strict=False):  # no cells: one part that says nothing
                known = self.vocabularies[cell.column, cell.derivation]
                words = len(known)
                values.append([known[code] if code < words else padding[code - words] for code in part.tolist()])
            rows = zip(*values, strict=True) if values else iter([()] * len(where))
            for place, row in zip(where.tolist(), rows, strict=True):
                names[place] = template.name(row)
        return names

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # the kernel is made again

    @cached_property
    def kernel(self) -> _kernels.TemplateEncoder:
        """The encoder as the kernels have it: tables of values and of keys."""
        sources = self._sources
        places = {source: place for place, source in enumerate(sources)}

        def listed(blocks: Iterable[Block]) -> list[object]:
            return [
                (
                    [[(places[c.column, c.derivation], c.row) for c in t.cells] for t in block.templates],
                    block.space.radices,
                    block.space.ranks,
                    block.space.keys,
                )
                for block in blocks
            ]

        return _kernels.TemplateEncoder(
            sources=[(column, *parse_derivation(name), self.vocabularies[column, name]) for column, name in sources],
            stop_words=self.stop_words,
            reach=self.spec.reach,
            n_columns=self.n_columns,
            states=listed(self.state_blocks),
            pairs=listed(self.pair_blocks),
        )

    @property
    def _sources(self) -> list[Source]:
        """What the templates read, column by column."""
        return sorted(self.vocabularies, key=itemgetter(0))

    def _encoded(self, text: ColumnText, n_features: int, unknown: str, *, states: bool) -> Sequences:
        """The state features or the features of label pairs."""
        if text.n_tokens:
            _check_columns(self.spec, text, self.label_column if text.n_columns == self.n_columns else None)
            if text.n_columns > self.n_columns:
                raise DataError(
                    f"A token of {text.sources[0][0]} has {text.n_columns} columns; the "
                    f"features were learnt from {self.n_columns}, with the label in column {self.label_column}. "
                    f"Give these, with or without the label."
                )
        empty = np.zeros(0, dtype=np.int32)
        codes = [
            self.kernel.codes(place, text.values[column])[text.codes[column]] if text.n_tokens else empty
            for place, (column, _) in enumerate(self._sources)
        ]
        indptr, indices = self.kernel.features(text.offsets, codes, states, not states)
        return Sequences(
            offsets=text.offsets,
            indptr=indptr,
            indices=indices if states else indices - np.int32(self.n_features),
            values=None,
            labels=self._label_codes(text, unknown),
            n_features=n_features,
            n_labels=len(self.labels),
        )

    def _sequences(
        self, text: ColumnText, columns: Sequence[Int32Array], blocks: Sequence[Block], unknown: str | None
    ) -> Sequences:
        starts = np.cumsum([0] + [len(block.space) for block in blocks])
        owners = [number for number, block in enumerate(blocks) for _ in block.templates]
        grid = np.empty((text.n_tokens, len(columns)), dtype=np.int32)
        full = True
        for place, (codes, owner) in enumerate(zip(columns, owners, strict=True)):
            np.add(codes, np.int32(starts[owner]), out=grid[:, place])
            absent = codes < 0
            if absent.any():
                grid[absent, place] = -1
                full = False
        if full:
            indptr = np.arange(text.n_tokens + 1, dtype=np.int64) * len(columns)
            indices = grid.ravel()
        else:
            present = grid >= 0
            indptr = np.zeros(text.n_tokens + 1, dtype=np.int64)
            np.cumsum(present.sum(axis=1), out=indptr[1:])
            indices = grid[present]
        return Sequences(
            offsets=text.offsets,
            indptr=indptr,
            indices=indices,
            values=None,
            labels=self._label_codes(text, unknown),
            n_features=int(starts[-1]),
            n_labels=len(self.labels),
        )

    def _label_codes(self, text: ColumnText, unknown: str | None) -> Int32Array:
        if unknown not in (None, "mark", "error"):
            raise DataError(f"unknown_labels must be 'mark' or 'error'; got {unknown!r:.80}.")
        if text.n_columns != self.n_columns:
            return np.full(text.n_tokens, UNKNOWN, dtype=np.int32)
        values = text.values[self.label_column]
        codes = self.labels.encode(values, len(values))[text.codes[self.label_column]]
        if unknown == "error" and codes.size and int(codes.min()) < 0:
            token = int(np.flatnonzero(codes < 0)[0])
            label = values[text.codes[self.label_column][token]]
            raise DataError(
                f"{text.place(token)}: the label {label!r:.80} is not one of the {len(self.labels)} training labels."
            )
        return codes

    def to_arrays(self) -> Arrays:
        r"""Return the encoder as plain arrays, from which `from_arrays` makes it again.

        Returns
        -------
        dict of ndarray

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, parse_templates("U00:%x[0,0]\nB01:%x[0,1]"))
        >>> copy = ColumnEncoder.from_arrays(encoder.to_arrays())
        >>> copy.feature_names() == encoder.feature_names()
        True
        """
        sources = list(self.vocabularies)
        about = {
            "name": self.spec.name,
            "templates": self.spec.to_text(),
            "n_columns": self.n_columns,
            "label_column": self.label_column,
            "sources": sources,
            "blocks": [
                {"radices": list(block.space.radices), "ranks": sorted(block.space.ranks)}
                for block in self.state_blocks + self.pair_blocks
            ],
        }
        arrays: Arrays = {}
        pack_text(arrays, "about", [json.dumps(about)])
        pack_text(arrays, "labels", [str(name) for name in self.labels])
        pack_text(arrays, "stop_words", self.stop_words)
        for number, source in enumerate(sources):
            pack_text(arrays, f"vocabulary{number}", self.vocabularies[source])
        for number, block in enumerate(self.state_blocks + self.pair_blocks):
            arrays[f"keys{number}"] = block.space.keys
            for position, table in block.space.ranks.items():
                arrays[f"keys{number}.{position}"] = table
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> ColumnEncoder:
        r"""Make an encoder from its arrays.

        Parameters
        ----------
        arrays : mapping of ndarray
            What `to_arrays` returned.

        Returns
        -------
        ColumnEncoder

        Examples
        --------
        >>> from fieldfit.chains import ColumnEncoder, parse_columns, parse_templates
        >>> text = parse_columns("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\nruns VB B-VP\n")
        >>> encoder, data = ColumnEncoder.fit(text, parse_templates("U00:%x[0,0]\nB01:%x[0,1]"))
        >>> list(ColumnEncoder.from_arrays(encoder.to_arrays()).labels)
        ['B-NP', 'B-VP', 'I-NP']
        """
        about = json.loads(unpack_text(arrays, "about")[0])
        spec = parse_templates(about["templates"], source=about["name"])
        spaces = [
            KeySpace(
                tuple(block["radices"]),
                {position: arrays[f"keys{number}.{position}"] for position in block["ranks"]},
                arrays[f"keys{number}"],
            )
            for number, block in enumerate(about["blocks"])
        ]
        groups = group_templates(spec.states), group_templates(spec.pairs)
        blocks = [Block(group, space) for group, space in zip([*groups[0], *groups[1]], spaces, strict=True)]
        vocabularies = {
            (column, derivation): tuple(unpack_text(arrays, f"vocabulary{number}"))
            for number, (column, derivation) in enumerate(about["sources"])
        }
        for block in blocks:
            sizes = [len(vocabularies[cell.column, cell.derivation]) for cell in block.templates[0].cells]
            block.space.check([size + 2 * spec.reach for size in sizes] or [1])
        return cls(
            spec=spec,
            labels=Alphabet(unpack_text(arrays, "labels")),
            n_columns=about["n_columns"],
            label_column=about["label_column"],
            stop_words=tuple(unpack_text(arrays, "stop_words")),
            vocabularies=vocabularies,
            state_blocks=tuple(blocks[: len(groups[0])]),
            pair_blocks=tuple(blocks[len(groups[0]) :]),
        )


def _sources(spec: FeatureSpec) -> list[Source]:
    return list(dict.fromkeys((cell.column, cell.derivation) for t in spec.templates for cell in t.cells))


def _values(source: Source, text: ColumnText, stop_words: Sequence[str]) -> Sequence[str | None]:
    column, derivation = source
    if text.n_tokens == 0:
        return ()
    values = text.values[column]
    return derive(derivation, values, frozenset(stop_words)) if derivation else values


def _recode(values: Sequence[str | None], table: Mapping[str, int], text: ColumnText, source: Source) -> Int32Array:
    recoded = np.fromiter(
        (-1 if value is None else table.get(value, -1) for value in values), dtype=np.int32, count=len(values)
    )
    result: Int32Array = recoded[text.codes[source[0]]]
    return result


def _check_columns(spec: FeatureSpec, text: ColumnText, label_column: int | None) -> None:
    for column in spec.columns:
        if column >= text.n_columns:
            raise DataError(
                f"The features {spec.name!r:.80} read column {column} (counted from 0). A token of "
                f"{text.sources[0][0]} has {counted(text.n_columns, 'columns')}. Give the columns "
                f"of training, in the same order, in a list of sentences (predict_single takes one sentence)."
            )
        if column == label_column:
            raise DataError(
                f"The features {spec.name!r:.80} read column {column} (counted from 0), and in {text.sources[0][0]} that "
                f"column has the labels. Give tokens with {counted(column + 1, 'columns')} before the label, for example "
                "(word, part of speech), or other features."
            )
