"""What breaks a worker is tried again twice and set aside: nobody else waits for it, and no take-over forgets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.stage import POLICY, POOL, Stage
from tests.waiting import until
from txmanager.chains.near import NearChain
from txmanager.core.chain import UNSEEN, Prepared, Proof, Sighting
from txmanager.core.decide import Step, decide
from txmanager.core.errors import InvalidInput
from txmanager.core.ledger import Settled, Settlement
from txmanager.core.models import Attempt, Intent, LaneSpec, Purpose, Record
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import QuarantineCause
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.care.sweeper import Sweeper
from txmanager.runtime.lane import breaks as runtime_breaks
from txmanager.runtime.lane import first_attempts as runtime_first
from txmanager.runtime.lane import tracker as runtime_tracker


def poisonous(intent: Intent) -> bool:
    return intent.id.key.startswith("poison")


class Brittle(NearChain):
    """An adapter with a bug that one intent finds."""

    tried = 0

    async def prepare(self, lane: str, intents: Sequence[Intent]) -> list[Any]:
        if any(map(poisonous, intents)):
            type(self).tried += len(intents) == 1
            raise ZeroDivisionError("a bug")
        return await super().prepare(lane, intents)


class BrittleSigner(NearChain):
    async def sign(
        self, lane: str, prepared: Sequence[Prepared], first_nonce: int, purpose: Purpose, now: int
    ) -> list[Attempt]:
        if any(poisonous(one.intent) for one in prepared):
            raise ZeroDivisionError("a bug")
        return await super().sign(lane, prepared, first_nonce, purpose, now)


def error_of(record: Record) -> Mapping[str, Any]:
    assert record.outcome is not None
    assert record.outcome.error is not None
    return record.outcome.error


@pytest.mark.parametrize("kind", [Brittle, BrittleSigner])
async def test_third_break_before_write_ahead_ends_that_intent_alone(lanes: Stage, kind: type[NearChain]) -> None:
    Brittle.tried = 0
    await lanes.start(kind=kind)
    first, poison, *rest = await lanes.submit(
        lanes.transfer("a", 1), lanes.transfer("poison", 9), *[lanes.transfer(f"b{n}", n) for n in (2, 3)]
    )
    records = await lanes.finals([first, poison, *rest])
    assert [r.status for r in records] == [Status.DONE, Status.FAILED, Status.DONE, Status.DONE]
    assert error_of(records[1])["code"] == "unprocessable"
    assert "ZeroDivisionError" in error_of(records[1])["message"]
    assert records[1].attempts == ()
    assert lanes.amounts() == [1, 2, 3], "in their order, and nothing for the poison"
    if kind is Brittle:
        assert Brittle.tried == runtime_breaks.STRIKES


async def test_breaks_are_counted_through_take_overs(redis_lanes: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker meets it once and dies; the third strike ends it. A renewal wakes the lane, and nothing is tried
    again before its time."""
    lanes, Brittle.tried = redis_lanes, 0
    monkeypatch.setattr(runtime_first, "AGAIN_MS", 600_000)
    await lanes.ledger.register(LaneSpec(lanes.lane, POOL))
    [poison] = await lanes.submit(lanes.transfer("poison", 9))  # in the queue: what a wake-up brings is not counted
    running = await lanes.start(kind=Brittle)
    for tried in (1, 2):
        await until(lambda n=tried: Brittle.tried >= n, what=f"worker {tried} broke")  # type: ignore[misc]
        await counted(lanes, tried)
        owned = running.worker._held[lanes.lane].lane
        for _ in range(3):
            before = owned.valid_until
            await until(lambda old=before, lane=owned: lane.valid_until > old, what="a renewal")  # type: ignore[misc]
        assert Brittle.tried == tried
        await running.crash()
        running = await lanes.start(kind=Brittle)
    [record] = await lanes.finals([poison])
    assert error_of(record)["code"] == "unprocessable"
    assert Brittle.tried == runtime_breaks.STRIKES


async def counted(lanes: Stage, times: int) -> None:
    ledger = lanes.ledger
    assert isinstance(ledger, RedisLedger)
    key = ledger._keys.breaks(lanes.lane)

    async def there() -> bool:
        [found] = await ledger.runner.plain(key, ("HVALS", key))
        return not found or int(found[0].split()[0]) >= times  # none: it has ended

    await until(there, what="the break is counted")


