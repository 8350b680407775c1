"""Encoders of texts in pieces: what each piece has is learnt alone and joined in the order of the pieces.

The joined encoder is that of all pieces in one text, with the same codes: values have codes in the order in which they
first occur, and features in the order of their keys. A feature is left out by its count in all pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.data.alphabet import Alphabet
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.attributes import AttributeText
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText
from fieldfit.data.keys import KeySpace, learn_keys
from fieldfit.data.template_blocks import Block, Source
from fieldfit.data.templates import FeatureSpec
from fieldfit.types import IntArray


@dataclass(frozen=True)
class ColumnPart:
    """An encoder of all features of some pieces, and how often each occurs: those of states, then those of label pairs."""

    encoder: ColumnEncoder
    counts: IntArray

    @classmethod
    def of(cls, text: ColumnText, spec: FeatureSpec, stop_words: Sequence[str]) -> ColumnPart:
        """The part of one piece, which has tokens."""
        encoder, states = ColumnEncoder.fit(text, spec, stop_words=stop_words)
        counts = [np.bincount(states.indices, minlength=encoder.n_features)]
        if encoder.n_pair_features:
            pairs = encoder.encode_pairs(text)
            counts.append(np.bincount(pairs.indices, minlength=encoder.n_pair_features))
        return cls(encoder, np.concatenate(counts).astype(np.int64))

    def joined(self, other: ColumnPart) -> ColumnPart:
        """The part of these pieces, followed by others with the same columns."""
        first, second = self.encoder, other.encoder
        vocabularies = {
            source: tuple(dict.fromkeys(values + second.vocabularies[source]))
            for source, values in first.vocabularies.items()
        }
        blocks: list[Block] = []
        counts: list[IntArray] = []
        start = [0, 0]
        for pair in zip(
            first.state_blocks + first.pair_blocks, second.state_blocks + second.pair_blocks, strict=True
        ):
            stop = [begin + len(block.space) for begin, block in zip(start, pair, strict=True)]
            old = np.concatenate([self.counts[start[0] : stop[0]], other.counts[start[1] : stop[1]]])
            space, summed = _joined_space(pair, (first, second), vocabularies, old)
            blocks.append(Block(pair[0].templates, space))
            counts.append(summed)
            start = stop
        cut = len(first.state_blocks)
        labels = Alphabet.sorted([*first.labels, *second.labels])
        encoder = replace(
            first,
            labels=labels,
            vocabularies=vocabularies,
            state_blocks=tuple(blocks[:cut]),
            pair_blocks=tuple(blocks[cut:]),
        )
        return ColumnPart(encoder, np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64))

    def finished(self, min_count: int) -> ColumnEncoder:
        """The encoder of the features that occur at least ``min_count`` times."""
        encoder, frequent, blocks, start = self.encoder, self.counts >= min_count, [], 0
        for block in encoder.state_blocks + encoder.pair_blocks:
            stop = start + len(block.space)
            blocks.append(Block(block.templates, replace(block.space, keys=block.space.keys[frequent[start:stop]])))
            start = stop
        cut = len(encoder.state_blocks)
        return replace(encoder, state_blocks=tuple(blocks[:cut]), pair_blocks=tuple(blocks[cut:]))


@dataclass(frozen=True)
class AttributePart:
    """The attributes and labels of some pieces in CRFsuite's format, and how often each attribute occurs."""

    encoder: AttributeEncoder
    counts: IntArray

    @classmethod
    def of(cls, text: AttributeText) -> AttributePart:
        """The part of one piece, which has tokens."""
        encoder, sequences = AttributeEncoder.fit(text)
        return cls(encoder, np.bincount(sequences.indices, minlength=encoder.n_features))

    def joined(self, other: AttributePart) -> AttributePart:
        """The part of these pieces, followed by others."""
        features = Alphabet(dict.fromkeys([*self.encoder.features, *other.encoder.features]))
        counts = np.zeros(len(features), dtype=np.int64)
        for part in (self, other):
            counts[features.encode(part.encoder.features, len(part.counts))] += part.counts
        labels = Alphabet.sorted([*self.encoder.labels, *other.encoder.labels])
        return AttributePart(AttributeEncoder(features, labels), counts)

    def finished(self, min_count: int) -> AttributeEncoder:
        """The encoder of the attributes that occur at least ``min_count`` times."""
        names = [
            name
            for name, count in zip(self.encoder.features, self.counts.tolist(), strict=True)
            if count >= min_count
        ]
        return AttributeEncoder(Alphabet(names), self.encoder.labels)


def _joined_space(
    blocks: tuple[Block, Block],
    encoders: tuple[ColumnEncoder, ColumnEncoder],
    vocabularies: dict[Source, tuple[str, ...]],
    counts: IntArray,
) -> tuple[KeySpace, IntArray]:
    """The features of a block in two encoders as those of one, with the sums of their counts."""
    cells = blocks[0].templates[0].cells
    outside = 2 * encoders[0].spec.reach
    decoded = [block.space.decode(np.arange(len(block.space))) for block in blocks]
    if not cells:  # one feature, that every token has
        parts, radices = [np.concatenate([part[0] for part in decoded])], [1]
    else:
        parts, radices = [], []
        for position, cell in enumerate(cells):
            source = cell.column, cell.derivation
            new = {value: code for code, value in enumerate(vocabularies[source])}
            moved = []
            for encoder, part in zip(encoders, decoded, strict=True):
                old = encoder.vocabularies[source]
                table = np.fromiter((new[value] for value in old), np.int64, len(old))
                # Codes beyond the values are places outside the sentence.
                table = np.concatenate([table, len(new) + np.arange(outside)])
                moved.append(table[part[position]])
            parts.append(np.concatenate(moved))
            radices.append(len(new) + outside)
    space, codes = learn_keys([part.astype(np.int32) for part in parts], radices)
    return space, np.bincount(codes, weights=counts, minlength=len(space)).astype(np.int64)
