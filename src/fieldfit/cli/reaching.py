"""Whether a scheduler of Dask answers at an address, found in bounded time.

Dask repeats a failed connection until its own time limit, also for a name that does not exist, and waits without a limit
for the first message of a server that accepts a connection and is silent. So a connection is tried before Dask's.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import dataclass
from itertools import cycle

from fieldfit.types import ClusterError

#: Seconds until a connection must have been accepted. A refused one is tried again: the scheduler may be starting.
CONNECT_SECONDS = 4.0
#: Seconds that a scheduler may take for its first message once it has accepted the connection: it may be busy.
GREETING_SECONDS = 20.0
_AGAIN = 0.2
#: A first message has a few hundred bytes; its length comes first, as 8 bytes from the lowest to the highest.
_LENGTH_BYTES, _LONGEST_GREETING = 8, 1 << 20


@dataclass(frozen=True)
class Address:
    """The address of a scheduler: its protocol, and where it listens."""

    text: str
    protocol: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address such as tcp://10.0.0.1:8786, tcp://[::1]:8786 or node7:8786."""
        matched = re.fullmatch(r"(?:(tcp|tls|ucx|ws|wss)://)?([^\s/]+):(\d{1,5})", text)
        if matched is None or int(matched[3]) > 65535:
            raise ClusterError(f"--cluster is {text!r:.80}; it must be an address such as tcp://10.0.0.1:8786.")
        return cls(text, matched[1] or "tcp", matched[2].strip("[]"), int(matched[3]))


def check_answer(address: Address) -> None:
    """Raise a `ClusterError` if nothing can be reached at the address, or if it is no scheduler."""
    if address.protocol == "ucx":  # not through sockets
        return
    until = time.monotonic() + CONNECT_SECONDS
    with _connected(address, _resolved(address), until) as connection:
        if address.protocol == "tcp":
            _check_greeting(address, connection)


def _resolved(address: Address) -> list[str]:
    """The numbers of the host. In another thread: a name server that is slow would keep Ctrl-C waiting."""
    replies: list[list[str] | OSError] = []

    def resolve() -> None:
        try:
            entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            replies.append([str(entry[4][0]) for entry in entries])
        except (OSError, UnicodeError) as error:
            replies.append(error if isinstance(error, OSError) else OSError(str(error)))

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    answer = replies[0] if replies else OSError(f"no answer in {CONNECT_SECONDS:.0f} s")
    if isinstance(answer, OSError):
        reason = answer.strerror or answer
        raise ClusterError(
            f"The host {address.host!r:.80} of --cluster {address.text} cannot be found ({reason}). Check it."
        )
    return answer


def _connected(address: Address, hosts: list[str], until: float) -> socket.socket:
    """An open connection; a name may stand for several numbers, which are tried in turn."""
    for host in cycle(hosts):
        try:
            return socket.create_connection(
                (host, address.port), timeout=max((until - time.monotonic()) / len(hosts), _AGAIN)
            )
        except OSError as error:
            if time.monotonic() + _AGAIN >= until:
                raise ClusterError(
                    f"No scheduler can be reached at {address.text} (tried for {CONNECT_SECONDS:.0f} s: "
                    f"{error.strerror or error}). Check the address, and that it is running."
                ) from error
            time.sleep(_AGAIN)
    raise AssertionError("a name without numbers")


def _check_greeting(address: Address, connection: socket.socket) -> None:
    """Read the length of the first message, which a scheduler sends without being asked."""
    connection.settimeout(GREETING_SECONDS)
    start = b""
    try:
        while len(start) < _LENGTH_BYTES and (more := connection.recv(_LENGTH_BYTES - len(start))):
            start += more
    except TimeoutError:
        raise ClusterError(
            f"The scheduler at {address.text} accepts connections but does not answer (waited "
            f"{GREETING_SECONDS:.0f} s). Check that the address is that of a scheduler, and that it has not stopped."
        ) from None
    except OSError:
        start = b""
    if len(start) < _LENGTH_BYTES or int.from_bytes(start, "little") > _LONGEST_GREETING:
        raise ClusterError(f"What answers at {address.text} is no scheduler of Dask. Check the host and the port.")
