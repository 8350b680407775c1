"""A Dask cluster of separate processes over TCP: a scheduler and some workers, each of which can be killed or stopped."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: A start that takes longer is a failure.
PATIENCE = 120

SCHEDULER = """
import asyncio
from distributed import Scheduler
async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0") as scheduler:
        print("ADDRESS", scheduler.address, flush=True)
        await scheduler.finished()
asyncio.run(main())
"""
WORKER = """
import asyncio, sys
from distributed import Worker
async def main():
    async with Worker(sys.argv[1], nthreads=1, death_timeout=20) as worker:
        print("ADDRESS", worker.address, flush=True)
        await worker.finished()
asyncio.run(main())
"""


class Process:
    """One process of the cluster and its address."""

    def __init__(self, code, *arguments):
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        environment = os.environ | {"FIELDFIT_NUM_THREADS": "1", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, *arguments],
            stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment,
        )  # fmt: skip
        line = self.process.stdout.readline()
        found = re.match(r"ADDRESS (\S+)", line)
        if found is None:
            self._log.seek(0)
            raise RuntimeError(f"The process did not start: {line}{self._log.read()}")
        self.address = found[1]

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        for number in (signal.SIGCONT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(number)
        self.process.wait()
        self.process.stdout.close()
        self._log.close()


@contextmanager
def processes(workers):
    """(client, scheduler, workers), all ended at the end of the block."""
    from distributed import Client

    started = []
    try:
        started.append(Process(SCHEDULER))
        started += [Process(WORKER, started[0].address) for _ in range(workers)]
        with Client(started[0].address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
            yield client, started[0], started[1:]
    finally:
        for process in started:
            process.end()


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


@dataclass(frozen=True)
class Work:
    """A question that takes its time on the worker that is first asked for a shard."""

    folder: str
    busy: bool

    def __call__(self, shard, shared, argument):
        try:
            (Path(self.folder) / str(shard.number)).touch(exist_ok=False)
        except FileExistsError:
            return "again"
        until = time.monotonic() + (8 if self.busy else 3600)
        while time.monotonic() < until:
            if not self.busy:
                time.sleep(3600)
        return "first"
