"""One devnet process for all the tests of this folder that only use it; those that break one start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.devnet.process import Devnet
from tests.waiting import until_sync


@pytest.fixture(scope="session")
def shared_devnet() -> Iterator[Devnet]:
    with Devnet(accounts=12, timeout_ms=1500) as devnet:
        until_sync(lambda: devnet.head("final")["height"] > 100_000_000, what="blocks beyond genesis are final")
        yield devnet


@pytest.fixture
def devnet(shared_devnet: Devnet) -> Iterator[Devnet]:
    """The shared network, left without faults."""
    yield shared_devnet
    shared_devnet.clear_faults()
