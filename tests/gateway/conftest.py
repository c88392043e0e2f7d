"""Nodes for the gateway's suite."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.evm.machines import Anvil
from tests.gateway.stage import Gateway, gateway
from tests.gateway.strict import Strict


@pytest.fixture(scope="session")
def anvil() -> Iterator[Anvil]:
    """Mines every transaction at once. Tests use senders of their own."""
    with Anvil() as running:
        yield running


@pytest.fixture(scope="session")
def strict(anvil: Anvil) -> Iterator[Strict]:
    """A node without a mempool whose counts lag by 2 to 5 s."""
    with Strict(anvil) as running:
        yield running


@pytest.fixture
def make_strict(anvil: Anvil) -> Iterator[Callable[..., Strict]]:
    with ExitStack() as running:
        yield lambda **options: running.enter_context(Strict(anvil, **options))


@pytest.fixture
async def gate(anvil: Anvil) -> AsyncIterator[Gateway]:
    """A gateway with defaults before the shared anvil."""
    async with gateway(anvil) as running:
        yield running


class _Fixed:
    def __init__(self, answer: bytes, status: int) -> None:
        self._answer = answer
        self._status = status
        self.url = ""

    def start(self, sock: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
        self._thread.start()

    def _serve(self, sock: socket.socket) -> None:
        head = f"HTTP/1.1 {self._status} X\r\ncontent-length: {len(self._answer)}\r\n\r\n".encode()
        while True:
            try:
                peer, _ = sock.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                peer.recv(1 << 20)
                peer.sendall(head)
                peer.sendall(self._answer)


@pytest.fixture
def node_that_answers() -> Iterator[Callable[..., _Fixed]]:
    """A node that gives one answer to everything."""
    open_sockets: list[socket.socket] = []

    def make(answer: bytes, status: int = 200) -> _Fixed:
        sock = socket.create_server(("127.0.0.1", 0))
        open_sockets.append(sock)
        fixed = _Fixed(answer, status)
        fixed.start(sock)
        return fixed

    yield make
    for sock in open_sockets:
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()


@pytest.fixture
def make_anvil() -> Iterator[Callable[..., Anvil]]:
    with ExitStack() as running:
        yield lambda *arguments, **options: running.enter_context(Anvil(*arguments, **options))
