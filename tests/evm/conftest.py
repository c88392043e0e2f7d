"""Nodes for the EVM suite: one automining anvil to share, and makers of nodes to break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import HasUrl
from tests.evm.geth import Geth
from tests.evm.machines import Anvil, Hardhat
from tests.evm.nonce_stage import Service, nonce_service


@pytest.fixture(scope="session")
def anvil() -> Iterator[Anvil]:
    """Mines every transaction at once. Do not break it: `make_anvil` gives one of your own."""
    with Anvil() as running:
        yield running


@pytest.fixture(scope="session")
def service(redis7: HasUrl) -> Iterator[Service]:
    """The nonce service: two API processes, two workers, a node of their own that mines at once."""
    with Anvil() as node, nonce_service(node, redis7.url, apis=2, workers=2) as running:
        yield running


@pytest.fixture
def make_anvil() -> Iterator[Callable[..., Anvil]]:
    with ExitStack() as running:
        yield lambda *arguments, **options: running.enter_context(Anvil(*arguments, **options))


@pytest.fixture
def hardhat() -> Iterator[Hardhat]:
    """Mines when it is told to."""
    with Hardhat() as running:
        yield running


@pytest.fixture
def make_geth() -> Iterator[Callable[..., Geth]]:
    """Start a geth of your own: `make_geth("--dev.period", "1")`."""
    with ExitStack() as running:
        yield lambda *arguments, **options: running.enter_context(Geth(*arguments, **options))
