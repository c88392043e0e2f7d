"""A devnet for the tests of resident lanes, and stacks of their own: each on an account that nobody else uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.devnet.process import Devnet
from tests.servers.resident import Resident

RECEIVER = 1
_FIRST = 4
Make = Callable[..., Resident]


@pytest.fixture(scope="session")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=15, accounts=40, keys=5) as running:
        yield running


@pytest.fixture(scope="session")
def accounts(devnet: Devnet) -> Iterator[int]:
    """Numbers of accounts: a key that two ledgers know would be used by two owners."""
    return iter(range(_FIRST, 40))


@pytest.fixture
def make_resident(devnet: Devnet, accounts: Iterator[int]) -> Iterator[Make]:
    with ExitStack() as running:

        def make(*nodes: str, lanes: int = 4, **options: object) -> Resident:
            account = devnet.account(next(accounts))
            found = Resident(account["account_id"], account["keys"][:lanes], nodes or [devnet.url], **options)  # type: ignore[arg-type]
            return running.enter_context(found)

        yield make
