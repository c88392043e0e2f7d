"""What acceptance charges and gives back, on every ledger: a known key never, a refused intent nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.ledger.conftest import memory_stage, redis_stage
from txmanager.core.budgets import Bill, Budget, noted_charge
from txmanager.core.errors import BudgetExhausted, KeyReused, NoLane, NoRoom, QueueFull, TxManagerError, Unavailable
from txmanager.core.ledger import Claim
from txmanager.core.models import Intent, LaneSpec, new_intent
from txmanager.core.quotas import Share
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.producer import Producer, Submitted
from txmanager.runtime.care.charges import sweep_charges
from txmanager.testing.ledger.stage import POOL, Stage

TOKEN, ALL = Budget("token:bob/net/1h", 100, 3_600_000), Budget("pool:pool/1h", 1_000, 3_600_000)
LANE = "near:net:a:1"


@pytest.fixture(params=["memory", "redis7", "cluster"])
async def stage(request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[Stage]:
    if request.param == "memory":
        yield memory_stage()
        return
    async with redis_stage(request.getfixturevalue(request.param).url, prefix) as made:
        yield made


def billed(key: str, units: int, *budgets: Budget, **payload: object) -> tuple[Intent, Bill]:
    budgets = budgets or (TOKEN, ALL)
    intent = new_intent(key=key, pool=POOL, kind="near.transfer", payload={"to": "bob", **payload})
    return replace(intent, limits=noted_charge(units, 1, budgets)), Bill(units, budgets)


async def submit(stage: Stage, key: str, units: int, *budgets: Budget, **more: object) -> Submitted | TxManagerError:
    intent, bill = billed(key, units, *budgets)
    [result] = await Producer(stage.ledger).submit_many([intent], bills=[bill], **more)  # type: ignore[arg-type]
    return result


async def open_units(stage: Stage) -> tuple[int, int]:
    token, pool = await stage.ledger.usage([TOKEN.name, ALL.name])
    return token.open, pool.open


async def test_accepted_intent_is_charged_once_however_often_it_is_asked_for(stage: Stage):
    await stage.lane(LANE)
    first = await submit(stage, "a", 60)
    assert isinstance(first, Submitted)
    assert not first.replayed
    for _ in range(2):
        again = await submit(stage, "a", 60)
        assert isinstance(again, Submitted)
        assert again.replayed
    assert await open_units(stage) == (60, 60)


async def test_known_key_is_answered_whatever_its_budget_has_left(stage: Stage):
    await stage.lane(LANE)
    intent, _ = billed("before", 60)
    before = await Producer(stage.ledger).submit(replace(intent, limits={}))
    assert (await submit(stage, "a", 100)).__class__ is Submitted
    known = await submit(stage, "before", 60)
    assert isinstance(known, Submitted)
    assert (known.replayed, known.record.life) == (True, before.record.life)
    assert await open_units(stage) == (100, 100), "what was accepted without a budget is not charged later"
    await stage.ledger.cancel(intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(LANE, 9))
    ended = await submit(stage, "before", 60)
    assert isinstance(ended, Submitted)
    assert ended.record.status is Status.CANCELLED


async def test_over_budget_is_refused_with_what_is_left_and_the_same_key_is_accepted_later(stage: Stage):
    await stage.lane(LANE)
    await submit(stage, "a", 60)
    refused = await submit(stage, "b", 50)
    assert isinstance(refused, BudgetExhausted)
    assert (refused.budget, refused.left, refused.needs, refused.retry_after_s) == (TOKEN.name, 40, 50, 5)
    assert await open_units(stage) == (60, 60)
    too_much = await submit(stage, "c", 101)
    assert isinstance(too_much, BudgetExhausted)
    assert too_much.retry_after_s is None
    await stage.ledger.cancel(billed("a", 60)[0].id)
    await stage.ledger.retire(await stage.ledger.unretired(LANE, 9))
    assert isinstance(await submit(stage, "b", 50), Submitted)
    assert await open_units(stage) == (50, 50)


@pytest.mark.parametrize(
    ("error", "more"),
    [(QueueFull, {}), (NoRoom, {"shares": [Share("bob", 10, most=0)]}), (NoLane, {"lane": "near:net:other:9"})],
)
async def test_intent_that_is_refused_after_its_charge_gives_it_back_at_once(stage: Stage, error, more):
    await stage.ledger.register(LaneSpec(LANE, POOL, queue_limit=0 if error is QueueFull else 9))
    assert isinstance(await submit(stage, "a", 60, **more), error)
    assert await open_units(stage) == (0, 0)


async def test_batch_is_charged_one_by_one_and_each_has_its_own_answer(stage: Stage):
    await stage.lane(LANE)
    wanted = [billed("a", 60), billed("b", 60), billed("c", 40), billed("a", 60, other=1)]
    free = new_intent(key="free", pool=POOL, kind="near.transfer", payload={})
    results = await Producer(stage.ledger).submit_many(
        [*(intent for intent, _ in wanted), free], bills=[*(bill for _, bill in wanted), None]
    )
    assert [type(result) for result in results] == [Submitted, BudgetExhausted, Submitted, KeyReused, Submitted]
    assert await open_units(stage) == (100, 100)


async def test_claim_that_moves_to_another_lane_is_charged_once(stage: Stage):
    await stage.lane(LANE)
    producer = Producer(stage.ledger, routes_for_s=60.0)
    intent, bill = billed("a", 60)
    await stage.ledger.claim([Claim(intent.id, intent.fingerprint, LANE, "life")])
    await stage.ledger.set_lane(LANE, LaneState.DRAINING)
    await stage.ledger.set_lane(LANE, LaneState.CLOSED)
    await stage.lane("near:net:b:2")
    [result] = await producer.submit_many([intent], bills=[bill])
    assert isinstance(result, Submitted)
    assert result.record.lane == "near:net:b:2"
    assert await open_units(stage) == (60, 60)


# -- the sweeper


async def test_charge_of_a_claim_that_never_became_an_intent_is_swept_and_others_stay(stage: Stage):
    await stage.lane(LANE)
    await submit(stage, "lives", 30)
    intent, bill = billed("orphan", 20)
    [claimed] = await stage.ledger.claim([Claim(intent.id, intent.fingerprint, LANE, "life")])
    await stage.ledger.charge([bill.charge(intent.id, claimed.life, claimed.born)])
    assert await sweep_charges(stage.ledger) == 0, "its append may still come"
    assert await open_units(stage) == (50, 50)
    await stage.expire("charges")
    assert await sweep_charges(stage.ledger) == 2
    assert await open_units(stage) == (30, 30)
    await stage.expire("charges")
    assert await sweep_charges(stage.ledger) == 0
    assert isinstance(await submit(stage, "orphan", 20), Submitted)
    assert await open_units(stage) == (50, 50)


async def test_charge_in_a_budget_that_its_record_does_not_name_is_swept(stage: Stage):
    """Two tokens of one tenant used one key at once: the other's charge came first, and its append second."""
    await stage.lane(LANE)
    first = await submit(stage, "a", 30, ALL)
    assert isinstance(first, Submitted)
    intent, bill = billed("a", 30, TOKEN)
    await stage.ledger.charge([bill.charge(intent.id, first.record.life, await stage.ledger.now_ms())])
    await stage.expire("charges")
    assert await sweep_charges(stage.ledger) == 1
    assert await open_units(stage) == (0, 30)


