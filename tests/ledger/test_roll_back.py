"""A server that comes back with an older state: what the ledger must not believe any more. Found by `make model`."""

from __future__ import annotations

import asyncio

import pytest

from tests.ledger.conftest import memory_stage, redis_stage
from tests.waiting import until
from txmanager.core.errors import RolledBack, Unavailable
from txmanager.core.states import Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.testing.ledger.stage import BASE


async def test_cancel_after_a_roll_back_does_not_promise_that_nothing_lands(make_server, prefix: str):
    """The write-ahead was forgotten, its bytes may be under way: `cancelled` would be a lie, a new key pays twice."""
    server = make_server(config={"appendonly": "no"})
    async with redis_stage(server.url, prefix, timeout_s=2.0) as stage:
        lane = await stage.lane()
        fence = await stage.own(lane)
        [entry] = await stage.queued(lane)
        with server.client() as client:
            client.save()
        [taken] = await stage.ledger.take(fence, 1)
        await stage.ledger.record_attempts(fence, BASE, [stage.write(entry, BASE, position=taken.position)])
        await asyncio.to_thread(
            server.restart, kill=True
        )  # the bytes are sent; the ledger falls back to what was saved

        async def back() -> bool:
            try:
                found = await stage.ledger.read(entry.intent.id)
            except Unavailable:
                return False
            return found is not None and found.status is Status.QUEUED

        await until(back, 20, what="the server is back, and forgot the attempt")
        with pytest.raises(RolledBack):
            await stage.ledger.cancel(entry.intent.id)
        found = await stage.ledger.read(entry.intent.id)
        assert found is not None
        assert found.status is Status.QUEUED
        # whoever looked into it says so, and then a cancel is a cancel again
        view = await stage.ledger.lane(lane)
        assert view is not None
        assert await stage.ledger.vouch(fence, view.history_id, view.found_history_id)
        assert (await stage.ledger.cancel(entry.intent.id)).status is Status.CANCELLED


@pytest.mark.parametrize("vouches", [True, False])
async def test_memory_ledger_that_nobody_vouches_for_refuses_it_too(vouches: bool):
    stage = memory_stage()
    ledger = stage.ledger
    assert isinstance(ledger, MemoryLedger)
    [entry] = await stage.queued(await stage.lane())
    ledger.vouches, ledger.history_id = vouches, "another history"
    if vouches:
        assert (await ledger.cancel(entry.intent.id)).status is Status.CANCELLED
    else:
        with pytest.raises(RolledBack):
            await ledger.cancel(entry.intent.id)
