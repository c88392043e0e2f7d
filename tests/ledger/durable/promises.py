"""Promises of this store alone, and those that only an object itself can show."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.servers.workerd import PRODUCER
from txmanager.core.budgets import Budget, Charge, slot_of
from txmanager.core.errors import Fenced, Misconfigured, RolledBack
from txmanager.core.ledger import TOMBSTONE_MS, Claim, Route
from txmanager.core.models import HOMES, IntentId, LaneSpec, Outcome
from txmanager.core.states import LaneState, Status
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.durable.backend import DAY_MS
from txmanager.ledger.redis.codec import pack_outcome
from txmanager.testing.ledger.registry import Promise
from txmanager.testing.ledger.stage import LONG_MS, POOL, Stage

DURABLE_PROMISES: dict[str, Promise] = {}


def durable_promise(check: Promise) -> Promise:
    DURABLE_PROMISES[check.__name__] = check
    return check


def ledger_of(stage: Stage) -> DurableObjectLedger:
    assert isinstance(stage.ledger, DurableObjectLedger)
    return stage.ledger


async def home_clock(ledger: DurableObjectLedger, id: IntentId, ms: int) -> None:
    await ledger._home(id, "poke", what="clock", ms=ms)


async def lane_clock(ledger: DurableObjectLedger, lane: str, ms: int) -> None:
    await ledger._lane(lane, "poke", what="clock", ms=ms)


@durable_promise
async def homes_expire(stage: Stage) -> None:
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.settled(fence)
    ledger = ledger_of(stage)
    await ledger.retire(await ledger.unretired(lane, 9))
    await home_clock(ledger, write.id, 7 * DAY_MS - 60_000)
    assert await ledger.read(write.id) is not None
    await home_clock(ledger, write.id, 7 * DAY_MS + 1)
    assert await ledger.read(write.id) is None


@durable_promise
async def tombstones_expire(stage: Stage) -> None:
    """Long after, the same life meets its own tombstone no more: it is as stale as any old claim. More of them than one
    append cleans up: what is still there counts as gone."""
    lane = await stage.lane()
    entries = await stage.queued(lane, 120)
    entry = entries[-1]
    ledger = ledger_of(stage)
    await asyncio.gather(*(ledger.cancel(one.intent.id) for one in entries[:-1]))
    await ledger.retire(await ledger.unretired(lane, 200))
    await ledger.cancel(entry.intent.id)
    await ledger.retire(await ledger.unretired(lane, 9))
    await lane_clock(ledger, lane, TOMBSTONE_MS - 10_000)
    assert [a.word for a in await ledger.append(lane, [entry])] == ["retired"]
    await lane_clock(ledger, lane, TOMBSTONE_MS + 1)
    assert [a.word for a in await ledger.append(lane, [entry])] == ["stale"]


@durable_promise
async def forget_deletes_only_the_claim_that_was_read(stage: Stage) -> None:
    """A producer renews, another life begins, or the answer arrives between the sweeper's read and its deletion."""
    ledger = ledger_of(stage)
    entry = await stage.entry("near:net:a:1")
    id = entry.intent.id
    assert not await ledger._home(id, "forget", life=entry.life, born=entry.born - 1)
    assert not await ledger._home(id, "forget", life="another", born=entry.born)
    lane = await stage.lane()
    fence = await stage.own(lane)
    [write] = await stage.settled(fence)
    [record] = await ledger.unretired(lane, 9)
    await ledger.retire([record])
    assert not await ledger._home(write.id, "forget", life=write.life, born=record.created_at)
    assert (await stage.claim(entry.intent, "near:net:b:2")).word == "renewed"
    assert (await stage.read(write)).status is Status.DONE


@durable_promise
async def cancel_that_comes_after_the_end_changes_nothing(stage: Stage) -> None:
    """Between the caller's read and its step the intent may have ended, been retired, or begun another life."""
    ledger = ledger_of(stage)
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    args = {"id": write.id.text, "outcome": pack_outcome(Outcome(Status.CANCELLED)).decode()}
    assert not await ledger._lane(fence.lane, "cancel", life="another", **args)
    assert not await ledger._lane(fence.lane, "cancel", life=write.life, **args)
    assert (await stage.read(write)).status is Status.DONE
    view = await ledger.lane(fence.lane)
    assert view is not None
    assert (view.asks, view.unretired, view.depth) == (0, 1, 0)


@durable_promise
async def older_news_of_a_lane_never_overwrites_newer(stage: Stage) -> None:
    ledger = ledger_of(stage)
    lane = await stage.lane()
    await ledger.set_lane(lane, LaneState.DRAINING)
    await ledger.set_lane(lane, LaneState.ACTIVE)
    late = {"lane": lane, "pool": POOL, "weight": 1, "state": "draining", "revision": 1}
    await ledger._shared("lanes", "publish", **late)
    assert await ledger.routes() == [Route(lane, POOL, 1, LaneState.ACTIVE)]


