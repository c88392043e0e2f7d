"""How many lanes of a chain take and sign at once, and what they do not wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runtime.stage import Counting, Stage, lane_of
from txmanager.chains.near.chain import NearChain
from txmanager.core.chain import SendReply
from txmanager.core.ledger import Taken
from txmanager.core.models import Intent, LaneSpec
from txmanager.core.states import Status
from txmanager.runtime.lane import abreast


async def queued(stage: Stage, count: int) -> tuple[list[dict[str, Any]], list[Intent]]:
    """So many lanes, each with an intent that waits for its owner."""
    accounts = [next(stage.fresh) for _ in range(count)]
    intents = [stage.transfer(f"k{n}", pool=stage.pool_of(account)) for n, account in enumerate(accounts)]
    for account in accounts:
        await stage.ledger.register(LaneSpec(lane_of(account), stage.pool_of(account)))
    await stage.submit(*intents)
    return accounts, intents


async def test_no_more_lanes_than_have_a_turn_hold_a_batch(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abreast, "MOST", 2)
    busy: set[str] = set()
    most = 0

    class Watching(Counting):
        async def take(self, fence: Any, count: int) -> list[Taken]:
            nonlocal most
            busy.add(fence.lane)
            most = max(most, len(busy))
            taken = await stage.ledger.take(fence, count)
            if not taken:
                busy.discard(fence.lane)
            return taken

        async def record_attempts(self, fence: Any, *args: Any) -> int:
            await asyncio.sleep(0.05)  # so that the others come, if they may
            try:
                return await stage.ledger.record_attempts(fence, *args)
            finally:
                busy.discard(fence.lane)

    accounts, intents = await queued(stage, 6)
    await stage.start(*accounts, ledger=Watching(stage.ledger))
    await stage.done([intent.id for intent in intents])
    assert most == 2


async def test_a_send_without_an_answer_keeps_no_other_lane_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abreast, "MOST", 1)
    answer = asyncio.Event()

    class Silent(NearChain):
        async def broadcast(self, *args: Any) -> list[SendReply]:
            await answer.wait()
            return await super().broadcast(*args)

    accounts, intents = await queued(stage, 3)
    await stage.start(*accounts, kind=Silent)
    for intent in intents:
        await stage.until_status(intent.id, Status.INFLIGHT)
    answer.set()
    await stage.done([intent.id for intent in intents])


async def test_a_lane_that_gets_no_place_for_long_goes_on_beside_the_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow callback, for example: it may not keep others from working."""
    monkeypatch.setattr(abreast, "MOST", 1)
    monkeypatch.setattr(abreast, "LONGEST_S", 0.1)
    slow, goes_on = lane_of(stage.account), asyncio.Event()

    class Slow(Counting):
        async def record_attempts(self, fence: Any, *args: Any) -> int:
            if fence.lane == slow:
                await goes_on.wait()
            return await stage.ledger.record_attempts(fence, *args)

    accounts, [intent] = await queued(stage, 1)
    await stage.ledger.register(LaneSpec(slow, stage.pool_of(stage.account)))
    first = await stage.submit(stage.transfer("first"))
    await stage.start(stage.account, *accounts, ledger=Slow(stage.ledger))
    await stage.done([intent.id])
    goes_on.set()
    await stage.done(first)
