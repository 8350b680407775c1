"""How long text takes to become features: reading and encoding CoNLL-2000, and dicts against python-crfsuite.

python benchmarks/encoding.py     (needs FIELDFIT_DATA; python-crfsuite from PyPI is the peer)

The peer turns the same dicts into its own ItemSequence objects. Both take the same input and make what their trainer
or tagger reads; best of five runs each, in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, read_columns
from fieldfit.data.locate import find_data


def seconds(*tasks: Callable[[], object], repeats: int = 5) -> list[float]:
    """The best time of each task, the tasks taking turns."""
    best = [float("inf")] * len(tasks)
    for _ in range(repeats):
        for number, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def feature_dicts(text: ColumnText) -> list[list[dict[str, str | bool]]]:
    """Seven attributes a token, as a user of sklearn-crfsuite writes them."""
    sentences: list[list[dict[str, str | bool]]] = []
    for words, tags in zip(text.sentences(0), text.sentences(1), strict=True):
        words, tags = ["<s>", *words, "</s>"], ["<s>", *tags, "</s>"]
        sentences.append(
            [
                {
                    "word": words[t],
                    "pos": tags[t],
                    "word-1": f"{words[t - 1]} {words[t]}",
                    "word+1": f"{words[t]} {words[t + 1]}",
                    "pos-1": f"{tags[t - 1]} {tags[t]}",
                    "pos+1": f"{tags[t]} {tags[t + 1]}",
                    "title": words[t].istitle(),
                }
                for t in range(1, len(words) - 1)
            ]
        )
    return sentences


def main() -> None:
    from pycrfsuite import ItemSequence

    path = find_data("conll2000/train.txt")
    text = read_columns(path)
    encoder, _ = ColumnEncoder.fit(text)
    reading, learning, encoding = seconds(
        lambda: read_columns(path), lambda: ColumnEncoder.fit(text), lambda: encoder.encode(text)
    )
    print(f"CoNLL-2000 train, {text.n_tokens} tokens, seven features")
    print(f"  read {reading:.3f} s, learn and encode {learning:.3f} s, encode with frozen features {encoding:.3f} s")

    X, y = feature_dicts(text), text.sentences(2)
    frozen, _ = AttributeEncoder.fit(X, y)
    learning, encoding, peer = seconds(
        lambda: AttributeEncoder.fit(X, y), lambda: frozen.encode(X), lambda: [ItemSequence(x) for x in X]
    )
    print("The same tokens as dicts, seven attributes each")
    print(f"  fieldfit: learn and encode {learning:.3f} s, encode {encoding:.3f} s; python-crfsuite {peer:.3f} s")
    print(f"  python-crfsuite / fieldfit: learn {peer / learning:.2f}, encode {peer / encoding:.2f}")

    test = feature_dicts(read_columns(find_data("conll2000/test.txt")))
    together, singly, peer = seconds(
        lambda: frozen.encode(test),
        lambda: [frozen.encode([x]) for x in test],
        lambda: [ItemSequence(x) for x in test],
    )
    print("Test sentences with frozen features")
    print(f"  fieldfit: all at once {together:.3f} s, one by one {singly:.3f} s; python-crfsuite {peer:.3f} s")
    print(f"  python-crfsuite / fieldfit: at once {peer / together:.2f}, one by one {peer / singly:.2f}")


if __name__ == "__main__":
    main()
