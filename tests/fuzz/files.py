"""More files from strangers as functions of bytes: alignments, parameters, dumps, edges, numbers, checkpoints, shards."""

import atexit
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np

import fieldfit as ff
from tests.fuzz.changed import changed_file

_SHARD = 64  # bytes of the header of a shard
_HEADER = 30 + len("header.json")  # where the header of a saved file begins: its first member, deflated


@contextlib.contextmanager
def in_folder(content, name):
    """The content as a file of this name, alone in a folder; the process has one folder for all cases."""
    folder = _folder()
    path = folder / name
    path.write_bytes(content)
    try:
        yield path
    finally:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry)
            else:
                os.unlink(entry)


@functools.cache
def _folder():
    made = tempfile.TemporaryDirectory()
    atexit.register(made.cleanup)
    return Path(made.name)


def alignment(content):
    """FASTA, A2M and A3M, and the weights of the sequences."""
    from fieldfit.data.alignments import read_alignment, sequence_weights

    with in_folder(content, "a.a3m") as path:
        sequence_weights(read_alignment(path, alphabet="rna" if content[:2] == b">r" else "protein", most_gaps=0.9))


def plmc_file(content):
    """The binary parameter file of plmc."""
    from fieldfit.proteins.parameter_file import read_plmc

    with in_folder(content, "a.params") as path:
        assert read_plmc(path).theta.ndim == 1


def crfsuite_dump(content):
    """A dump of CRFsuite, used for a sentence."""
    from fieldfit.compat.sklearn_crfsuite import CRF

    with in_folder(content, "model.txt") as path:
        CRF(model_filename=str(path)).predict_single(["a", "b"])


def edges(content):
    """A file of edges, or the text of a grid."""
    from fieldfit.cli.values import as_edges

    with in_folder(content, "a.edges") as path:
        ends, _ = as_edges(str(path), ["a", "b", "c", "d"])
    ff.BoltzmannMachine(4, edges=ends)


def option_texts(content):
    """What options of the command line have in them: numbers, tolerances, states, given states, edges."""
    from fieldfit.cli import values

    text = content.decode("utf-8", "replace")
    readers = (
        values.as_list,
        values.as_states,
        lambda text: values.numbers_from_text(text, "--theta"),
        values.as_tolerance,
        values.as_theta,
        lambda text: values.as_edges(text, [str(j) for j in range(4)]) if text.startswith("grid") else None,
        lambda text: values.as_given([text], ["a", "b"], [(0, 1), (0, 1)]),
    )
    refused = None
    for reader in readers:
        try:
            reader(text)
        except ff.types.FieldfitError as error:
            refused = error
    if refused is not None:
        raise refused


def clusters(content):
    """A file of variables and their clusters."""
    from fieldfit.cli.commands.network import read_clusters

    with in_folder(content, "a.csv") as path:
        read_clusters(path, ("a", "b"))


def distances(content):
    """Distances of the columns of an alignment."""
    from fieldfit.proteins import read_distances

    with in_folder(content, "a.csv") as path:
        assert read_distances(path, 4).shape == (4, 4)


def stop_words(content):
    """A list of stop words."""
    from fieldfit.data.features import load_stop_words

    with in_folder(content, "a.txt") as path:
        assert load_stop_words(path)


def packed_text(content):
    """Gzipped tables and sentences."""
    from fieldfit.data.table import read_table
    from fieldfit.shards.sentence_files import SentenceFile

    with in_folder(content, "a.csv.gz") as path:
        with contextlib.suppress(ff.types.FieldfitError):
            SentenceFile(str(path)).width()
        read_table(path)


def text_shards(content):
    """`fieldfit shard`: a table in blocks."""
    from fieldfit.shards.making import TextTable, make_shards

    with in_folder(content, "a.csv") as path:
        made = make_shards(TextTable(path), path.parent / "shards", rows=2)
        assert sum(made.read(number).n for number in range(len(made.files))) == made.n


