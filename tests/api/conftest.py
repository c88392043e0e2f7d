"""One running stage for the tests that only talk to it, and a maker of stages to break."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.api.stage import ACCOUNTS, Stage
from tests.conftest import HasUrl
from tests.devnet.process import Devnet


@pytest.fixture(scope="session")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=50, accounts=ACCOUNTS, keys=8) as running:
        yield running


@pytest.fixture(scope="session")
def stage(redis7: HasUrl, devnet: Devnet) -> Iterator[Stage]:
    """Lanes, a worker and an API. Do not break it: `make_stage` gives one of your own."""
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet) as running:
        yield running.start()


@pytest.fixture
def make_stage() -> Iterator[Callable[..., Stage]]:
    with ExitStack() as running:
        yield lambda *args, **options: running.enter_context(Stage(*args, **options))


@pytest.fixture
def key() -> str:
    """An idempotency key no other test uses."""
    return f"k-{secrets.token_hex(8)}"
