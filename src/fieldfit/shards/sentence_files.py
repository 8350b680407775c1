"""Files of sentences as pieces of one corpus: features are learnt where the files are read, and so are the sentences."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from glob import has_magic
from hashlib import blake2b
from typing import NoReturn, cast

import numpy as np

from fieldfit.arguments import whole_number
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.attributes import AttributeText
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, parse_columns, read_columns
from fieldfit.data.crfsuite_text import read_crfsuite
from fieldfit.data.dataset import Dataset
from fieldfit.data.encoder_parts import AttributePart, ColumnPart
from fieldfit.data.encoders import Encoder
from fieldfit.data.features import load_stop_words
from fieldfit.data.sequences import Sequences
from fieldfit.data.templates import FeatureSpec
from fieldfit.data.textfile import opened_stream
from fieldfit.shards.backend import Backend, LocalBackend
from fieldfit.shards.pieces import Pieces, matching
from fieldfit.shards.shard import Question, Reply, Shard, Shared
from fieldfit.types import Array, DataError, FloatArray
from fieldfit.words import counted

#: What to do with a file that does not fit into memory.
_SMALLER = "Make files of fewer sentences (`fieldfit shard --sentences`)"
#: Bytes from which the number of columns is read.
_FIRST = 1 << 16


@dataclass(frozen=True)
class SentenceFile:
    """One file: columns, or CRFsuite's format."""

    path: str
    separator: str | None = None
    attributes: bool = False

    def read(self) -> ColumnText | AttributeText:
        """The whole text."""
        return read_crfsuite(self.path) if self.attributes else read_columns(self.path, separator=self.separator)

    def width(self) -> int:
        """The number of columns of the first token; 0 where there is none."""
        with opened_stream(self.path) as stream:
            first = stream.read(_FIRST).decode("utf-8", "ignore")
        line = next((line for line in first.splitlines() if line.strip()), "")
        text = parse_columns(line, separator=self.separator, source=self.path)
        return text.n_columns if text.n_tokens else 0


@dataclass(frozen=True)
class SentencePiece:
    """A file, the encoder of the corpus, and the digest of the text that the encoder has learnt from, if it is known."""

    file: SentenceFile
    encoder: Encoder
    learnt_from: str | None = None
    smaller: str = _SMALLER

    @property
    def path(self) -> str:
        """That of the file."""
        return self.file.path

    def load(self) -> Sequences:
        """The encoded sentences."""
        text, encoder = self.file.read(), self.encoder
        if self.learnt_from is not None and text_digest(text) != self.learnt_from:
            raise DataError(
                f"{self.path} has changed since its features were learnt. Fit again, and do not change the data during a "
                "fit."
            )
        if isinstance(text, ColumnText):
            assert isinstance(encoder, ColumnEncoder)
            return encoder.with_pairs(text, encoder.encode(text))
        assert isinstance(encoder, AttributeEncoder)
        return encoder.encode(text)