def sentence_shards(content):
    """`fieldfit shard --sentences`: a file of sentences in pieces, with features learnt from them."""
    from fieldfit.data.templates import parse_templates
    from fieldfit.shards.making_sentences import divide_sentences
    from fieldfit.shards.sentence_files import SentenceFiles

    with in_folder(content, "a.conll") as path:
        divide_sentences(path, path.parent / "pieces", 2)
        files = SentenceFiles.matching(str(path.parent / "pieces" / "*"))
        files.learn(parse_templates("U00:%x[0,0]\nU01:%x[-1,0]/%x[1,0]\nB\n"))


def shard_file(content):
    """One shard whose header, index and checksum agree with its bytes, so that what follows is read."""
    from fieldfit.shards.folder import INDEX, open_folder

    body = content[_SHARD:]
    digest = hashlib.blake2b(body, digest_size=32)
    head = bytearray(content[:_SHARD].ljust(_SHARD, b"\0"))
    head[24:56] = digest.digest()
    rows = int.from_bytes(head[8:16], "little")
    columns = int.from_bytes(head[16:20], "little")
    index = {
        "format": "fieldfit-shards", "version": 1, "names": [f"v{j}" for j in range(min(columns, 50))],
        "states": [[0, 1]] * min(columns, 50), "weight_kind": "importance" if any(head[22:24]) else None,
        "total_weight": float(rows), "files": [{"name": "00000.shard", "rows": rows, "digest": digest.hexdigest()}],
    }  # fmt: skip
    with in_folder(bytes(head) + body, "00000.shard") as path:
        (path.parent / INDEX).write_text(json.dumps(index))
        ff.fit(_machine(), open_folder(path.parent).path, "PL1", sigma2=1.0, max_iter=3)


@functools.cache
def _machine():
    return ff.BoltzmannMachine(3, biases=True)


def checkpoint(content):
    """The file of a checkpoint, from which a fit goes on: with one stage, or with two if the file says so."""
    with in_folder(content, "a.state") as path:
        _resume(path, _policy_in(content))


def changed_checkpoint(content):
    """A checkpoint as a valid archive whose header or arrays are changed; the content decides how."""
    source = random.Random(content)
    policy = source.choice(["PL1", *STAGED])
    with in_folder(b"", "a.state") as path, changed_file(path, checkpoint_seed(policy), source):
        _resume(path, policy)
        if source.random() < 0.05:  # the same steps, after the samples are read and compiled again
            _fit(ff.Checkpoint(path, resume=True), policy)


#: Estimators whose second stage has a state of its own.
STAGED = ("PL1 >> FL", "PL1 >> FL~100")


def _fit(kept, policy):
    machine, x = _samples()
    return ff.fit(machine, x, policy, method="lbfgs", checkpoint=kept, check_drift=False)


def _policy_in(content):
    """The estimator that a checkpoint names, if it can be read."""
    with contextlib.suppress(zlib.error):
        header = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content[_HEADER:], 10_000)
        return next((policy for policy in STAGED if f'"{policy}"'.encode() in header), "PL1")
    return "PL1"


def _resume(path, policy):
    """Continue the stages of a fit from a file, with samples that were read and compiled once."""
    from fieldfit.api.checkpoint import StageCheckpoint
    from fieldfit.api.refine import StageSettings, _second
    from fieldfit.api.solve import solve

    first, second, settings = _first_stage(policy)
    if second is None:
        solve(first.needed, dataclasses.replace(settings, checkpoint=ff.Checkpoint(path, resume=True)))
    else:
        kept = StageCheckpoint(path, resume=True, estimator=policy)
        solve(first.needed, dataclasses.replace(settings, checkpoint=kept))
        _second(first, second, StageSettings(checkpoint=dataclasses.replace(kept, second=True)))


