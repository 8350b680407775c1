"""Saved files: the same bits back, atomic writing, and files that are damaged or hostile."""

from __future__ import annotations

import errno
import io
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from properties import examples

from fieldfit.data.container import FORMAT_VERSION, read_container, write_container
from fieldfit.types import FileAccessError, FileFormatError

HEADER = {"kind": "fit", "sigma2": None, "names": ["a", "b"], "nested": {"x": [1, 2.5, True, "é"]}}


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.ff"
    arrays = {"theta": np.array([0.0, -0.0, np.nan, np.inf, 1e-310]), "codes": np.arange(5000, dtype=np.int32) % 3}
    write_container(path, HEADER, arrays)
    return path, arrays


def rebuild(path, change=None, header=None, extra=(), drop=(), method=zipfile.ZIP_STORED):
    """Write the archive again, with its members and header changed by hand."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    if header is not None:
        document = json.loads(members["header.json"])
        header(document)
        members["header.json"] = json.dumps(document).encode()
    if change is not None:
        change(members)
    for name in drop:
        del members[name]
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in [*members.items(), *extra]:
            archive.writestr(name, data)


# --------------------------------------------------------------------------------------------------------- round trip


def test_round_trip(saved):
    path, arrays = saved
    header, back = read_container(path)
    assert header == HEADER
    assert list(back) == list(arrays)
    assert all(same(back[name], arrays[name]) for name in arrays)
    assert back["theta"].flags.writeable


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    array=hnp.arrays(
        st.one_of(
            hnp.boolean_dtypes(),
            hnp.integer_dtypes(),
            hnp.unsigned_integer_dtypes(),
            hnp.floating_dtypes(sizes=(16, 32, 64)),
            hnp.complex_number_dtypes(sizes=(64, 128)),
        ),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    )
)
def test_any_array_comes_back_bit_for_bit(tmp_path, array):
    write_container(tmp_path / "a.ff", {"kind": "x"}, {"a": array, "transposed": array.T})
    _, back = read_container(tmp_path / "a.ff")
    assert same(back["a"], array)
    assert same(back["transposed"], array.T)


def test_nan_payloads_survive(tmp_path):
    bits = np.array([0x7FF8000000000001, 0x7FF0000000000123, 0xFFF8DEADBEEF0000], np.uint64)
    write_container(tmp_path / "a.ff", {"kind": "x"}, {"a": bits.view(np.float64)})
    assert (read_container(tmp_path / "a.ff")[1]["a"].view(np.uint64) == bits).all()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values)
def test_any_header_comes_back(tmp_path, value):
    write_container(tmp_path / "a.ff", {"kind": "x", "value": value}, {})
    back = read_container(tmp_path / "a.ff")[0]["value"]
    assert back == value
    assert repr(back) == repr(value)


def test_numpy_itself_reads_the_arrays(saved):
    path, arrays = saved
    with zipfile.ZipFile(path) as archive:
        for name, array in arrays.items():
            assert same(np.load(io.BytesIO(archive.read(f"arrays/{name}.npy")), allow_pickle=False), array)


def test_equal_content_gives_equal_files(saved, tmp_path):
    path, arrays = saved
    write_container(tmp_path / "again.ff", HEADER, arrays)
    assert (tmp_path / "again.ff").read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_deflated_by_another_tool_is_read(saved):
    path, arrays = saved
    rebuild(path, method=zipfile.ZIP_DEFLATED)
    assert same(read_container(path)[1]["theta"], arrays["theta"])


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({}, {}, "kind"),
        ({"kind": "x", "a": {1: 2}}, {}, "keys in a saved file must be text"),
        ({"kind": "x", "a": np.int64(3)}, {}, r"header\['a'\] is a int64"),
        ({"kind": "x", "a": {1, 2}}, {}, "is a set"),
        ({"kind": "x", "a": 10**5000}, {}, "cannot be written as JSON"),
        ({"kind": "x", "a": "z" * 9_000_000}, {}, "store long lists of numbers as arrays"),
        ({"kind": "x"}, {"a": np.array([None])}, "dtype object"),
        ({"kind": "x"}, {"a": np.array(["text"])}, "dtype <U4"),
        ({"kind": "x"}, {"a": np.zeros(2, [("f", "f8")])}, "dtype"),
        ({"kind": "x"}, {"../a": np.zeros(2)}, "cannot name an array"),
        ({"kind": "x"}, {"": np.zeros(2)}, "cannot name an array"),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path, header, arrays, message):
    with pytest.raises(FileFormatError, match=message):
        write_container(tmp_path / "a.ff", header, arrays)
    assert list(tmp_path.iterdir()) == []


def test_a_header_nested_too_deep_is_refused_when_saving(tmp_path):
    value: list[Any] = []
    for _ in range(100):
        value = [value]
    with pytest.raises(FileFormatError, match="levels deep"):
        write_container(tmp_path / "a.ff", {"kind": "x", "a": value}, {})


# ----------------------------------------------------------------------------------------------------- atomic writing


@pytest.mark.parametrize(
    ("failure", "expected", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), FileAccessError, "disk is full"),
        (PermissionError(errno.EACCES, "Permission denied"), FileAccessError, "no permission"),
        (OSError(errno.EIO, "Input/output error"), FileAccessError, "Input/output error"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_keeps_the_old_file(saved, monkeypatch, failure, expected, message, step):
    path, _ = saved
    before = path.read_bytes()

    def fail(*_):
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(expected, match=message):
        write_container(path, HEADER, {"theta": np.zeros(3)})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model.ff"]


FULL_DISK = """
import resource, sys
import numpy as np
from fieldfit.data.container import write_container
from fieldfit.types import FileAccessError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_container(sys.argv[1], {"kind": "fit"}, {"theta": np.arange(100_000.0)})
except FileAccessError as error:
    print(error)
