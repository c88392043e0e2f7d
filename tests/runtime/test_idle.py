"""An idle worker asks the ledger a fixed number of questions per tick, however many lanes it owns."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.runtime.stage import POLICY, POOL, TIMING, Counting, lane_of, make_chain
from tests.waiting import until
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.lane.worker import Service, Worker

TICKS = 3


async def test_an_idle_worker_of_200_lanes_makes_a_handful_of_round_trips_per_tick(redis7: HasUrl, prefix: str) -> None:
    lanes = 200
    with Devnet(accounts=1, keys=lanes, block_ms=100) as devnet:
        [account] = devnet.told["accounts"]
        accounts = [{**account, **key} for key in account["keys"]]
        chain = make_chain(devnet.url, accounts)
        services = {lane_of(a): Service(LaneSpec(lane_of(a), POOL), chain, POLICY) for a in accounts}
        ledger = RedisLedger(redis7.url, prefix=prefix)
        counting = Counting(ledger)
        # Its own ticks are minutes apart: those that are counted are made below, however slow the machine is.
        worker = Worker(counting, services, timing=replace(TIMING, lease_ms=600_000, margin_ms=900))
        task = asyncio.create_task(worker.run())
        try:
            await until(lambda: counting.counts["take"] >= lanes, 60, what="every lane is recovered and asked for work")
            await until(lambda: not any(held.lane.sending for held in worker._held.values()), 30, what="and had none")
            trips, before = ledger.runner.round_trips, counting.counts.copy()
            for _ in range(TICKS):
                await worker._renew()
                await worker._show()
                await worker._tick()
            per_tick = (ledger.runner.round_trips - trips) / TICKS
        finally:
            worker.stop()
            await task
            await chain.close()
            await ledger.close()
    # One renewal of all lanes, one heartbeat, one look at the members; at the default lease that is 1 a second.
    assert per_tick <= 5, counting.counts - before
