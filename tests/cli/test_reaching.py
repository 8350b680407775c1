"""Addresses at which no scheduler answers: an error in bounded time, also from servers that speak or are silent."""

import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from fieldfit.cli import reaching
from fieldfit.cli.reaching import Address, check_answer
from fieldfit.types import ClusterError

#: The start of a scheduler's first message: the number of bytes that follow.
GREETING = (200).to_bytes(8, "little") + bytes(200)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(reaching, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(reaching, "GREETING_SECONDS", 0.2)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def server(says, port=0, after=0.0):
    """A server of one connection that begins to listen ``after`` seconds, says something and waits."""
    listens, ends, ports = threading.Event(), threading.Event(), []

    def serve():
        time.sleep(after)
        with socket.create_server(("127.0.0.1", port)) as listener:
            ports.append(listener.getsockname()[1])
            listens.set()
            connection, _ = listener.accept()
            with connection:
                connection.sendall(says)
                ends.wait()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    if not after:
        listens.wait()
    try:
        yield ports[0] if ports else port
    finally:
        ends.set()


def refusal(port):
    with pytest.raises(ClusterError) as caught:
        check_answer(Address.parse(f"tcp://127.0.0.1:{port}"))
    return str(caught.value)


def test_nothing_listens():
    told = refusal(free_port())
    assert "No scheduler can be reached at tcp://127.0.0.1" in told
    assert "Connection refused" in told


def test_a_scheduler_that_starts_later_is_reached(monkeypatch):
    monkeypatch.setattr(reaching, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(reaching, "GREETING_SECONDS", 30.0)
    port = free_port()
    with server(GREETING, port, after=0.1):
        check_answer(Address.parse(f"127.0.0.1:{port}"))


def test_another_server():
    with server(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        assert "is no scheduler of Dask" in refusal(port)


@pytest.mark.parametrize("says", [b"", b"no"])
def test_a_scheduler_that_has_stopped(says):
    with server(says) as port:
        assert "accepts connections but does not answer" in refusal(port)


def test_a_host_that_does_not_exist(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ClusterError, match=r"The host 'nowhere' of --cluster nowhere:1 cannot be found \(Name or"):
        check_answer(Address.parse("nowhere:1"))


def test_a_name_server_that_does_not_answer(monkeypatch):
    ends = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ends.wait() and [])
    with pytest.raises(ClusterError, match="cannot be found \\(no answer in"):
        check_answer(Address.parse("tls://slow:1"))
    ends.set()


def test_a_name_with_several_numbers(monkeypatch):
    """``localhost`` may stand for an address of IPv6 first, where nothing listens."""
    with server(GREETING) as port:
        numbers = [(0, 0, 0, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
        resolve = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda host, *a, **k: numbers if host == "both" else resolve(host, *a, **k)
        )
        check_answer(Address.parse(f"both:{port}"))


@pytest.mark.parametrize("text", ["tcp://[::1]:8786", "::1:8786"])
def test_addresses_of_ipv6(text):
    assert Address.parse(text) == Address(text, "tcp", "::1", 8786)


@pytest.mark.slow
def test_ctrl_c_while_a_scheduler_is_silent(votes):
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "fieldfit", "fit", "boltzmann", str(votes), "--cluster", address],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        connection, _ = listener.accept()
        with connection:
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=15)
    assert process.returncode == 130
    assert told.startswith("fieldfit: Interrupted")
    assert told.count("\n") == 1