@durable_promise
async def listing_lanes_heals_a_registry_nobody_told(stage: Stage) -> None:
    """Whoever changed the lane died before it published."""
    ledger = ledger_of(stage)
    lane = await stage.lane()
    stop = {"reason": "", "cause": "", "command": "", "evidence": "{}", "fence": None}
    await ledger._lane(lane, "set_lane", state="draining", **stop)
    assert [r.state for r in await ledger.routes()] == [LaneState.ACTIVE]
    assert [v.state for v in await ledger.lanes()] == [LaneState.DRAINING]
    assert [r.state for r in await ledger.routes()] == [LaneState.DRAINING]


@durable_promise
async def sweep_goes_past_claims_that_stay(stage: Stage) -> None:
    """A page of claims whose records live must not hide what lies behind it."""
    ledger = ledger_of(stage)
    lane = await stage.lane()
    home, ids = 7, []
    for n in range(100_000):
        id = IntentId(POOL, f"sweep{n}")
        if id.home == home:
            ids.append(id)
        if len(ids) == 3:
            break
    claims = [Claim(id, "v1:x", lane, f"life{id.key}") for id in ids]
    await ledger.claim(claims)
    found = []
    for skip in range(3):
        args = {"slot": home, "older_ms": -DAY_MS, "skip": skip, "count": 1}
        [row] = await ledger._home(ids[0], "stale", **args)
        found.append(row["id"])
    assert sorted(found) == sorted(id.text for id in ids)


@durable_promise
async def sweep_leaves_other_homes_of_its_object_alone(stage: Stage) -> None:
    """Sixty-four homes share an object."""
    ledger = ledger_of(stage)
    lane = await stage.lane()
    one = IntentId(POOL, "one")
    n = 0
    while (other := IntentId(POOL, f"other{n}")).home % 16 != one.home % 16 or other.home == one.home:
        n += 1
    await ledger.claim([Claim(id, "v1:x", lane, f"life{id.key}") for id in (one, other)])
    assert await ledger.sweep(one.home, -DAY_MS) == 1
    [answer] = await ledger.claim([Claim(other, "v1:x", lane, "again")])
    assert answer.word == "renewed"


@durable_promise
async def cancel_waits_while_the_history_is_another(stage: Stage) -> None:
    """It may have been signed, and the store forgot it."""
    fence = await stage.own(await stage.lane())
    [entry] = await stage.queued(fence.lane)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    await stage.ledger.vouch(fence, view.history_id, "elsewhere")
    with pytest.raises(RolledBack):
        await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.vouch(fence, "elsewhere", view.history_id)
    assert (await stage.ledger.cancel(entry.intent.id)).status is Status.CANCELLED


@durable_promise
async def budgets_of_a_restored_backup_are_rebuilt_before_they_are_charged(stage: Stage) -> None:
    """Charges made since the backup are gone with it; what the records know comes back, and only then goes on."""
    ledger = ledger_of(stage)
    budget = Budget("token:a/near/day", 100, DAY_MS)
    charges = [Charge(IntentId(POOL, f"b{n}"), f"life{n}", await ledger.now_ms(), 10, (budget,)) for n in range(3)]
    assert [c.word for c in await ledger.charge(charges[:1])] == ["charged"]
    place = f"budgets-{slot_of(budget.name)}"
    await ledger._shared(place, "poke", history="before the backup")
    assert [c.word for c in await ledger.charge(charges[1:2])] == ["moved"]
    assert not await ledger._shared(place, "rebuilt", found="before the backup")
    assert [c.word for c in await ledger.charge(charges[1:2])] == ["moved"]
    assert await ledger.rebuild() == 1
    assert [c.word for c in await ledger.charge(charges[1:2])] == ["charged"]
    assert await ledger.rebuild() == 0


@durable_promise
async def producers_secret_owns_nothing(stage: Stage) -> None:
    ledger = ledger_of(stage)
    lane = await stage.lane()
    host, port = ledger.link.address.host, ledger.link.address.port
    producer = DurableObjectLedger(f"do+http://:{PRODUCER}@{host}:{port}", prefix=ledger._prefix)
    try:
        with pytest.raises(Misconfigured, match="owner's secret"):
            await producer.lease(lane, "thief", "token", LONG_MS)
        assert await producer.lane(lane) is not None
    finally:
        await producer.close()


