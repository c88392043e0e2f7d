"""Nodes for the EVM suite: one automining anvil to share, and makers of nodes to break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.evm.machines import Anvil, Hardhat


@pytest.fixture(scope="session")
def anvil() -> Iterator[Anvil]:
    """Mines every transaction at once. Do not break it: `make_anvil` gives one of your own."""
    with Anvil() as running:
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
