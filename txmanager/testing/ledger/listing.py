"""What a list may rely on: every record that a lane holds is found, in one order, from any mark on."""

from __future__ import annotations

from txmanager.core.listing import Mark, mark_of
from txmanager.core.models import Record
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import Stage
from txmanager.testing.waiting import until


async def pages(stage: Stage, lane: str, count: int) -> list[Record]:
    found: list[Record] = []
    before: Mark | None = None
    while True:
        page = await stage.ledger.browse(lane, before, count)
        assert len(page.records) <= count
        found += page.records
        if page.next is None:
            return found
        assert before is None or page.next < before, "every page goes on"
        before = page.next


async def next_ms(stage: Stage) -> None:
    """Until the ledger gives out another millisecond."""
    begun = await stage.ledger.now_ms()

    async def later() -> bool:
        return await stage.ledger.now_ms() > begun

    await until(later, every=0.001)


@promise
async def list_of_a_lane_has_every_record_newest_first_whatever_its_state(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    held = await stage.held(fence)
    await next_ms(stage)
    [done] = await stage.settled(fence)
    await next_ms(stage)
    [inflight] = await stage.inflight(fence)
    await next_ms(stage)
    [aside] = await stage.queued(fence.lane)
    [taken] = await stage.ledger.take(fence, 1)
    assert await stage.ledger.set_aside(fence, taken, "bad_seal", {})
    await next_ms(stage)
    [cancelled] = await stage.queued(fence.lane)
    await stage.ledger.cancel(cancelled.intent.id)
    await next_ms(stage)
    [queued] = await stage.queued(fence.lane)
    wanted = [
        (queued.intent.id, "queued"),
        (cancelled.intent.id, "cancelled"),
        (aside.intent.id, "held"),
        (inflight.id, "inflight"),
        (done.id, "done"),
        (held.id, "held"),
    ]
    for count in (1, 2, 3, 50):
        assert [(r.id, r.status.value) for r in await pages(stage, fence.lane, count)] == wanted, count
    live = [r for r in await pages(stage, fence.lane, 50) if not r.status.final]
    assert all(r.intent.payload == {"to": "bob"} for r in live)
    assert (await stage.ledger.browse("near:net:never:1", None, 9)).records == ()


@promise
async def list_of_one_millisecond_is_whole_and_ordered_by_life(stage: Stage) -> None:
    """A batch is accepted within one millisecond: pages that end inside of it lose and repeat nothing."""
    lane = await stage.lane()
    for _ in range(3):
        await stage.queued(lane, 20)
    found = await pages(stage, lane, 7)
    assert len({r.life for r in found}) == len(found) == 60
    assert [mark_of(r) for r in found] == sorted((mark_of(r) for r in found), reverse=True)


@promise
async def list_goes_on_after_a_mark_whatever_ended_or_came_since(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    old = await stage.inflight(fence, 3)
    first = await stage.ledger.browse(fence.lane, None, 99)
    assert first.next is None
    marks = sorted((mark_of(r) for r in first.records), reverse=True)
    await next_ms(stage)
    await stage.queued(fence.lane, 2)
    await stage.ledger.settle(fence, [stage.done(old[0])])
    rest = await stage.ledger.browse(fence.lane, marks[0], 99)
    assert [mark_of(r) for r in rest.records] == marks[1:]
    for end in (marks[-1], (marks[-1][0], ""), (0, "")):
        assert (await stage.ledger.browse(fence.lane, end, 99)).records == ()