async def test_charge_whose_correction_was_lost_is_corrected_by_the_sweeper_once(stage: Stage):
    await stage.lane(LANE)
    first = await submit(stage, "a", 30)
    assert isinstance(first, Submitted)
    intent, bill = billed("a", 30)
    await stage.ledger.cancel(intent.id)
    [record] = await stage.ledger.unretired(LANE, 9)
    await stage.ledger.retire([record])
    await stage.expire("charges")
    # as a rebuild leaves it that read the record before it ended
    await stage.ledger.charge([bill.charge(intent.id, record.life, await stage.ledger.now_ms())])
    assert await open_units(stage) == (30, 30)
    await stage.expire("charges")
    assert await sweep_charges(stage.ledger) == 2
    assert await open_units(stage) == (0, 0)


async def test_nothing_is_accepted_on_a_budget_of_another_history_until_the_sweeper_rebuilt_it():
    stage = memory_stage()
    ledger = stage.ledger
    assert isinstance(ledger, MemoryLedger)
    await stage.lane(LANE)
    await submit(stage, "a", 60)
    ledger.vouches, ledger.history_id = False, "another"
    ledger.budgets._books.clear()
    ledger.budgets._looks.clear()
    refused = await submit(stage, "b", 10)
    assert isinstance(refused, Unavailable)
    assert "rebuilt" in str(refused)
    await sweep_charges(ledger)
    assert await open_units(stage) == (60, 60)
    assert isinstance(await submit(stage, "b", 10), Submitted)
    assert isinstance(await submit(stage, "c", 31), BudgetExhausted)


async def test_without_a_bill_no_more_calls_are_made():
    asked: list[str] = []

    async def hop(operation: str, side: str) -> None:
        asked.append(operation)

    ledger = MemoryLedger(hop=hop)
    await ledger.register(LaneSpec(LANE, POOL))
    asked.clear()
    await Producer(ledger).submit(billed("a", 1)[0])
    assert not {"charge", "uncharge", "usage"} & set(asked)
