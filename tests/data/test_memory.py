"""How much memory a process may use and has left: limits of the machine, the process and control groups."""

import os
import resource

import pytest

from fieldfit.data import memory
from fieldfit.data.memory import memory_left, memory_limit

PAGE = resource.getpagesize()


@pytest.fixture
def system(monkeypatch, tmp_path):
    """A machine of 64 MB with 40 MB available, a process of 10 pages of addresses and 3 of data, without limits."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 65536 kB\nMemFree: 1 kB\nMemAvailable: 40960 kB\n")
    (tmp_path / "proc" / "statm").write_text("10 8 2 1 0 3 0\n")
    (tmp_path / "proc" / "cgroup").write_text("")
    limits = {resource.RLIMIT_AS: resource.RLIM_INFINITY, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(memory, "_PROCESS", tmp_path / "proc")
    monkeypatch.setattr(memory, "_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 14}.__getitem__)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits[which], resource.RLIM_INFINITY))
    return tmp_path, limits


def _group(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_the_memory_of_the_machine(system):
    assert (memory_limit(), memory_left()) == (64 << 20, 40 << 20)
    (system[0] / "meminfo").unlink()
    assert (memory_limit(), memory_left()) == (64 << 20, 64 << 20)


@pytest.mark.parametrize(("which", "used"), [(resource.RLIMIT_AS, 10), (resource.RLIMIT_DATA, 3)])
def test_the_limits_of_the_process(system, which, used):
    system[1][which] = 1000 * PAGE
    assert (memory_limit(), memory_left()) == (1000 * PAGE, (1000 - used) * PAGE)
    system[1][which] = PAGE  # below what it has already
    assert memory_left() == 0


def test_the_least_of_all_control_groups(system):
    """Pages of files do not count as used: the system takes them back."""
    folder, _ = system
    (folder / "proc" / "cgroup").write_text("0::/jobs/one\n")
    _group(
        folder / "groups" / "jobs" / "one", {"memory.max": "max", "memory.current": 1 << 20, "memory.stat": "anon 5"}
    )
    _group(folder / "groups" / "jobs", {
        "memory.max": 20 << 20, "memory.current": 9 << 20, "memory.stat": f"anon 5\ninactive_file {1 << 20}\nactive_file 0",
    })  # fmt: skip
    assert (memory_limit(), memory_left()) == (20 << 20, 12 << 20)
    (folder / "groups" / "jobs" / "one" / "memory.max").write_text(str(3 << 20))
    assert (memory_limit(), memory_left()) == (3 << 20, 2 << 20)


def test_a_container_that_sees_its_own_group_as_the_root(system):
    folder, _ = system
    (folder / "proc" / "cgroup").write_text("5:cpu:/a\n4:memory:/docker/abc\n0::/\n")
    _group(folder / "groups" / "memory", {
        "memory.limit_in_bytes": 8 << 20, "memory.usage_in_bytes": 4 << 20, "memory.stat": "total_inactive_file 1048576",
    })  # fmt: skip
    assert (memory_limit(), memory_left()) == (8 << 20, 5 << 20)
