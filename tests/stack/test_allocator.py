"""The embedded server allocates by jemalloc where a library is found that it can run with, and `doctor` says so."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.servers import free_port
from tests.servers.processes import end
from tests.stack.running import QUICK, Up
from tests.waiting import until
from txmanager.ledger.redis.checks import inspect
from txmanager.stack.allocator import LIBRARY, find_jemalloc, preloaded
from txmanager.stack.parts import valkey_binary


def loadable() -> Path:
    """Some library of this machine: what the loader takes does not depend on its name."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return next(Path(line.split()[-1]) for line in maps if "/libm.so" in line or "/libm-" in line)


@pytest.fixture
def library(tmp_path) -> Path:
    copied = tmp_path / LIBRARY
    copied.write_bytes(loadable().read_bytes())
    return copied


@contextmanager
def server(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    port = free_port()
    command = [valkey_binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        end(process)


async def allocator(url: str) -> str:
    """What the doctor says, once the server is up."""

    async def told() -> list[str]:
        return [finding.what for finding in await inspect(url) if finding.what.startswith("allocator")]

    [line] = cast(list[str], await until(told, 20))
    return line


def test_a_library_that_loads_is_found(library):
    assert find_jemalloc(valkey_binary(), [str(library.parent)]) == str(library)
    assert find_jemalloc(valkey_binary(), ["/nowhere", str(library.parent)]) == str(library)


def test_a_library_that_does_not_load_is_left_alone(tmp_path):
    (tmp_path / LIBRARY).write_text("not a library")
    assert find_jemalloc(valkey_binary(), [str(tmp_path)]) is None
    assert find_jemalloc(valkey_binary(), ["/nowhere"]) is None


def test_a_program_that_does_not_start_with_it_gets_none(library):
    assert find_jemalloc("/bin/false", [str(library.parent)]) is None
    assert find_jemalloc("/nowhere/valkey", [str(library.parent)]) is None


def test_what_others_preload_stays(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "libother.so")
    assert preloaded("/lib/x.so") == {"LD_PRELOAD": "/lib/x.so libother.so"}


async def test_doctor_names_the_allocator_of_a_server_on_this_machine(library, tmp_path):
    with server(tmp_path, preloaded(str(library))) as url:
        assert await allocator(url) == "allocator jemalloc (preloaded)"
    with server(tmp_path, {}) as url:
        assert (await allocator(url)).startswith("allocator libc; with jemalloc")


@pytest.mark.parametrize("wanted", [True, False])
def test_up_preloads_it_and_says_so_unless_it_is_turned_off(wanted, tmp_path):
    up = Up(tmp_path, *QUICK, *([] if wanted else ["--no-jemalloc"]))
    try:
        up.until_said("NEAR devnet at")
        up.until_said("Valkey on")
        found = find_jemalloc(valkey_binary()) if wanted else None
        maps = Path(f"/proc/{up.child('valkey')}/maps").read_text()
        assert ("libjemalloc" in maps) == (found is not None)
        if found is not None:
            up.until_said(f"Valkey uses jemalloc ({found})")
    finally:
        up.end(signal.SIGTERM)
    assert ("jemalloc" in up.said) == (found is not None)