@durable_promise
async def old_request_is_refused(stage: Stage) -> None:
    link = ledger_of(stage).link
    body = b'{"calls":[]}'
    for age_ms, status in ((0, 200), (59_000, 200), (61_000, 401), (-61_000, 401)):
        at = time.time_ns() // 1_000_000 - age_ms
        lines = link.address.head("POST", "/ledger/v1/run", "", body, lambda at=at: at)
        request = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
        assert (await link._exchange(request)).status == status


@durable_promise
async def operators_word_counts_once_from_each_request(stage: Stage) -> None:
    """Whoever overheard a request and sends it again within its minute changes nothing."""
    ledger = ledger_of(stage)
    lane = await stage.lane()
    sent: list[bytes] = []
    link = ledger.link
    post = link._exchange

    async def listen(request: bytes):  # type: ignore[no-untyped-def]
        sent.append(request)
        return await post(request)

    link._exchange = listen  # type: ignore[method-assign]
    await ledger.set_lane(lane, LaneState.PAUSED, "for a moment")
    overheard = sent[0]
    link._exchange = post  # type: ignore[method-assign]
    await ledger.set_lane(lane, LaneState.ACTIVE)
    response = await post(overheard)
    assert b'"error":"repeated"' in response.body
    view = await ledger.lane(lane)
    assert view is not None
    assert view.state is LaneState.ACTIVE


@durable_promise
async def asking_for_what_is_not_there_leaves_no_database(stage: Stage) -> None:
    """A caller that makes up names of lanes must not fill the disk with them."""
    ledger = ledger_of(stage)
    lane = "near:net:made:up"
    assert await ledger.lane(lane) is None
    assert await ledger.events(lane) == []
    assert await ledger.read(IntentId(POOL, "nobody")) is None
    assert await ledger._lane(lane, "poke", what="count") == {}


async def rows_left(ledger: DurableObjectLedger, lane: str) -> dict[str, int]:
    """Every row of the lane and of all homes."""
    left: dict[str, int] = {}
    counts = [await ledger._lane(lane, "poke", what="count")]
    ids = {}
    n = 0
    while len(ids) < 16:
        id = IntentId(POOL, f"probe{n}")
        ids.setdefault(id.home % 16, id)
        n += 1
    counts += [await ledger._home(id, "poke", what="count") for id in ids.values()]
    for found in counts:
        for table, rows in found.items():
            left[table] = left.get(table, 0) + rows
    return {table: rows for table, rows in left.items() if rows}


async def pass_time(ledger: DurableObjectLedger, lane: str, ms: int) -> None:
    await lane_clock(ledger, lane, ms)
    seen: set[int] = set()
    n = 0
    while len(seen) < 16:
        id = IntentId(POOL, f"probe{n}")
        if id.home % 16 not in seen:
            seen.add(id.home % 16)
            await home_clock(ledger, id, ms)
        n += 1


@durable_promise
async def nothing_is_left_after_the_retention(stage: Stage) -> None:
    await leave_nothing(stage, 40)


async def leave_nothing(stage: Stage, count: int, page: int = 500) -> None:
    ledger = ledger_of(stage)
    lane = await stage.lane()
    fence = await stage.own(lane)
    for start in range(0, count, page):
        await stage.settled(fence, min(page, count - start))
        while records := await ledger.unretired(lane, page):
            assert await ledger.retire(records) == len(records)
    alone = stage.intent()
    await stage.claim(alone, lane)
    own = stage.intent("own")
    await ledger.alias(own.id, own.fingerprint, alone.id)
    assert (await rows_left(ledger, lane)).keys() >= {"events", "homes"}
    await pass_time(ledger, lane, 8 * DAY_MS)
    for _ in range(2):  # an alias goes after its target
        await asyncio.gather(*(ledger.sweep(home) for home in range(HOMES)))
    assert await rows_left(ledger, lane) == {}


# -- lanes that own themselves


async def as_resident(stage: Stage, lane: str, operation: str, **args: object) -> Any:
    """As only the object itself may."""
    return await ledger_of(stage)._lane(lane, "as_resident", step=operation, told=args)


async def resident_lane(stage: Stage, name: str = "near:net:resident:ed25519.a") -> str:
    spec = {"id": name, "pool": POOL, "weight": 1, "queue_limit": 9, "info": "{}", "keyless": False, "resident": True}
    await as_resident(stage, name, "register", **spec)
    return name


async def adopted(stage: Stage, lane: str, token: str) -> dict[str, object]:
    told = await as_resident(stage, lane, "adopt", token=token, lease_ms=LONG_MS)
    assert told["word"] == "adopted"
    return {"epoch": told["epoch"], "token": token}


