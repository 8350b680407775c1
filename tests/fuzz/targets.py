"""What comes from strangers, as functions of bytes: each must end well or with an error of fieldfit.

``SEEDS`` has the targets with the contents from which cases are made. `guided` adds what it found in ``corpus``.
"""

import ast
import functools
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import fieldfit as ff
from fieldfit.types import FieldfitError
from tests.fuzz import changed, files, kept, stores
from tests.fuzz.files import in_folder

#: Cases that took branches of their own: a file for each target, one case on a line.
CORPUS = Path(__file__).parent / "corpus"
#: Fragments that mutations put in: separators, digits beyond any type, signs of the formats.
FRAGMENTS = [
    b"", b"0", b"1", b"-1", b"9" * 30, b"9" * 5000, b"1e999", b"nan", b"inf", b"\x00", b"\xff", b"\n", b"\t", b",", b'"',
    b"PL1", b"PL2", b"FL", b"*", b"@", b"+", b"(", b")", b"[", b"]", b">>", b"optimal", b"~", b"/sentence", b"Multinomial(",
    b"Partition(", b"%x[0,0]", b"U00:", b"B", b"MARKOV", b"BAYES", b"{", b"}", b":", b"=", b"\xe2\x88\x9e", b"O\tDT\tthe",
]  # fmt: skip


def policy_text(content):
    """The parser of policies and of second stages."""
    from fieldfit.refinement.staged import as_estimator

    as_estimator(content.decode("utf-8", "replace"))


def delimited(content):
    """CSV and TSV files."""
    from fieldfit.data.table import read_table

    read_table(_file(content, ".csv"))


def crfsuite(content):
    """Sequences as CRFsuite writes them."""
    from fieldfit.data.crfsuite_text import read_crfsuite

    read_crfsuite(_file(content, ".txt"))


def conll(content):
    """Columns of tokens."""
    from fieldfit.data.columns import read_columns

    read_columns(_file(content, ".conll"))


def uai(content):
    """Networks."""
    from fieldfit.data.uai import read_uai

    read_uai(_file(content, ".uai"))


def template(content):
    """Templates of features."""
    from fieldfit.data.templates import parse_templates

    parse_templates(content.decode("utf-8", "replace"))


def saved_fit(content):
    """The bytes of a saved fit."""
    ff.load(_file(content, ".ff"))


def shard_index(content):
    """The index of a folder of shards."""
    from fieldfit.shards.folder import INDEX, open_folder

    with in_folder(content, INDEX) as path:
        open_folder(path.parent)


def sweep_file(content):
    """The TOML file of a sweep."""
    from fieldfit.sweep import read_sweep

    read_sweep(_file(content, ".toml"))


def sweep_store(content):
    """The bytes of the store of a sweep."""
    from fieldfit.sweep import open_sweep

    with in_folder(content, "a.sweep") as path:
        sweep = open_sweep(path)
        sweep.frame(unfinished=True)
        sweep.summary()


def _file(content, suffix):
    path = Path(tempfile.gettempdir()) / f"fieldfit-fuzz-{random.getrandbits(48):x}{suffix}"
    path.write_bytes(content)
    _made.append(path)
    return path


_made: list[Path] = []


@functools.cache
def saved_seeds():
    """A Boltzmann machine, a Potts model and a CRF with the encoder of its tagger."""
    machine, potts = ff.BoltzmannMachine(3), ff.Potts(3, 2)
    x = machine.sample([1.0, -1.0, 0.5], 60, 0).values
    sentences = [[{"w": "the"}, {"w": "cat"}], [{"w": "a"}, {"w": "dog"}, {"w": "ran"}]] * 4
    tags = [["D", "N"], ["D", "N", "V"]] * 4
    fits = [ff.fit(machine, x, "PL1"), ff.fit(potts, x, "PL1", sigma2=1.0), ff.CRFTagger().fit(sentences, tags).fit_]
    contents = []
    with tempfile.TemporaryDirectory() as folder:
        for fit in fits:
            fit.save(Path(folder) / "a.ff")
            contents.append((Path(folder) / "a.ff").read_bytes())
    return contents


