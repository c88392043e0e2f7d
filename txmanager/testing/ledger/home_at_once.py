"""`settle` with the final record: where one store holds home and lane, an end goes home in the same step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import wraps

import pytest

from txmanager.core.errors import InvalidInput
from txmanager.core.ledger import Settled, Settlement, WriteAhead
from txmanager.core.models import Fence, Outcome, Record, failure
from txmanager.core.quotas import Room, Share
from txmanager.core.states import Status
from txmanager.testing.ledger.archiving import archived
from txmanager.testing.ledger.budgets import charged_entry
from txmanager.testing.ledger.quotas import charged
from txmanager.testing.ledger.registry import Promise, promise
from txmanager.testing.ledger.stage import BASE, Stage


async def end_of(stage: Stage, write: WriteAhead) -> Settlement:
    return Settlement.of(await stage.read(write), stage.done(write).outcome, {})


async def end(stage: Stage, fence: Fence, writes: Sequence[WriteAhead]) -> list[Settled]:
    return await stage.ledger.settle(fence, [await end_of(stage, write) for write in writes], BASE)


def together(check: Promise) -> Promise:
    """A ledger whose homes and lanes are apart only settles, says so, and leaves the rest to `retire`."""

    @wraps(check)
    async def either(stage: Stage) -> None:
        fence = await stage.own(await stage.lane("near:net:probe:1"))
        [write] = await stage.inflight(fence)
        [answer] = await end(stage, fence, [write])
        if answer.retired:
            await check(stage)
            return
        assert (answer.word, answer.status) == ("settled", "done")
        assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9)) == 1
        assert (await stage.read(write)).status is Status.DONE

    return promise(either)


def kept(final: Record | None, at: int) -> Record:
    """A final record as its home answers it."""
    assert final is not None
    return replace(final, updated_at=at, attempts=tuple(replace(a, raw=b"") for a in final.attempts))


@together
async def end_with_its_final_record_goes_home_in_the_same_step(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    writes = await stage.inflight(fence, 3)
    ends = [await end_of(stage, write) for write in writes]
    answers = await stage.ledger.settle(fence, ends, BASE)
    assert [(a.word, a.status, a.retired) for a in answers] == [("settled", "done", True)] * 3
    assert await stage.ledger.unretired(fence.lane, 9) == []
    assert await stage.ledger.unfinished(fence) == []
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.unretired, view.landed) == (0, 0, 0, BASE)
    for write, ended, answer in zip(writes, ends, answers, strict=True):
        final = kept(ended.final, answer.at)
        assert await stage.read(write) == final
        claimed = await stage.claim(stage.intent(write.id.key), "near:net:b:2")
        assert (claimed.word, claimed.record, claimed.lane) == ("final", final, fence.lane)
    assert [status for _, status in await stage.statuses(fence.lane)][-3:] == ["done"] * 3


@together
async def end_at_once_is_gone_when_it_is_settled_again(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    ended = await end_of(stage, write)
    first, again = await stage.ledger.settle(fence, [ended, ended])
    assert (first.word, again.word, again.retired) == ("settled", "gone", False)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    other = Settlement.of(await stage.read(write), failed, {write.attempt.name: {"cause": "expired"}})
    assert (await stage.settle_one(fence, other)).word == "gone"
    assert (await stage.read(write)).status is Status.DONE
    assert [s for _, s in await stage.statuses(fence.lane)].count("done") == 1


@together
async def late_append_after_an_end_at_once_is_told(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [entry] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    ended = Settlement.of(await stage.read(entry), failed, {})
    assert (await stage.settle_one(fence, ended)).retired
    assert taken.life == entry.life
    assert [a.word for a in await stage.ledger.append(fence.lane, [entry])] == ["retired"]
    other = replace(entry, life="another")
    assert [a.word for a in await stage.ledger.append(fence.lane, [other])] == ["appended"], (
        "it is no part of that life"
    )
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert view.depth == 1


@together
async def end_at_once_keeps_the_proofs_of_death(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    record = await stage.read(write)
    assert (await stage.settle_one(fence, Settlement.of(record, failed, {}))).word == "refused"
    ended = Settlement.of(record, failed, {write.attempt.name: {"cause": "expired"}})
    assert (await stage.settle_one(fence, ended)).retired
    assert [a.proof for a in (await stage.read(write)).attempts] == [{"cause": "expired"}]


@together
async def end_at_once_never_overwrites_a_new_life(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    ended = await end_of(stage, write)
    await stage.expire("home", write.id)
    await stage.claim(stage.intent(write.id.key), "near:net:b:2", "second-life")
    assert (await stage.settle_one(fence, ended)).retired
    still = await stage.claim(stage.intent(write.id.key), fence.lane)
    assert (still.word, still.life, still.lane) == ("renewed", "second-life", "near:net:b:2")


@together
async def end_at_once_wakes_its_callers_and_gives_room_back(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [entry, _], _ = await charged(stage, lane, [Share("bob", 1_000), Share("bob", 7)])
    await stage.ledger.take(fence, 1)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    ended = Settlement.of(await stage.read(entry), failed, {})
    assert await stage.ledger.room("bob") == Room(2, 1_007)
    await stage.ledger.wait_final(lane, entry.intent.id, 0.05)  # the first one may only subscribe
    caller = asyncio.create_task(stage.ledger.wait_final(lane, entry.intent.id, 60))
    await asyncio.sleep(0)
    assert (await stage.settle_one(fence, ended)).retired
    await asyncio.wait_for(caller, 30)
    assert await stage.ledger.room("bob") == Room(1, 7)


@together
async def end_that_an_archive_waits_for_stays_in_its_lane(stage: Stage) -> None:
    fence = await stage.own(await archived(stage))
    [write] = await stage.inflight(fence)
    [answer] = await end(stage, fence, [write])
    assert (answer.word, answer.retired) == ("settled", False)
    assert [r.id for r in await stage.ledger.unarchived(fence.lane, 9)] == [write.id]
    assert (await stage.claim(stage.intent(write.id.key), fence.lane)).word == "renewed"


@together
async def end_that_a_budget_has_to_book_stays_in_its_lane(stage: Stage) -> None:
    """A crash after the tombstone would leave the charge to nobody who knows what it cost."""
    lane = await stage.lane()
    fence = await stage.own(lane)
    entry = await charged_entry(stage, lane, 30)
    await stage.ledger.take(fence, 1)
    failed = Outcome(Status.FAILED, error=failure("x", "y", new_key_helps=True))
    answer = await stage.settle_one(fence, Settlement.of(await stage.read(entry), failed, {}))
    assert (answer.word, answer.retired) == ("settled", False)
    assert await stage.ledger.retire(await stage.ledger.unretired(lane, 9)) == 1
    assert (await stage.read(entry)).status is Status.FAILED


@together
async def end_without_its_final_record_is_retired_later(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, two = await stage.inflight(fence, 2)
    answers = await stage.ledger.settle(fence, [stage.done(one), await end_of(stage, two)])
    assert [(a.word, a.retired) for a in answers] == [("settled", False), ("settled", True)]
    assert [r.id for r in await stage.ledger.unretired(fence.lane, 9)] == [one.id]
    assert (await stage.claim(stage.intent(one.id.key), fence.lane)).word == "renewed"
    assert (await stage.claim(stage.intent(two.id.key), fence.lane)).word == "final"


@together
async def many_ends_go_home_in_one_call(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    writes = await stage.inflight(fence, 1001)
    answers = await end(stage, fence, writes)
    assert [(a.word, a.retired) for a in answers] == [("settled", True)] * 1001
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.unretired) == (0, 0, 0)


@promise
async def final_record_of_another_end_is_refused(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, two = await stage.inflight(fence, 2)
    good, other = await end_of(stage, one), await end_of(stage, two)
    assert good.final is not None
    for wrong in (other.final, replace(good.final, life="other"), replace(good.final, outcome=None)):
        with pytest.raises(InvalidInput, match="final"):
            await stage.ledger.settle(fence, [replace(good, final=wrong)])
    assert (await stage.read(one)).status is Status.INFLIGHT
