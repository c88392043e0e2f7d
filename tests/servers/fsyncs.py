"""How often a server really wrote to its disk: counted from outside, because a server's own word proves nothing."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.processes import end, make_folder, remove_folder, spawn
from tests.servers.server import Server
from tests.waiting import until_sync


class Fsyncs:
    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def count(self) -> int:
        """fsync and fdatasync calls that succeeded since the counting began."""
        calls = (line for line in self._trace.read_text().splitlines() if "sync" in line)
        return sum(line.rstrip().endswith("= 0") for line in calls)


@contextmanager
def count_fsyncs(server: Server) -> Iterator[Fsyncs]:
    """Attach strace to the server and all its threads; the server is slower meanwhile."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace: install it")
    folder = make_folder("strace")
    trace, log = folder / "trace", folder / "log"
    tracer = spawn(
        [strace, "-f", "-p", str(server.pid), "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", str(trace)], log
    )
    try:
        until_sync(lambda: _attached(log, tracer.poll()), 10, what="strace is attached")
        yield Fsyncs(trace)
    finally:
        # SIGINT detaches and lets the server live.
        end(tracer, signal.SIGINT)
        remove_folder(folder)


def _attached(log: Path, ended: int | None) -> bool:
    said = log.read_text()
    if ended is not None:
        pytest.skip(f"cannot run here: strace may not attach to processes ({said.strip()})")
    return "attached" in said
