"""A signer that takes its time: what was signed is written ahead only if the lane's plan still wants it then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from structlog.testing import capture_logs

from tests.runtime.stage import POLICY, Stage
from tests.waiting import until
from txmanager.chains.near.chain import NearChain
from txmanager.core.models import Attempt, Purpose
from txmanager.core.states import LaneState, Status


class SlowChain(NearChain):
    """Signs, and hands the bytes over when it is told to."""

    purposes: Sequence[Purpose] = ()
    """What it takes its time for."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.signed, self.go = asyncio.Event(), asyncio.Event()

    async def sign(self, *args: Any) -> list[Attempt]:
        attempts = [*await super().sign(*args)]
        if attempts[0].purpose in self.purposes:
            self.signed.set()
            await self.go.wait()
        return attempts


class SlowFirst(SlowChain):
    purposes = (Purpose.FIRST,)


class SlowResign(SlowChain):
    purposes = (Purpose.RESIGN,)


def refusals(logs: list[Any]) -> int:
    """How often the ledger had to refuse what the plan should not have asked for."""
    return sum(entry["event"] == "write-ahead refused" for entry in logs)


async def test_a_lane_that_is_paused_while_it_signs_writes_nothing_ahead(stage: Stage) -> None:
    running = await stage.start(kind=SlowFirst)
    chain = running.chain
    assert isinstance(chain, SlowChain)
    ids = await stage.submit(*stage.transfers(3))
    await until(chain.signed.is_set, what="the first bytes are signed")
    await stage.manager.pause(stage.lane, "a look at the books")
    plan = running.worker._held[stage.lane].lane.plan
    await until(lambda: plan.state is LaneState.PAUSED, what="the owner read the pause")
    with capture_logs() as logs:
        chain.go.set()
        await until(lambda: not running.worker._held[stage.lane].lane.sending, what="the sender is done")
    assert refusals(logs) == 0
    records = [await stage.read(id) for id in ids]
    assert [(r.status, r.attempts) for r in records] == [(Status.QUEUED, ())] * 3
    assert stage.amounts() == []
    await stage.manager.resume(stage.lane)
    records = await stage.done(ids)
    assert [len(r.attempts) for r in records] == [1, 1, 1]
    assert stage.amounts() == [1, 2, 3]


async def test_a_lane_that_is_quarantined_while_it_signs_again_writes_nothing_ahead(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    running = await stage.start(kind=SlowResign, policy=replace(POLICY, window=4))
    chain = running.chain
    assert isinstance(chain, SlowChain)
    victim, other = await stage.submit(stage.transfer("victim", 9), stage.transfer("other", 1))
    await until(chain.signed.is_set, what="the overtaken one is signed again")
    await stage.ledger.set_lane(stage.lane, LaneState.QUARANTINED, "somebody else has the key")
    plan = running.worker._held[stage.lane].lane.plan
    await until(lambda: plan.state is LaneState.QUARANTINED, what="the owner read it")
    with capture_logs() as logs:
        chain.go.set()
        await until(lambda: not running.worker._held[stage.lane].lane.sending, what="the sender is done")
    assert refusals(logs) == 0
    assert len((await stage.read(victim)).attempts) == 1
    await stage.done([other])
    assert stage.amounts() == [1]
