"""Promises that only Redis can break, on both server programs."""

from __future__ import annotations

import pytest

from tests.ledger.conftest import redis_stage
from tests.ledger.parking_redis import REDIS_PROMISES


@pytest.mark.parametrize("server", ["redis7", "valkey9"])
@pytest.mark.parametrize("promise", REDIS_PROMISES)
async def test_promise(promise: str, server: str, prefix: str, request: pytest.FixtureRequest):
    async with redis_stage(request.getfixturevalue(server).url, prefix) as stage:
        await REDIS_PROMISES[promise](stage)
