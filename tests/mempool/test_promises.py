"""One suite over every backend: memory, Redis, Valkey, Cluster, Sentinel."""

from __future__ import annotations

import pytest

from tests.mempool.promises import PROMISES
from tests.mempool.stage import Stage


@pytest.mark.parametrize("promise", PROMISES)
async def test_promise(promise: str, stage: Stage):
    await PROMISES[promise](stage)
