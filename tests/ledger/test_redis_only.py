"""Promises that only Redis can break, on both server programs, and in an installation that nobody upgraded."""

from __future__ import annotations

import pytest

from tests.ledger import schemas
from tests.ledger.conftest import redis_stage
from tests.ledger.parking_redis import REDIS_PROMISES
from txmanager.core.ledger import SCHEMA

assert schemas, "its promises are among them"


@pytest.mark.parametrize(("server", "schema"), [("redis7", SCHEMA), ("redis7", 1), ("valkey9", SCHEMA)])
@pytest.mark.parametrize("promise", REDIS_PROMISES)
async def test_promise(promise: str, server: str, schema: int, prefix: str, request: pytest.FixtureRequest):
    async with redis_stage(request.getfixturevalue(server).url, prefix, schema=schema) as stage:
        await REDIS_PROMISES[promise](stage)
