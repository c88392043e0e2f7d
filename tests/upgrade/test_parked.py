"""A lane that this release parked, and release 0.1.0: to it there is none, and it makes one that goes on counting."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from tests.test_architecture import ROOT
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger
from txmanager.testing.ledger.parking import parked
from txmanager.testing.ledger.reservations import LANE, SEED, keyless, reserve
from txmanager.testing.ledger.stage import Stage


async def test_release_0_1_0_brings_a_parked_lane_back_at_its_next_number(old_release, make_server):
    url = make_server().url
    ledger = RedisLedger(url, prefix="both", durability="none")

    async def expire(what: str, lane: str) -> None:
        key = ledger._keys.reservation_deadlines(lane)
        [tokens] = await ledger.runner.plain(key, ("ZRANGE", key, 0, -1))
        await ledger.runner.plain(key, *(("ZADD", key, 1, token) for token in tokens))

    stage = Stage(ledger, expire, None)  # type: ignore[arg-type]
    try:
        await parked(stage)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / "tests" / "upgrade" / "numbering.py"), url, LANE),
            env={**os.environ, "PYTHONPATH": str(old_release)},
            cwd=old_release,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        told = json.loads(output)
        assert told == {"routes": [], "lane": False, "nonce": SEED, "lease": "leased"}
        assert [route.lane for route in await ledger.routes(fresh=True)] == [LANE]
        assert await reserve(stage, LANE, "new") == SEED + 1
        view = await ledger.register(LaneSpec(LANE, "pool", weight=0, keyless=True))
        assert (view.parked, view.cursor) == (False, SEED + 2)
        assert await ledger.parked() == []
        await keyless(stage)
    finally:
        await ledger.close()