@durable_promise
async def lane_is_resident_or_external_and_never_both(stage: Stage) -> None:
    own, lane = await resident_lane(stage), await stage.lane()
    leased = await stage.ledger.lease(own, "worker", "a-token-of-a-worker", LONG_MS)
    assert (leased.word, leased.owner) == ("held", "resident")
    with pytest.raises(Exception, match=own):
        await stage.ledger.register(LaneSpec(own, POOL))
    assert (await as_resident(stage, lane, "adopt", token="t", lease_ms=LONG_MS))["word"] == "external"
    spec = {"pool": POOL, "weight": 1, "queue_limit": 9, "info": "{}", "keyless": False, "resident": True}
    with pytest.raises(Misconfigured):
        await ledger_of(stage)._lane("near:net:other:ed25519.a", "register", id="near:net:other:ed25519.a", **spec)


@durable_promise
async def nobody_from_outside_does_what_a_resident_does(stage: Stage) -> None:
    own = await resident_lane(stage)
    fence = await adopted(stage, own, "first")
    for operation, args in (
        ("adopt", {"token": "stolen", "lease_ms": LONG_MS}),
        ("look", {"fence": fence}),
        ("rest", {"fence": fence, "after_ms": None}),
        ("count", {"fence": fence, "send_ms": 1, "invalid_nonce": False}),
    ):
        with pytest.raises(Misconfigured):
            await ledger_of(stage)._lane(own, operation, **args)


@durable_promise
async def every_start_of_a_resident_takes_the_lane_from_the_one_before(stage: Stage) -> None:
    """At once, whatever is left of the lease; a start whose answer was lost may ask again."""
    own = await resident_lane(stage)
    first, second = await adopted(stage, own, "first"), await adopted(stage, own, "second")
    assert second["epoch"] == int(str(first["epoch"])) + 1
    assert await adopted(stage, own, "second") == second
    for operation, args in (
        ("look", {}),
        ("rest", {"after_ms": None}),
        ("count", {"send_ms": 1, "invalid_nonce": False}),
        ("renew", {"lease_ms": LONG_MS}),
    ):
        with pytest.raises(Fenced):
            await as_resident(stage, own, operation, fence=first, **args)
        await as_resident(stage, own, operation, fence=second, **args)


@durable_promise
async def resident_sleeps_only_when_nothing_came_meanwhile(stage: Stage) -> None:
    own = await resident_lane(stage)
    fence = await adopted(stage, own, "first")
    assert await as_resident(stage, own, "rest", fence=fence, after_ms=None) is None
    later = await as_resident(stage, own, "rest", fence=fence, after_ms=5_000)
    assert 1_000 < later - await stage.ledger.now_ms() <= 5_000
    [entry] = await stage.queued(own)
    assert await as_resident(stage, own, "rest", fence=fence, after_ms=None) is not None
    await stage.ledger.set_lane(own, LaneState.PAUSED)
    assert await as_resident(stage, own, "rest", fence=fence, after_ms=None) is None
    await stage.ledger.cancel(entry.intent.id)
    assert await as_resident(stage, own, "rest", fence=fence, after_ms=None) is not None, "it is not at its home yet"


@durable_promise
async def what_cannot_go_home_wakes_a_resident_once_an_hour(stage: Stage) -> None:
    own = await resident_lane(stage)
    fence = await adopted(stage, own, "first")
    first, second = await stage.queued(own, 2)
    await stage.ledger.cancel(first.intent.id)
    await stage.ledger.cancel(second.intent.id)
    await stage.ledger.shelve(first.intent.id, own, "no home takes it")
    assert await as_resident(stage, own, "rest", fence=fence, after_ms=None) <= await stage.ledger.now_ms() + 1_000
    await stage.ledger.shelve(second.intent.id, own, "no home takes it")
    later = await as_resident(stage, own, "rest", fence=fence, after_ms=None)
    assert 3_500_000 < later - await stage.ledger.now_ms() <= 3_600_000


@durable_promise
async def closed_lane_is_adopted_by_nobody_and_counters_outlive_starts(stage: Stage) -> None:
    own = await resident_lane(stage)
    fence = await adopted(stage, own, "first")
    for invalid in (True, False):
        await as_resident(stage, own, "count", fence=fence, send_ms=20, invalid_nonce=invalid)
    await adopted(stage, own, "second")
    row = await ledger_of(stage)._lane(own, "lane")
    assert (row["sends"], row["send_ms"], row["invalid_nonces"]) == (2, 40, 1)
    await stage.ledger.set_lane(own, LaneState.DRAINING)
    await stage.ledger.set_lane(own, LaneState.CLOSED)
    assert (await as_resident(stage, own, "adopt", token="third", lease_ms=LONG_MS))["word"] == "closed"
