"""Compiled eliminations are checked when they are made: an index that leaves its array is refused in a sentence."""

import numpy as np
import pytest

from fieldfit import _kernels
from fieldfit.inference import FactorGraph, ProgramCompiler, ProgramSet


@pytest.fixture
def made(monkeypatch):
    """The arrays of the elimination of two variables of a chain of four, as Python hands them over."""
    given = {}
    real = _kernels.Programs

    def keep(**arrays):
        given.update(arrays)
        return real(**arrays)

    monkeypatch.setattr(_kernels, "Programs", keep)
    graph = FactorGraph((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3)])
    programs = ProgramSet(graph, [ProgramCompiler(graph).compile(frozenset({1, 2}))])
    monkeypatch.undo()
    return given, programs.configure([np.zeros((2, 4), dtype=np.int32)])


@pytest.mark.parametrize(
    "name",
    [
        *("bucket_ptr", "group_ptr", "cell_count", "group_size", "group_cell", "bucket_size", "bucket_cell"),
        *("message_cell", "input_ptr", "input_source", "input_map", "maps", "bucket_var", "separator_ptr"),
        *("separator_var", "program_template", "program_member", "program_group", "group_member", "member_entry"),
        *("entry_offset", "program_variable"),
    ],
)
def test_programs_with_a_wrong_index_are_refused(made, name):
    arrays, _ = made
    _kernels.Programs(**arrays)
    for wrong in (-100, 100_000):
        spoiled = arrays[name].copy()
        spoiled[-1] = wrong
        if name in ("cell_count", "entry_offset") and wrong > 0:
            continue  # more memory than needed does no harm, and the tables are known to the configurations only
        with pytest.raises(ValueError, match="Programs: "):
            _kernels.Programs(**(arrays | {name: spoiled}))
    with pytest.raises(ValueError, match="Programs: "):
        _kernels.Programs(**(arrays | {name: arrays[name][:-1]}))


def test_configurations_with_a_wrong_index_are_refused(made):
    arrays, configurations = made
    size = configurations.programs.graph.table_size
    good = {"config_ptr": configurations.config_ptr, "bases": configurations.bases, "table_size": size}
    programs = _kernels.Programs(**arrays)
    _kernels.Configurations(programs, **good)
    for name, wrong in (
        ("config_ptr", configurations.config_ptr + 1),
        ("config_ptr", configurations.config_ptr[1:]),
        ("bases", configurations.bases[1:]),
        ("bases", configurations.bases - 1),
        ("bases", configurations.bases + size),
        ("table_size", size // 2),
    ):
        with pytest.raises(ValueError, match="Configurations: "):
            _kernels.Configurations(programs, **(good | {name: wrong}))
    far = arrays["entry_offset"].copy()
    far[-1] = size
    with pytest.raises(ValueError, match="bases leaves the tables"):
        _kernels.Configurations(_kernels.Programs(**(arrays | {"entry_offset": far})), **good)
