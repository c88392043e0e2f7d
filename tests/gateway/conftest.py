"""Nodes for the gateway's suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.evm.machines import Anvil
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
