"""One suite over every backend: memory, Redis, Valkey, Cluster, Sentinel."""

from __future__ import annotations

import pytest

from txmanager.testing.ledger import PROMISES
from txmanager.testing.ledger.stage import Stage


@pytest.mark.parametrize("promise", PROMISES)
async def test_promise(promise: str, stage: Stage):
    await PROMISES[promise](stage)
