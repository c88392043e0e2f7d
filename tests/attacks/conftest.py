"""The stages of the other suites: the programs as operators run them, and the lanes of workers in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.api.conftest import devnet, key, make_stage, stage
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.evm.conftest import anvil, make_anvil
from tests.runtime.conftest import plain_logs
from tests.runtime.stage import Account, Stage
from tests.waiting import until_sync
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger

__all__ = ["anvil", "devnet", "key", "make_anvil", "make_stage", "plain_logs", "stage"]


@pytest.fixture(scope="session")
def attacked_devnet() -> Iterator[Devnet]:
    with Devnet(accounts=400, keys=2, block_ms=50, delay_ms=0) as running:
        until_sync(lambda: running.head("final")["height"] > 100_000_000, what="blocks beyond genesis are final")
        yield running


@pytest.fixture(scope="session")
def attacked_accounts(attacked_devnet: Devnet) -> Iterator[Account]:
    return iter(attacked_devnet.told["accounts"])


@pytest.fixture(params=["memory", "redis"])
async def lanes(
    request: pytest.FixtureRequest, attacked_devnet: Devnet, attacked_accounts: Iterator[Account], prefix: str
) -> AsyncIterator[Stage]:
    """Workers and their lanes, on the memory ledger and on a real server."""
    server: HasUrl | None = request.getfixturevalue("redis7") if request.param == "redis" else None
    ledger = MemoryLedger() if server is None else RedisLedger(server.url, prefix=prefix)
    made = Stage(attacked_devnet, ledger, attacked_accounts)
    yield made
    await made.close()
    attacked_devnet.clear_faults()


@pytest.fixture
async def redis_lanes(
    redis7: HasUrl, attacked_devnet: Devnet, attacked_accounts: Iterator[Account], prefix: str
) -> AsyncIterator[Stage]:
    made = Stage(attacked_devnet, RedisLedger(redis7.url, prefix=prefix), attacked_accounts)
    yield made
    await made.close()
    attacked_devnet.clear_faults()