def brittle_decide(record: Record, *rest: Any) -> Step:
    if poisonous(record.intent):
        raise KeyError("a bug")
    return decide(record, *rest)


async def test_third_break_after_write_ahead_holds_that_intent_and_verbs_work_on_it(
    lanes: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_tracker, "decide", brittle_decide)
    running = await lanes.start()
    first, poison, last = await lanes.submit(
        lanes.transfer("a", 1), lanes.transfer("poison", 2), lanes.transfer("b", 3)
    )
    held = await lanes.until_status(poison, Status.HELD)
    assert held.hold is not None
    assert held.hold["reason"] == "unprocessable"
    assert held.hold["evidence"]["exception"] == "KeyError"
    await lanes.done([first, last])
    await lanes.done(await lanes.submit(lanes.transfer("later", 4)))
    assert (await lanes.until_lane(LaneState.ACTIVE)).owner, "the lane keeps its owner and works"
    monkeypatch.setattr(runtime_tracker, "decide", decide)
    await lanes.manager.resolve(poison, "track", "ops")
    await lanes.done([poison])
    assert sorted(lanes.amounts()) == [1, 2, 3, 4]
    assert running.owned


async def test_outcome_that_cannot_be_stored_holds_its_intent_and_the_others_settle(
    lanes: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = lanes.ledger.settle

    async def brittle(fence: Any, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        if any(item.id.key.startswith("poison") for item in batch):
            raise InvalidInput("payload", "cannot be stored as JSON")
        return await settle(fence, batch, landed)

    monkeypatch.setattr(lanes.ledger, "settle", brittle)
    await lanes.start()
    first, poison, last = await lanes.submit(
        lanes.transfer("a", 1), lanes.transfer("poison", 2), lanes.transfer("b", 3)
    )
    await lanes.done([first, last])
    await lanes.until_status(poison, Status.HELD)
    monkeypatch.undo()
    await lanes.done([poison])


async def test_lane_that_breaks_without_a_culprit_is_quarantined_and_comes_back(
    lanes: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = runtime_tracker.Tracker._answer

    async def broken(tracker: runtime_tracker.Tracker) -> None:
        if tracker._lane.id == lanes.lane:
            raise RuntimeError("a bug of nobody")
        await answer(tracker)

    other = next(lanes.fresh)
    await lanes.start(lanes.account, other)
    monkeypatch.setattr(runtime_tracker.Tracker, "_answer", broken)
    ids = await lanes.submit(lanes.transfer("a", 1))
    view = await lanes.until_lane(LaneState.QUARANTINED)
    assert view.cause is QuarantineCause.BROKEN
    assert (view.evidence["exception"], view.evidence["breaks"]) == ("RuntimeError", 3)
    monkeypatch.undo()
    await lanes.done(await lanes.submit(lanes.transfer("o", 1, pool=lanes.pool_of(other))))
    await lanes.manager.rebaseline(lanes.lane)
    await lanes.done(ids)
    await lanes.until_lane(LaneState.ACTIVE)
    assert lanes.amounts() == [1]


class Puzzled(NearChain):
    """Stumbles over every answer for a while, in a way that no adapter foresaw."""

    left = 0

    def _stumble(self) -> None:
        if type(self).left > 0:
            type(self).left -= 1
            raise RecursionError("deep")

    async def nonce(self, lane: str) -> Any:
        self._stumble()
        return await super().nonce(lane)

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[Any]:
        self._stumble()
        return await super().broadcast(lane, attempts)

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        self._stumble()
        return await super().look_up(lane, attempts)


async def test_exception_over_a_nodes_answer_makes_a_lane_wait_and_never_break(lanes: Stage) -> None:
    Puzzled.left = 6
    await lanes.start(kind=Puzzled, own=False)
    await until(lambda: Puzzled.left < 6, what="the worker asks")
    await until(lambda: bool(lanes.running[-1].owned), what="it owns the lane")
    await lanes.done(await lanes.submit(*lanes.transfers(3)))
    assert Puzzled.left == 0
    view = await lanes.until_lane(LaneState.ACTIVE)
    assert view.epoch == 1, "the lane was never given up"


class Lost(NearChain):
    """No node ever tells what became of some hashes."""

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        seen = await super().look_up(lane, attempts)
        return [UNSEEN if i.id.key.startswith("lost") else one for (i, _), one in zip(attempts, seen, strict=True)]

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return [None] * len(attempts)


@pytest.mark.parametrize("window", [1, 2])
async def test_held_intents_whose_nonces_are_used_stop_no_lane(lanes: Stage, window: int) -> None:
    """As many as may be in flight, and more."""
    policy = replace(POLICY, window=window, max_inflight=2, include_within_ms=200, hold_after_ms=400)
    await lanes.start(kind=Lost, policy=policy)
    for n in range(4):
        [lost] = await lanes.submit(lanes.transfer(f"lost{n}", n + 1))
        await lanes.until_status(lost, Status.HELD)
    ids = await lanes.submit(*[lanes.transfer(f"good{n}", n) for n in (5, 6, 7)])
    await lanes.done(ids)
    assert sorted(lanes.amounts()) == [1, 2, 3, 4, 5, 6, 7]
    await lanes.until_lane(LaneState.ACTIVE)


def go_home_apart(ledger: object) -> None:
    """As on a cluster: there an end goes home in a step of its own."""
    if isinstance(ledger, RedisLedger):
        ledger._link.one_server = False
    else:
        assert isinstance(ledger, MemoryLedger)
        ledger._together = False


async def test_final_record_that_nobody_can_process_stops_no_retirement(
    lanes: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_home_apart(lanes.ledger)
    retire = lanes.ledger.retire

    async def brittle(records: Sequence[Record]) -> int:
        if any(poisonous(record.intent) for record in records):
            raise InvalidInput("payload", "cannot be stored as JSON")
        return await retire(records)

    monkeypatch.setattr(lanes.ledger, "retire", brittle)
    await lanes.start()
    ids = await lanes.submit(lanes.transfer("a", 1), lanes.transfer("poison", 2), lanes.transfer("b", 3))
    await lanes.done(ids)

    async def left() -> bool:
        view = await lanes.ledger.lane(lanes.lane)
        return view is not None and view.unretired == 1

    await until(left, what="the others are retired")
    await until(lambda: shelved(lanes), what="it is set aside")
    assert await Sweeper(lanes.ledger).sweep_once() == (0, 0)
    assert (await lanes.read(ids[1])).status is Status.DONE, "it stays final, and answers"


async def shelved(lanes: Stage) -> bool:
    found = await lanes.ledger.shelved(lanes.lane)
    return [(name.rpartition("/")[2], "InvalidInput" in why) for name, why in found.items()] == [("poison", True)]


async def test_record_that_cannot_be_read_any_more_stops_no_sweep(redis_lanes: Stage) -> None:
    lanes, ledger = redis_lanes, redis_lanes.ledger
    assert isinstance(ledger, RedisLedger)
    go_home_apart(ledger)
    running = await lanes.start()
    await lanes.done(await lanes.submit(lanes.transfer("a", 1)))
    running.worker._retirer.add = lambda _record: None  # type: ignore[method-assign]
    running.worker._context.retire = lambda _record: None
    ids = await lanes.submit(lanes.transfer("bad", 2), lanes.transfer("good", 3))
    await lanes.done(ids)
    key = ledger._keys.record(lanes.lane, ids[0])
    await ledger.runner.plain(key, ("HSET", key, "o", "{"))
    assert (await Sweeper(ledger).sweep_once())[0] == 1
    assert list(await ledger.shelved(lanes.lane)) == [str(ids[0])]
    assert (await lanes.read(ids[1])).status is Status.DONE


def test_only_what_nobody_foresaw_is_a_break() -> None:
    nested = ExceptionGroup("lane", [InvalidInput("a", "b"), ExceptionGroup("inner", [KeyError("x")])])
    assert isinstance(runtime_breaks.first_break(nested), KeyError)
    assert runtime_breaks.first_break(InvalidInput("a", "b")) is None
    assert not runtime_breaks.is_break(nested)