def choices():
    """Contents for targets that take the changes from a random generator: many, so that few cases are the same."""
    return [bytes([number] * 8) for number in range(64)]


SEEDS: dict[Callable[[bytes], object], Callable[[], list[bytes]]] = {
    policy_text: lambda: [b"PL1 + 0.2*PL2@0.5", b"Multinomial(0.6*PL1 + 0.4*PL2)", b"PL1 >> optimal", b"Partition(2)"],
    delimited: lambda: [b"a,b\n0,1\n1,\n", b"x\ty\n1\t2\n", b'"a";"b"\n1;2\n'],
    uai: lambda: [b"MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n"],
    template: lambda: [b"U00:%x[-1,0]\nU01:%x[0,0]/%x[1,0]\nB\n"],
    conll: lambda: [b"the DT O\ncat NN B\n\na DT O\n"],
    crfsuite: lambda: [b"O\tw=the\tp=DT:2.0\nB\tw=cat\n\nO\tw=a\n"],
    saved_fit: saved_seeds,
    shard_index: lambda: [
        json.dumps({
            "format": "fieldfit-shards", "version": 1, "names": ["a"], "states": [[0, 1]], "weight_kind": None,
            "total_weight": 3.0, "files": [{"name": "00000.shard", "rows": 3, "digest": "00"}],
        }).encode()
    ],
    sweep_file: lambda: [
        b'experiment = "fit-table"\n[axes]\npolicy = ["PL1", "FL"]\nn = { start = 1, stop = 9, count = 3 }\n'
        b"[constants]\nm = 3\n"
    ],
    sweep_store: lambda: [stores.seed()],
    stores.store_values: choices,
}  # fmt: skip


def beginnings(target):
    """The seeds of a target and its corpus."""
    return [*SEEDS[target](), *corpus(target)]


def corpus(target):
    """The cases of a target that took branches of their own."""
    file = CORPUS / f"{target.__name__}.txt"
    return [ast.literal_eval(line) for line in file.read_text().splitlines()] if file.exists() else []


def mutated(content, source):
    """A few changes: a fragment put in or in the place of bytes, a piece doubled or cut out, a bit changed."""
    data = bytearray(content)
    for _ in range(source.randint(1, 4)):
        at = source.randint(0, len(data))
        until = min(len(data), at + source.randint(0, 8))
        kind = source.randint(0, 4)
        if kind == 0:
            data[at:at] = source.choice(FRAGMENTS)
        elif kind == 1:
            data[at:until] = source.choice(FRAGMENTS)
        elif kind == 2:
            data[at:at] = data[at:until] * source.randint(1, 3)
        elif kind == 3:
            del data[at:until]
        elif data:
            data[min(at, len(data) - 1)] ^= 1 << source.randint(0, 7)
    return bytes(data)


def use(content):
    """A saved fit that is changed (the content decides how), loaded and asked for all that it can say without samples."""
    source = random.Random(content)
    path = _file(b"", ".ff")
    with changed.changed_file(path, source.choice(saved_seeds()), source):
        fit = ff.load(path)
        fit.report()
        if source.random() < 0.02:  # the same numbers as text, which takes most of the time
            str(fit.summary())
        fit.standard_errors(parameters=[0])
        if hasattr(fit.model, "sample"):
            if source.random() < 0.2:  # an elimination program is compiled for it
                fit.model.sample(fit.theta, 2, 0)
        else:
            from fieldfit.estimators.crf_tagger import CRFTagger

            CRFTagger.load(path).predict([[{"w": "the"}, {"w": "dog"}]])


def accepted(target, content):
    """Whether a target accepts the content; False if it refuses it. Anything else is an error."""
    try:
        target(content)
    except FieldfitError:
        return False
    finally:
        while _made:
            _made.pop().unlink(missing_ok=True)
    return True


def run_case(target, seeds, number):
    """Run case ``number``: False if the input was accepted, True if it was refused."""
    source = random.Random(number)
    return not accepted(target, mutated(source.choice(seeds), source))


SEEDS |= {use: choices, kept.kept_work: choices}
SEEDS |= files.SEEDS
