"""Toy sentences: the label depends on the word and on the label before."""

import numpy as np
import pytest

WORDS = ["the", "a", "dog", "cat", "runs", "sees", "big", "red"]


def make_sentences(n, seed=0):
    """Words, feature dicts and labels; some sentences are empty, some have one token."""
    rng = np.random.default_rng(seed)
    words, labels = [], []
    for length in rng.integers(0, 8, n):
        chosen = [WORDS[k] for k in rng.integers(0, len(WORDS), length)]
        tags: list[str] = []
        for word in chosen:
            inside = bool(tags) and tags[-1] != "O"
            if word in ("the", "a"):
                tags.append("B-NP")
            elif word in ("dog", "cat", "big", "red"):
                tags.append("I-NP" if inside and rng.random() < 0.9 else "B-NP")
            else:
                tags.append("O" if rng.random() < 0.9 else "B-VP")
        words.append(chosen)
        labels.append(tags)
    dicts = [
        [
            {"word": w, "length": float(len(w)), "first": t == 0, "shape": {"short": len(w) < 4}}
            for t, w in enumerate(s)
        ]
        for s in words
    ]
    return words, dicts, labels


@pytest.fixture(scope="session")
def toy():
    return make_sentences(120)


@pytest.fixture(scope="session")
def unseen():
    return make_sentences(40, seed=1)
