"""Mempools for tests: one `Stage` per backend, each with a key prefix of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.ledger.conftest import BACKENDS, durability_of, until_replicas_confirm
from tests.mempool.stage import Stage, memory_stage, redis_stage


# A gateway needs Redis, Valkey or memory, and its mempool has no schemas.
@pytest.fixture(params=[name for name in BACKENDS if name not in ("durable", "schema1")])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stage(backend: str, request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[Stage]:
    if backend == "memory":
        yield memory_stage()
        return
    url = request.getfixturevalue(backend).url
    if durability_of(backend) == "replicas":
        await until_replicas_confirm(url)
    async with redis_stage(url, prefix, durability=durability_of(backend), timeout_s=5.0) as made:
        yield made


@pytest.fixture
async def redis_one(redis7: Any, prefix: str) -> AsyncIterator[Stage]:
    """The single server only."""
    async with redis_stage(redis7.url, prefix) as made:
        yield made
