"""One devnet process for this folder, a fresh account per lane, and a stage on the memory ledger or on Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.runtime.stage import Account, Stage
from tests.waiting import until_sync
from txmanager.core.ledger import Ledger
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger


@pytest.fixture(scope="session", autouse=True)
def plain_logs() -> Iterator[None]:
    """One line per event: drawing a traceback with all its locals can take longer than a lease."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ]
    )
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def runtime_devnet() -> Iterator[Devnet]:
    with Devnet(accounts=400, keys=2, block_ms=50, delay_ms=0) as devnet:
        until_sync(lambda: devnet.head("final")["height"] > 100_000_000, what="blocks beyond genesis are final")
        yield devnet


@pytest.fixture(scope="session")
def fresh_accounts(runtime_devnet: Devnet) -> Iterator[Account]:
    return iter(runtime_devnet.told["accounts"])


@pytest.fixture
def devnet(runtime_devnet: Devnet) -> Iterator[Devnet]:
    yield runtime_devnet
    runtime_devnet.clear_faults()


@pytest.fixture
async def stage(devnet: Devnet, fresh_accounts: Iterator[Account]) -> AsyncIterator[Stage]:
    """On the memory ledger."""
    made = Stage(devnet, MemoryLedger(), fresh_accounts)
    yield made
    await made.close()


@pytest.fixture
async def redis_stage(
    devnet: Devnet, fresh_accounts: Iterator[Account], redis7: HasUrl, prefix: str
) -> AsyncIterator[Stage]:
    """On a real server that keeps what it acknowledged."""
    ledger: Ledger = RedisLedger(redis7.url, prefix=prefix)
    made = Stage(devnet, ledger, fresh_accounts)
    yield made
    await made.close()
