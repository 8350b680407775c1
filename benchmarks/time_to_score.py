"""Seconds from text to a tagger with a given F1: CRF++'s template on CoNLL-2000, FL, σ² = 1, all pairs, min_count 3.

    python benchmarks/time_to_score.py [iterations ...]

Each line is a fit of its own with at most that many iterations; its seconds include reading and encoding. Needs
FIELDFIT_DATA.
"""

from __future__ import annotations

import sys
import time
import warnings

import fieldfit as ff
from fieldfit.data.chunks import chunk_scores
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.templates import parse_templates
from fieldfit.estimators.sequence_input import split_sentences
from fieldfit.threads import get_threads

TEMPLATE = """
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
B
"""


def main() -> None:
    print(f"{get_threads()} threads")
    train, test = find_data("conll2000/train.txt"), read_columns(find_data("conll2000/test.txt"))
    for iterations in [int(text) for text in sys.argv[1:]] or (40, 80, 120):
        wall, processor = time.perf_counter(), time.process_time()
        encoder, data = ColumnEncoder.fit(read_columns(train), parse_templates(TEMPLATE), min_count=3)
        model = ff.ChainCRF(data.n_labels, data.n_features, pairs="all").observe(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = ff.fit(model, data, "FL", sigma2=1.0, max_iter=iterations, tol=1e-12)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        encoded, names = encoder.encode(test), [str(label) for label in encoder.labels]
        codes = model.predict(fit.theta, encoded).tolist()
        predicted = split_sentences([names[code] for code in codes], encoded.offsets)
        score = chunk_scores(test.sentences(encoder.label_column), predicted).f1
        print(
            f"{iterations:4d} iterations, {model.n_parameters:,} weights: {wall:5.1f} s (CPU {processor:5.1f}), F1 "
            f"{100 * score:.2f}"
        )


if __name__ == "__main__":
    main()