@dataclass(frozen=True)
class SentenceFiles:
    r"""Files of sentences with labels.

    Parameters
    ----------
    files : tuple of SentenceFile
        The files, in the order of the sentences.

    Examples
    --------
    >>> from pathlib import Path
    >>> import fieldfit as ff
    >>> from fieldfit.chains import SentenceFiles
    >>> for number, words in enumerate(["the D\ndog N\n", "a D\ncat N\n"]):
    ...     length = Path(f"part-{number}.conll").write_text(words)
    >>> tagger = ff.CRFTagger(sigma2=1).fit(SentenceFiles.matching("part-*.conll"))
    >>> tagger.predict([[["the"], ["cat"]]])
    [['D', 'N']]
    """

    files: tuple[SentenceFile, ...]

    @classmethod
    def matching(
        cls,
        pattern: str | os.PathLike[str] | Sequence[os.PathLike[str]],
        *,
        separator: str | None = None,
        format: str = "columns",
    ) -> SentenceFiles:
        r"""The files that match a pattern such as ``"data/*.conll"``, in the order of their names, or listed files.

        Parameters
        ----------
        pattern : str, Path or sequence of Path
            A pattern, one file, or files in the order of their sentences.
        separator : str or None, default: None
            Text between columns. None: any run of spaces and tabs.
        format : {"columns", "crfsuite"}, default: "columns"
            Format of the files.

        Returns
        -------
        SentenceFiles

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit.chains import SentenceFiles
        >>> for number, words in enumerate(["the D\ndog N\n", "a D\ncat N\n"]):
        ...     length = Path(f"part-{number}.conll").write_text(words)
        >>> files = SentenceFiles.matching("part-*.conll")
        >>> [Path(file.path).name for file in files.files]
        ['part-0.conll', 'part-1.conll']
        """
        if format not in ("columns", "crfsuite"):
            raise DataError(f"The format of sentences is {format!r:.80}; it must be 'columns' or 'crfsuite'.")
        if isinstance(pattern, str | os.PathLike):
            path = os.fspath(pattern)
            paths = matching(path) if has_magic(path) and not os.path.exists(path) else [path]
        else:
            paths = [os.fspath(path) for path in pattern]
            if not paths:
                raise DataError("The list of files of sentences is empty. Give at least one file.")
        absolute = map(os.path.abspath, paths)  # workers may run in other folders
        return cls(tuple(SentenceFile(path, separator, format == "crfsuite") for path in absolute))

    def width(self, backend: Backend | None = None) -> int:
        r"""Return the number of columns.

        Parameters
        ----------
        backend : Backend or None, default: None
            Where the files are read. None: here.

        Returns
        -------
        int

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit.chains import SentenceFiles
        >>> for number, words in enumerate(["the D\ndog N\n", "a D\ncat N\n"]):
        ...     length = Path(f"part-{number}.conll").write_text(words)
        >>> files = SentenceFiles.matching("part-*.conll")
        >>> files.width()
        2
        """
        widths = [width for width in self._ask(_width, backend) if width]
        if not widths:
            raise DataError(f"The {len(self.files)} files have no tokens; there is nothing to learn features from.")
        return widths[0]

    def learn(self, spec: FeatureSpec | None, min_count: int = 1, backend: Backend | None = None) -> Encoder:
        r"""Learn features and labels: each file where it is read, joined here in the order of the files.

        Parameters
        ----------
        spec : FeatureSpec or None
            The templates. None for files in CRFsuite's format, which have attributes.
        min_count : int, default: 1
            Features that occur less often are left out.
        backend : Backend or None, default: None
            Where the files are read. None: here.

        Returns
        -------
        Encoder

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit.chains import SentenceFiles, parse_templates
        >>> for number, words in enumerate(["the D\ndog N\n", "a D\ncat N\n"]):
        ...     length = Path(f"part-{number}.conll").write_text(words)
        >>> files = SentenceFiles.matching("part-*.conll")
        >>> encoder = files.learn(parse_templates("U00:%x[0,0]"))
        >>> encoder.n_features, list(encoder.labels)
        (4, ['D', 'N'])
        """
        return self._learnt(spec, min_count, backend)[0]

    def learn_and_encode(
        self, spec: FeatureSpec | None, min_count: int = 1, backend: Backend | None = None
    ) -> tuple[Encoder, Pieces]:
        r"""Do both `learn` and `encoded`. A file that changes in between is refused when it is read again.

        Parameters
        ----------
        spec, min_count, backend
            As for `learn`.

        Returns
        -------
        (Encoder, Pieces)

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit.chains import SentenceFiles, parse_templates
        >>> for number, words in enumerate(["the D\ndog N\n", "a D\ncat N\n"]):
        ...     length = Path(f"part-{number}.conll").write_text(words)
        >>> encoder, pieces = SentenceFiles.matching("part-*.conll").learn_and_encode(parse_templates("U00:%x[0,0]"))
        >>> encoder.n_features, len(pieces.pieces)
        (4, 2)
        """
        encoder, digests = self._learnt(spec, min_count, backend)
        pairs = zip(self.files, digests, strict=True)
        return encoder, Pieces(tuple(SentencePiece(file, encoder, digest) for file, digest in pairs))

    def _learnt(
        self, spec: FeatureSpec | None, min_count: int, backend: Backend | None
    ) -> tuple[Encoder, tuple[str, ...]]:
        """The encoder, and the digests of the texts that it has learnt from."""
        min_count = whole_number(min_count, "min_count", 1, error=DataError)
        words = load_stop_words() if spec is not None and spec.uses_stop_words else ()
        answers = self._ask(partial(_learn, spec, words), backend)
        parts = [part for part, _ in answers if part is not None]
        if not parts:
            raise DataError(f"The {len(self.files)} files have no tokens; there is nothing to learn features from.")
        columns = [
            (file.path, part.encoder.n_columns)
            for file, (part, _) in zip(self.files, answers, strict=True)
            if isinstance(part, ColumnPart)
        ]
        for path, count in columns:
            if count != columns[0][1]:
                raise DataError(
                    f"{columns[0][0]} has {counted(columns[0][1], 'columns')}, and {path} has {count}. All files must have "
                    "the same columns."
                )
        alike = cast("list[ColumnPart]", parts)  # files of one format: all are of one kind, here or `AttributePart`
        encoder = reduce(lambda first, second: first.joined(second), alike).finished(min_count)
        return encoder, tuple(digest for _, digest in answers)

    def encoded(self, encoder: Encoder) -> Pieces:
        r"""Return the sentences as data for `fieldfit.fit`, encoded where they are read.

        Parameters
        ----------
        encoder : Encoder
            What `learn` returned.

        Returns
        -------
        Pieces

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit.chains import SentenceFiles, parse_templates
        >>> for number, words in enumerate(["the D\ndog N\n", "a D\ncat N\n"]):
        ...     length = Path(f"part-{number}.conll").write_text(words)
        >>> files = SentenceFiles.matching("part-*.conll")
        >>> encoder = files.learn(parse_templates("U00:%x[0,0]"))
        >>> len(files.encoded(encoder).pieces)
        2
        """
        return Pieces(tuple(SentencePiece(file, encoder) for file in self.files))

    def _ask(self, question: Question[SentenceFile, Reply], backend: Backend | None) -> list[Reply]:
        placed = (backend or LocalBackend()).place([_Elsewhere(file.path) for file in self.files])
        return placed.each(question, arguments=self.files)


