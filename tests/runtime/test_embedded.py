"""`async with TxManager(...)`: producer and workers in one process, and transactions that the caller builds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.runtime.stage import POLICY, POOL, TIMING, Stage, lane_of, make_chain
from tests.waiting import until
from txmanager.core.errors import KeyReused, NotAllowed, Unavailable
from txmanager.core.ledger import Ledger
from txmanager.core.models import LaneSpec, intent_id
from txmanager.core.states import Status
from txmanager.runtime.accept.built import Built, Slot
from txmanager.runtime.lane.worker import Service
from txmanager.runtime.manager import TxManager


@asynccontextmanager
async def embedded(stage: Stage, ledger: Ledger | None = None) -> AsyncIterator[TxManager]:
    chain = make_chain(stage.devnet.url, [stage.account])
    service = Service(LaneSpec(stage.lane, POOL), chain, POLICY)
    async with TxManager(ledger or stage.ledger, {stage.lane: service}, timing=TIMING) as manager:
        await until(lambda: manager.worker is not None and manager.worker.owned, what="the lane is owned")
        yield manager
    await chain.close()


def payment(stage: Stage, amount: int) -> dict[str, Any]:
    payload = {"receiver_id": stage.receiver["account_id"], "amount": str(amount)}
    return {"kind": "near.transfer", "payload": payload}


@pytest.mark.parametrize("backend", ["memory", "redis"])
async def test_execute_answers_with_the_outcome_and_a_retry_with_the_same_one(
    stage: Stage, redis_stage: Stage, backend: str
) -> None:
    here = stage if backend == "memory" else redis_stage
    async with embedded(here) as manager:
        first = await manager.execute(POOL, "pay-1", **payment(here, 7))
        assert first.status is Status.DONE
        assert first.tx_hash == here.landed()[0].hash
        assert await manager.execute(POOL, "pay-1", **payment(here, 7)) == first
        with pytest.raises(KeyReused):
            await manager.execute(POOL, "pay-1", **payment(here, 8))
    assert here.amounts() == [7]


async def test_many_callers_of_one_key_at_once_get_one_payment_and_one_answer(stage: Stage) -> None:
    async with embedded(stage) as manager:
        outcomes = await asyncio.gather(*(manager.execute(POOL, "same", **payment(stage, 3)) for _ in range(50)))
    assert len({o.tx_hash for o in outcomes}) == 1
    assert stage.amounts() == [3]


async def test_execute_that_ran_out_of_time_goes_on_and_is_answered_later(stage: Stage) -> None:
    async with embedded(stage) as manager:
        stage.devnet.fault("stall")
        with pytest.raises(Unavailable, match="it goes on"):
            await manager.execute(POOL, "slow", timeout_s=0.3, **payment(stage, 4))
        stage.devnet.clear_faults()
        assert (await manager.execute(POOL, "slow", **payment(stage, 4))).status is Status.DONE
    assert stage.amounts() == [4]


async def test_a_tenant_waits_for_its_own_intent_and_not_for_that_of_another(stage: Stage) -> None:
    async with embedded(stage) as manager:
        ours = await manager.execute(POOL, "k", tenant="ours", **payment(stage, 1))
        theirs = await manager.execute(POOL, "k", tenant="theirs", **payment(stage, 2))
    assert ours.tx_hash != theirs.tx_hash
    assert sorted(stage.amounts()) == [1, 2]


# -- built by the caller


async def test_execute_built_hands_the_nonce_out_and_sends_what_comes_back(stage: Stage) -> None:
    slots: list[Slot] = []

    async def build(slot: Slot) -> Built:
        slots.append(slot)
        return Built(**payment(stage, slot.nonce % 1000))

    async with embedded(stage) as manager:
        first = await manager.execute_built(stage.lane, "b1", build)
        again = await manager.execute_built(stage.lane, "b1", build)
        await manager.execute_built(stage.lane, "b2", build)
    assert first.status is Status.DONE
    assert first == again
    assert [s.nonce for s in slots] == [t.nonce for t in stage.landed()], "asked once per transaction"
    assert all(s.block_hash and s.lane == stage.lane for s in slots)
    assert stage.amounts() == [s.nonce % 1000 for s in slots]


async def test_built_and_plain_intents_keep_one_order(stage: Stage) -> None:
    async with embedded(stage) as manager:

        def build(amount: int) -> Any:
            async def made(_: Slot) -> Built:
                return Built(**payment(stage, amount))

            return made

        calls = []
        for n in range(1, 21):
            if n % 2:
                calls.append(asyncio.create_task(manager.execute(POOL, f"k{n}", **payment(stage, n))))
            else:
                calls.append(asyncio.create_task(manager.execute_built(stage.lane, f"k{n}", build(n))))
            await until(lambda n=n: known(stage, f"k{n}"), what="it is accepted")  # type: ignore[misc]
        outcomes = await asyncio.gather(*calls)
    assert {o.status for o in outcomes} == {Status.DONE}
    assert stage.amounts() == list(range(1, 21))


async def known(stage: Stage, key: str) -> bool:
    return await stage.ledger.read(intent_id(key, POOL)) is not None


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        ("raises", "the callback failed"),
        ("hangs", "did not answer in time"),
        ("nonsense", "must answer a Built"),
        ("unknown kind", "does not serve"),
        ("invalid", "not valid"),
    ],
)
async def test_a_callback_that_builds_nothing_fails_alone_and_spends_nothing(
    stage: Stage, trouble: str, word: str
) -> None:
    async def build(_: Slot) -> Any:
        if trouble == "raises":
            raise RuntimeError("secret details")
        if trouble == "hangs":
            await asyncio.sleep(60)
        if trouble == "unknown kind":
            return Built("near.wish", {})
        return Built("near.transfer", {"receiver_id": "X", "amount": "1"}) if trouble == "invalid" else "nonsense"

    async with embedded(stage) as manager:
        before = asyncio.create_task(manager.execute(POOL, "before", **payment(stage, 1)))
        failed = await manager.execute_built(stage.lane, "bad", build, build_within_s=0.3)
        after = await manager.execute(POOL, "after", **payment(stage, 2))
        await before
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error["code"] == "not_built"
    assert word in failed.error["message"]
    assert "secret" not in failed.error["message"]
    assert (await stage.read("bad")).attempts == ()
    assert after.status is Status.DONE
    assert stage.amounts() == [1, 2]


async def test_a_callback_that_fails_is_asked_once_also_when_its_intent_came_with_the_wake_up(stage: Stage) -> None:
    asked: list[int] = []

    async def build(slot: Slot) -> Built:
        asked.append(slot.nonce)
        raise RuntimeError

    async with embedded(stage) as manager:
        await manager.execute(POOL, "before", **payment(stage, 1))
        await asyncio.sleep(0.1)  # the worker is subscribed, and has nothing to take
        failed = await manager.execute_built(stage.lane, "bad", build)
    assert (failed.error or {})["code"] == "not_built"
    assert len(asked) == 1


async def test_a_builder_that_died_before_the_write_ahead_costs_its_build_time_and_nothing_else(stage: Stage) -> None:
    """The intent is accepted, its process gone: whoever owns the lane next fails it and goes on."""

    async def never(_: Slot) -> Built:
        await asyncio.sleep(60)
        raise AssertionError

    chain = make_chain(stage.devnet.url, [stage.account])
    service = Service(LaneSpec(stage.lane, POOL), chain, POLICY)
    manager = TxManager(stage.ledger, {stage.lane: service}, timing=TIMING)
    assert manager.worker is not None
    task = asyncio.create_task(manager.worker.run())
    await until(lambda: manager.worker is not None and manager.worker.owned, what="the lane is owned")
    call = asyncio.create_task(manager.execute_built(stage.lane, "orphan", never, build_within_s=1.0))
    await until(lambda: known(stage, "orphan"), what="it is accepted")
    for dying in (call, task):
        dying.cancel()
    await asyncio.gather(call, task, return_exceptions=True)
    await chain.close()

    await stage.start()
    [after] = await stage.submit(stage.transfer("after", 6))
    await stage.done([after])
    orphan = await stage.read("orphan")
    assert (orphan.status, orphan.attempts) == (Status.FAILED, ())
    assert orphan.outcome is not None
    assert orphan.outcome.error is not None
    assert orphan.outcome.error["code"] == "not_built"
    assert stage.amounts() == [6]


async def test_execute_built_is_refused_where_the_lane_is_not_run(stage: Stage) -> None:
    async def build(_: Slot) -> Built:
        raise AssertionError

    with pytest.raises(NotAllowed, match="not run by this process"):
        await stage.manager.execute_built(lane_of(stage.account), "k", build)


async def test_embedding_programs_are_held_to_the_pools_policy_too(stage: Stage) -> None:
    """Whoever runs the manager in its own process still takes over its account only where the policy says so."""
    key = stage.receiver["public_key"]
    account = str(stage.account["account_id"])
    taken = {"receiver_id": account, "actions": [{"type": "delete_account", "beneficiary_id": "dev0.near"}]}

    async def build(_: Slot) -> Built:
        return Built("near.transaction", taken)

    async with embedded(stage) as manager:
        plain = await manager.execute(POOL, "plain", kind="near.add_key", payload={"public_key": key})
        built = await manager.execute_built(stage.lane, "built", build)
        after = await manager.execute(POOL, "after", **payment(stage, 2))
    assert (plain.status, (plain.error or {})["code"]) == (Status.FAILED, "own_account_refused")
    assert (built.status, (built.error or {})["code"]) == (Status.FAILED, "not_built")
    assert "own account" in (built.error or {})["message"]
    assert after.status is Status.DONE
    assert stage.amounts() == [2]
