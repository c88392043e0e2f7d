"""What broke an owner is counted, whoever owns the lane; what cannot be retired is left alone, and nothing else is."""

from __future__ import annotations

import pytest

from txmanager.core.errors import Fenced
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import LONG_MS, Stage
from txmanager.testing.waiting import until

LATER = 3_600_000


@promise
async def breaks_are_counted_through_a_take_over(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    assert [await stage.ledger.broke(fence, "a", f"1.{n}", "ValueError: x", LATER) for n in (1, 2)] == [1, 2]
    assert await stage.ledger.broke(fence, "", "1.3", "KeyError", LATER) == 1
    after = await stage.take_over(lane, fence)
    assert await stage.ledger.broke(after, "a", "2.1", "ValueError: x", LATER) == 3
    assert await stage.ledger.broke(after, "", "2.2", "KeyError", LATER) == 2


@promise
async def break_that_is_told_twice_counts_once(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    assert [await stage.ledger.broke(fence, "a", "1.1", "x", LATER) for _ in range(3)] == [1, 1, 1]
    assert await stage.ledger.broke(fence, "a", "1.2", "", LATER) == 2


@promise
async def breaks_long_ago_are_forgotten(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    await stage.ledger.broke(fence, "a", "1.1", "x", LATER)
    await stage.ledger.broke(fence, "a", "1.2", "x", LATER)
    before = await stage.ledger.now_ms()

    async def later() -> bool:
        return await stage.ledger.now_ms() > before + 2

    await until(later, every=0.002)
    assert await stage.ledger.broke(fence, "a", "1.3", "x", 1) == 1


@promise
async def stale_owner_counts_no_breaks(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    new = await stage.take_over(lane, old)
    with pytest.raises(Fenced, match="belongs to w2"):
        await stage.ledger.broke(old, "a", "1.1", "x", LATER)
    assert await stage.ledger.broke(new, "a", "2.1", "x", LATER) == 1


@promise
async def what_is_shelved_stays_final_and_is_not_offered_again(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    batch = await stage.inflight(fence, 3)
    await stage.ledger.settle(fence, [stage.done(one) for one in batch])
    await stage.ledger.shelve(batch[0].id, lane, "ValueError: no\nwords")
    left = await stage.ledger.unretired(lane, 9)
    assert {r.id for r in left} == {batch[1].id, batch[2].id}
    assert await stage.ledger.shelved(lane) == {str(batch[0].id): "ValueError: no\nwords"}
    assert await stage.ledger.retire(left) == 2
    assert await stage.ledger.unretired(lane, 9) == []
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.unretired == 1
    record = await stage.ledger.read(batch[0].id)
    assert record is not None
    assert record.status.final
    assert (await stage.ledger.renew([fence], LONG_MS))[0].word == "renewed"