@dataclass(frozen=True)
class _Elsewhere:
    """The source of shards that are only asked about files."""

    name: str
    advice: str = f"{_SMALLER}, or give it more memory."

    def read(self) -> NoReturn:
        raise DataError("These shards have no samples.")

    def weights(self, dataset: Dataset) -> FloatArray | None:
        return None


def _width(shard: Shard, shared: Shared, file: SentenceFile) -> int:
    """How many columns a file has."""
    return file.width()


def _learn(
    spec: FeatureSpec | None, stop_words: tuple[str, ...], shard: Shard, shared: Shared, file: SentenceFile
) -> tuple[ColumnPart | AttributePart | None, str]:
    """What a file has of the features ``spec`` (None: its attributes), None without tokens; and the digest of its text."""
    text = file.read()
    digest = text_digest(text)
    if isinstance(text, AttributeText):
        return (AttributePart.of(text) if text.labels else None), digest
    assert spec is not None
    return (ColumnPart.of(text, spec, stop_words) if text.n_tokens else None), digest


def text_digest(text: ColumnText | AttributeText) -> str:
    """32 hexadecimal digits for all sentences of a text with their labels."""
    if isinstance(text, ColumnText):
        words: tuple[object, ...] = text.values
        arrays: list[Array] = [text.offsets, *text.codes]
    else:
        words = (text.names, text.labels)
        rows = text.rows
        arrays = [rows.offsets, rows.indptr, rows.codes, *([] if rows.values is None else [rows.values])]
    digest = blake2b(repr((words, [array.shape for array in arrays])).encode(), digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