@functools.cache
def _first_stage(policy):
    """The fit of the first stage, the second stage, and the settings of the first."""
    from fieldfit.api.solve import Settings, solve
    from fieldfit.optim.solution import DEFAULT_TOL
    from fieldfit.refinement.staged import Staged, as_estimator

    machine, x = _samples()
    fit = ff.fit(machine, x, "PL1", method="lbfgs", check_drift=False)
    estimator = as_estimator(policy)
    second = estimator.second if isinstance(estimator, Staged) else None
    starts = second is not None and second.only_starts
    settings = Settings("lbfgs", DEFAULT_TOL * fit.needed.scale, 1000, as_start=starts)
    solution = solve(fit.needed, settings)
    return dataclasses.replace(fit, theta=fit.needed.objective.full(solution.x).copy()), second, settings


@functools.cache
def _samples():
    machine = ff.BoltzmannMachine(3)
    return machine, machine.sample([1.0, -1.0, 0.5], 60, 0).values


@functools.cache
def checkpoint_seed(policy="PL1"):
    """A checkpoint of a fit that has ended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.state"
        _fit(ff.Checkpoint(path, every=0.0), policy)
        return path.read_bytes()


@functools.cache
def shard_seed():
    """A shard of three columns."""
    from fieldfit.shards.making import TextTable, make_shards

    with in_folder(b"a,b,c\n0,1,1\n1,0,1\n1,1,0\n0,0,1\n", "a.csv") as path:
        folder = make_shards(TextTable(path), path.parent / "shards", rows=9)
        return (folder.path / folder.files[0].name).read_bytes()


@functools.cache
def plmc_seed():
    """Parameters of two sites with two letters."""
    from fieldfit.proteins.parameter_file import PlmcParameters, write_plmc

    table = np.full((2, 2), 0.5)
    parameters = PlmcParameters("-A", "AA", np.arange(2), np.ones(3), table, table, table[None], table[None])
    with tempfile.TemporaryDirectory() as folder:
        write_plmc(Path(folder) / "a", parameters)
        return (Path(folder) / "a").read_bytes()


def _packed(text):
    result = io.BytesIO()
    with gzip.GzipFile(fileobj=result, mode="wb", mtime=0) as file:
        file.write(text)
    return result.getvalue()


_DUMP = b"""FILEHEADER = {
  magic: lCRF
}

LABELS = {
      0: N
      1: V
}

ATTRIBUTES = {
      0: a
      1: b
}

TRANSITIONS = {
  (1) N --> V: 2.000000
}

STATE_FEATURES = {
  (0) a --> N: 1.500000
}
"""

SEEDS = {
    alignment: lambda: [b">a\nAC-DE\n>b/1-5\nACGDEkl\n>c\nA.C-D-\n", b">r\nACGU\n>b\nAC-U\n"],
    plmc_file: lambda: [plmc_seed()],
    crfsuite_dump: lambda: [_DUMP],
    edges: lambda: [b"a,b\nb,c\n0\t3\n", b"from;to\na;d\n"],
    option_texts: lambda: [b"grid:2x2:8", b"0.5,-1e3", b"a=1", b"statistical", b"'a',b,2"],
    clusters: lambda: [b"a,one\nb,two\n", b'"a"\t1\n"b"\t2\n'],
    distances: lambda: [b"i,j,distance\n0,1,5.5\n2,3,\n", b"0;2;3.8\n1;1;0\n"],
    stop_words: lambda: [b"the\nA\n"],
    packed_text: lambda: [_packed(b"a,b\n0,1\n1,0\n"), _packed(b"the DT O\n")],
    text_shards: lambda: [b"a,b\n0,1\n1,\n0,0\n", b'"a";"b"\n"x\ny";2\n'],
    sentence_shards: lambda: [b"the DT O\ncat NN B\n\na DT O\n\nb DT O\n"],
    shard_file: lambda: [shard_seed()],
    checkpoint: lambda: [checkpoint_seed(policy) for policy in ("PL1", *STAGED)],
    changed_checkpoint: lambda: [bytes([number] * 8) for number in range(64)],
}