"""


def test_a_write_that_the_system_cuts_short_keeps_the_old_file(saved):
    path, _ = saved
    before = path.read_bytes()
    run = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "was not written" in run.stdout
    assert "unchanged" in run.stdout
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model.ff"]


def test_folders_that_do_not_exist_and_folders_as_files(tmp_path):
    with pytest.raises(FileAccessError, match="does not exist"):
        write_container(tmp_path / "no" / "a.ff", {"kind": "x"}, {})
    with pytest.raises(FileAccessError, match="it is a folder"):
        write_container(tmp_path, {"kind": "x"}, {})


def test_links_and_rights_are_kept(saved):
    path, _ = saved
    path.chmod(0o640)
    link = path.with_name("link.ff")
    link.symlink_to(path)
    write_container(link, {"kind": "new"}, {})
    assert link.is_symlink()
    assert read_container(path)[0] == {"kind": "new"}
    assert path.stat().st_mode & 0o777 == 0o640


# ------------------------------------------------------------------------------------------ damaged and hostile files


def refused(path, message, **options):
    with pytest.raises(FileFormatError, match=message) as caught:
        read_container(path, **options)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith(".")


def test_missing_file_and_not_a_file(tmp_path):
    with pytest.raises(FileAccessError, match="No such file"):
        read_container(tmp_path / "none.ff")
    refused(tmp_path, "not a regular file")
    os.mkfifo(tmp_path / "pipe.ff")
    refused(tmp_path / "pipe.ff", "not a regular file")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "0 bytes"), (b"PK\x03\x04", "4 bytes"), (b"x,y\n" * 99, "zip archive"), (b"PK\x03\x04" * 99, "truncated")],
)
def test_not_an_archive(tmp_path, content, message):
    path = tmp_path / "a.ff"
    path.write_bytes(content)
    refused(path, message)


def test_other_kind(saved):
    refused(saved[0], "contains a 'fit', not a 'plan'", kind="plan")
    assert read_container(saved[0], kind="fit")[0] == HEADER


def test_newer_format(saved):
    rebuild(saved[0], header=lambda d: d.update(format_version=FORMAT_VERSION + 1, library_version="9.9"))
    refused(saved[0], "written by fieldfit 9.9.*Upgrade fieldfit")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (lambda d: d.pop("format"), "does not say that it is one"),
        (lambda d: d.update(format_version="1"), "no format version"),
        (lambda d: d.update(format_version=True), "no format version"),
        (lambda d: d.pop("content"), "lacks 'content'"),
        (lambda d: d["content"].pop("kind"), "what kind"),
        (lambda d: d["arrays"].pop("theta"), "'arrays/theta.npy', which its header does not declare"),
        (lambda d: d["arrays"].update(more={"dtype": "<f8", "shape": []}), "declares 'arrays/more.npy'"),
        (lambda d: d["arrays"].update({"../x": {"dtype": "<f8", "shape": []}}), "in a way that no saved fit does"),
        (lambda d: d["arrays"]["theta"].update(dtype="|O"), "not a plain number"),
        (lambda d: d["arrays"]["theta"].update(dtype=["<f8"]), "not a plain number"),
        (lambda d: d["arrays"]["theta"].update(dtype="<i8"), "is not int64 of shape"),
        (lambda d: d["arrays"]["theta"].update(dtype="<f4"), "is not float32 of shape"),
        (lambda d: d["arrays"]["theta"].update(shape=[5, 1]), "is not float64 of shape"),
        (lambda d: d["arrays"]["theta"].update(shape=[2**40]), "is not float64 of shape"),
        (lambda d: d["arrays"]["theta"].update(shape=[0, 2**61]), "not a shape"),
        (lambda d: d["arrays"]["theta"].update(shape=[-5]), "not a shape"),
        (lambda d: d["arrays"]["theta"].update(shape=[5.0]), "not a shape"),
        (lambda d: d["arrays"]["theta"].update(shape=[1] * 100), "not a shape"),
    ],
)
def test_headers_that_lie(saved, header, message):
    rebuild(saved[0], header=header)
    refused(saved[0], message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "levels deep"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "levels deep"),
        (b'{"format": "fieldfit", "format": "fieldfit"}', "given twice"),
        (b'{"format": "fieldfit"', "not valid JSON"),
        (b'{"format": "\xff"}', "not valid JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'["fieldfit"]', "does not say"),
        (b" " * (8 * 2**20 + 1), "more than the limit"),
    ],
)
def test_headers_that_are_not_headers(saved, text, message):
    rebuild(saved[0], change=lambda members: members.update({"header.json": text}))
    refused(saved[0], message)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x.npy", "arrays/../x.npy", "arrays/a/b.npy", "notes.txt", "arrays/", "arrays/.npy"]
)
def test_names_that_no_saved_file_has(saved, name):
    rebuild(saved[0], extra=[(name, b"x")])
    refused(saved[0], "which no saved fit has")


def test_members_missing_and_doubled(saved):
    path, _ = saved
    whole = path.read_bytes()
    rebuild(path, drop=["header.json"])
    refused(path, "no header.json")
    path.write_bytes(whole)
    rebuild(path, drop=["arrays/theta.npy"])
    refused(path, "declares 'arrays/theta.npy', which is not in the archive")
    path.write_bytes(whole)
    with pytest.warns(UserWarning, match="Duplicate name"):
        rebuild(path, extra=[("arrays/theta.npy", b"x")])
    refused(path, "twice")


def test_pickled_objects_are_never_loaded(saved):
    path, _ = saved
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    rebuild(path, change=lambda members: members.update({"arrays/theta.npy": buffer.getvalue()}))
    refused(path, "is not float64")


def test_other_compression(saved):
    rebuild(saved[0], method=zipfile.ZIP_LZMA)
    refused(saved[0], "not stored or deflated")


def test_changed_bytes_in_an_array_are_noticed(saved):
    path, arrays = saved
    data = bytearray(path.read_bytes())
    place = data.index(arrays["theta"].tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    refused(path, "CRC")


def bomb(path, claimed: int, real: int):
    """A file whose only array claims `claimed` bytes of zeros and unpacks to `real`."""
    write_container(path, {"kind": "x"}, {"a": np.zeros(1 << 20, np.uint8)})
    rebuild(path, header=lambda d: d["arrays"]["a"].update(shape=[claimed]), drop=["arrays/a.npy"])
    preamble = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({claimed},), }}"
    preamble += " " * (-(11 + len(preamble)) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(preamble)) + preamble.encode()
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arrays/a.npy", start + bytes(real))
    if claimed != real:
        data = bytearray(path.read_bytes())
        directory = data.rindex(b"PK\x01\x02")
        data[directory + 24 : directory + 28] = struct.pack("<L", len(start) + claimed)
        path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claimed", "real", "message"),
    [
        (120_000_000, 120_000_000, "more than the limit"),
        (90_000_000, 1000, "damaged|unpacks to"),
        (1000, 90_000_000, "damaged|CRC|unpacks to"),
    ],
)
def test_bombs_take_no_memory(tmp_path, claimed, real, message):
    path = tmp_path / "bomb.ff"
    bomb(path, claimed, real)
    tracemalloc.start()
    try:
        refused(path, message, max_bytes=100_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_limit_may_be_raised_for_files_that_are_trusted(tmp_path):
    path = tmp_path / "a.ff"
    write_container(path, {"kind": "x"}, {"a": np.zeros(1000)})
    refused(path, "larger max_bytes", max_bytes=4000)
    assert same(read_container(path, max_bytes=100_000)[1]["a"], np.zeros(1000))


@pytest.mark.slow
def test_a_directory_of_many_members_is_refused_unread(tmp_path):
    path = tmp_path / "a.ff"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(11_000):
            archive.writestr(f"arrays/a{i}.npy", b"")
    refused(path, "more than any saved fit")


def test_end_records_must_agree(saved):
    path, _ = saved
    data = path.read_bytes()
    end = data[-22:]
    count, size, offset = struct.unpack("<HLL", end[10:20])
    record = b"PK\x06\x06" + struct.pack("<QHHLLQQQQ", 44, 45, 45, 0, 0, count + 9, count + 9, size, offset)
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, len(data) - 22, 1)
    path.write_bytes(data[:-22] + record + locator + end)
    refused(path, "contradict each other")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "model.ff"
    arrays: dict[str, np.ndarray] = {
        "theta": np.linspace(-1, 1, 7),
        "codes": np.arange(2000, dtype=np.int32) % 5,
        "empty": np.zeros((0, 3)),
    }
    write_container(path, HEADER, arrays)
    return path.read_bytes(), arrays, path.with_name("damaged.ff")


def right_or_refused(data: bytes, arrays, path) -> None:
    path.write_bytes(data)
    try:
        header, back = read_container(path, max_bytes=10_000_000)
    except FileFormatError:
        return
    assert header == HEADER
    assert back.keys() == arrays.keys()
    assert all(same(back[name], arrays[name]) for name in arrays)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_truncated_files_are_refused(sample, data):
    whole, _, path = sample
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(FileFormatError):
        read_container(path)


@pytest.mark.slow
@settings(max_examples=examples(800), deadline=None)
@given(data=st.data())
def test_flipped_bytes_give_the_right_data_or_an_error(sample, data):
    whole, arrays, path = sample
    damaged = bytearray(whole)
    places = st.tuples(st.integers(0, len(whole) - 1), st.integers(1, 255))
    for place, change in data.draw(st.lists(places, min_size=1, max_size=4)):
        damaged[place] ^= change
    right_or_refused(bytes(damaged), arrays, path)


@pytest.mark.slow
def test_every_byte_of_the_directory_may_be_wrong(sample):
    whole, arrays, path = sample
    for place in range(whole.index(b"PK\x01\x02"), len(whole)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= change
            right_or_refused(bytes(damaged), arrays, path)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_inserted_and_removed_bytes_give_the_right_data_or_an_error(sample, data):
    whole, arrays, path = sample
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 50)))
    right_or_refused(whole[:start] + data.draw(st.binary(max_size=50)) + whole[stop:], arrays, path)


@pytest.mark.slow
def test_a_small_file_that_would_unpack_to_gigabytes_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.ff"
    write_container(path, HEADER, {"codes": np.zeros(300 * 2**20, dtype=np.int8)})
    assert path.stat().st_size < 4 * 2**20
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="unpack to"):
            read_container(path)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_ctrl_c_inside_a_member_stays_ctrl_c_and_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.ff"
    write_container(path, HEADER, {"x": np.arange(3)})
    old = path.read_bytes()

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile, "_get_compressor", interrupted)  # the archive then has a member that is never closed
    with pytest.raises(KeyboardInterrupt):
        write_container(path, HEADER, {"x": np.arange(4)})
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["a.ff"]


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_refused_with_a_sentence(path):
    with pytest.raises(FileFormatError, match=f"is of type {type(path).__name__}; give its path"):
        read_container(path)


def test_a_path_with_a_zero_byte_is_a_sentence():
    with pytest.raises(FileAccessError, match="no file has this name"):
        read_container("a\0b.ff")
