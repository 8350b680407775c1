"""Is the process that claimed a cell still alive? Pids are used again, so a process is known by its start time too."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class ProcessName:
    """A process that no other one can be mistaken for: the machine as it is booted, the pid and its start time."""

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessName:
        """The process that calls this."""
        pid = os.getpid()
        return cls(_host(), pid, _start_time(pid) or "")

    @property
    def is_local(self) -> bool:
        """Whether the process runs where this one can see it; if not, only its heartbeat tells whether it lives."""
        # Windows has no way to ask without harm: there os.kill(pid, 0) is Ctrl-C.
        return os.name != "nt" and self.host == _host()

    @property
    def alive(self) -> bool:
        """Whether a local process still runs."""
        started = _start_time(self.pid)
        if started is not None:
            return started == self.started
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


@cache
def _host() -> str:
    """Host name, boot and pid namespace: two containers on one machine do not see each other's pids."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _start_time(pid: int) -> str | None:
    """Clock ticks from boot to the start of a process; None where there is no such process, or no /proc to look at."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rfind(")") + 2 :].split()  # the name in parentheses may contain anything
    return None if fields[0] in ("Z", "X") else fields[19]
