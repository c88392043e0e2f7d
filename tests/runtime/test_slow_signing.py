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


async def test_an_intent_that_is_cancelled_while_it_is_signed_again_ends_without_an_effect(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    running = await stage.start(kind=SlowResign, policy=replace(POLICY, window=4))
    chain = running.chain
    assert isinstance(chain, SlowChain)
    victim, other = await stage.submit(stage.transfer("victim", 9), stage.transfer("other", 1))
    await until(chain.signed.is_set, what="the overtaken one is signed again")
    await stage.manager.cancel(victim)
    [record] = await stage.finals([victim])
    assert (record.status, len(record.attempts)) == (Status.CANCELLED, 1)
    with capture_logs() as logs:
        chain.go.set()
        await until(lambda: not running.worker._held[stage.lane].lane.sending, what="the sender is done")
    assert refusals(logs) == 0
    await stage.done([other])
    assert stage.amounts() == [1]


async def test_a_cancel_that_is_read_while_a_re_sign_is_written_ahead_is_not_forgotten(stage: Stage) -> None:
    """What the sender stores of a flight is based on the record as it was read last."""
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=1)
    running = await stage.start(policy=replace(POLICY, window=4))
    victim, other = await stage.submit(stage.transfer("victim", 9), stage.transfer("other", 1))
    lane, ledger, chain = running.worker._held[stage.lane].lane, running.worker._ledger, running.chain
    record_attempts, broadcast = ledger.record_attempts, chain.broadcast
    cancelled: list[bool] = []

    def note() -> None:
        flight = lane.plan.flights.get(victim)
        assert flight is not None
        cancelled.append(flight.record.cancel_requested)

    async def meanwhile(fence: Any, cursor: int, writes: Any) -> int:
        moved = await record_attempts(fence, cursor, writes)
        if writes[0].attempt.purpose is Purpose.RESIGN:
            await stage.manager.cancel(victim)
            await lane.load()
            note()
        return moved

    async def noting(on: str, attempts: Any) -> Any:
        if attempts[0].purpose is Purpose.RESIGN:
            note()
        return await broadcast(on, attempts)

    ledger.record_attempts = meanwhile  # type: ignore[method-assign]
    chain.broadcast = noting  # type: ignore[method-assign]
    await until(lambda: len(cancelled) >= 2, what="it is signed again, and sent")
    assert cancelled[:2] == [True, True]
    await stage.done([other])


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
