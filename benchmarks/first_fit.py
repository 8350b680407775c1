"""No warm-up: the first and the second fit of a fresh process.

    python benchmarks/first_fit.py [--sentences N] [--iterations N] [--processes N]

Each process imports fieldfit, reads and encodes the sentences, then fits the same chain CRF (FL, σ² = 1, observed pairs)
three times, from nothing each time: what a fit compiles, imports and allocates counts. The best of several processes is
taken for the first fit and for the others. Needs FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings


def run(name: str, sentences: int, iterations: int) -> dict[str, float]:
    start = time.perf_counter()
    import fieldfit as ff
    from fieldfit.types import ConvergenceWarning

    chain_crf, fit_model = ff.ChainCRF, ff.fit  # names are loaded when first used
    imported = time.perf_counter() - start
    from chain_corpora import SIGMA2, learn, training_text

    start = time.perf_counter()
    _, data = learn(name, training_text(name, sentences or None))
    encoded = time.perf_counter() - start
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model = chain_crf(data.n_labels, data.n_features, pairs="observed", start=False, end=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit_model(model, data, "FL", sigma2=SIGMA2, tol=1e-12, max_iter=iterations)
        seconds.append(time.perf_counter() - start)
    return {"import": imported, "encode": encoded, "first": seconds[0], "second": min(seconds[1:])}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        name, sentences, iterations = sys.argv[2:]
        print(json.dumps(run(name, int(sentences), int(iterations))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1000, help="CoNLL-2000 sentences; ATIS is taken whole")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    from measure import child  # here, so that a child imports nothing before its clock starts

    for name, title, size in (
        ("conll", f"CoNLL-2000, {options.sentences:,} sentences", options.sentences),
        ("atis", "ATIS", 0),
    ):
        runs = [child(__file__, name, str(size), str(options.iterations)) for _ in range(options.processes)]
        best = {key: min(one[key] for one in runs) for key in runs[0]}
        print(
            f"{title}: import {best['import']:.2f} s, read and encode {best['encode']:.2f} s; first fit "
            f"{best['first']:.3f} s, second {best['second']:.3f} s ({options.iterations} iterations): "
            f"first / second {best['first'] / best['second']:.2f}"
        )


if __name__ == "__main__":
    main()
