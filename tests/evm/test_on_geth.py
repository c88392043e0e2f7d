"""Lanes on a real geth: order, replacement, gaps, a pool too small, restarts with and without a journal, rollbacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.evm.stage import NETWORK, PATIENT, POLICY, POOL, Stage, new_signer
from tests.waiting import until
from txmanager.core.errors import NotAllowed
from txmanager.core.models import intent_id
from txmanager.core.states import LaneState, Status
from txmanager.runtime.care.replay import plan_replay, send_again

EACH_SECOND = ("--dev.period", "1")
DEEP = replace(NETWORK, finality=60)
"""Nothing is final while a test runs: a rollback is an ordinary reorg."""
TOO_CHEAP = replace(NETWORK, min_tip=1, max_fee=2)
"""Below the lowest base fee there is (7 wei): taken into the pool, never mined."""


async def test_transfers_land_once_in_order_and_a_repeat_gets_the_stored_outcome(make_geth):
    geth = make_geth(*EACH_SECOND)
    async with Stage(geth, [new_signer()]) as stage:
        keys = [f"k{n}" for n in range(40)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        records = await stage.until_done(*keys, timeout=60.0)
        assert [r.outcome.nonce for r in records] == list(range(40))
        await stage.submit(stage.transfer("k3"))
        assert (await stage.record("k3")).outcome == records[3].outcome
        assert stage.received() == 40


async def test_a_stuck_transaction_is_replaced_by_what_geth_takes(make_geth):
    """Its own rule of 10 % on both fees, and a base fee that the first price never reaches."""
    geth = make_geth(*EACH_SECOND)
    stage = Stage(geth, [new_signer()], policy=replace(POLICY, replace_after_ms=1_000), network=TOO_CHEAP)
    async with stage:
        await stage.submit(stage.transfer("a"))
        first = (await stage.until_attempts("a", 1)).attempts[0]
        await until(lambda: geth.pool() == (1, 0), 20.0, what="it waits in the pool")
        await stage.crash()
        stage.network = NETWORK
        await stage.start()
        [record] = await stage.until_done("a", timeout=60.0)
        assert len(record.attempts) >= 2
        assert record.outcome.tx_hash != first.hash
        assert stage.received() == 1


async def test_a_cancel_replaces_what_waits(make_geth):
    geth = make_geth(*EACH_SECOND)
    stage = Stage(geth, [new_signer()], policy=PATIENT, network=TOO_CHEAP)
    async with stage:
        await stage.submit(stage.transfer("a", 5))
        await until(lambda: geth.pool() == (1, 0), 20.0)
        await stage.crash()
        stage.network = NETWORK
        await stage.start()
        await stage.manager.cancel(intent_id("a", POOL))
        record = await stage.until_status("a", Status.CANCELLED, Status.DONE, timeout=60.0)
        assert record.status is Status.CANCELLED
        assert [a.purpose for a in record.attempts] == ["first", "noop"]
        assert stage.received() == 0


async def test_a_pool_too_small_for_the_window_loses_nothing_and_keeps_the_order(make_geth):
    """Four executable slots and two behind a gap for two lanes with a window of 16 each."""
    small = ("--txpool.globalslots", "4", "--txpool.globalqueue", "2", "--txpool.accountslots", "1")
    geth = make_geth(*EACH_SECOND, "--txpool.nolocals", *small)
    async with Stage(geth, [new_signer(), new_signer()], policy=PATIENT) as stage:
        keys = [f"k{n}" for n in range(24)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        records = await stage.until_done(*keys, timeout=90.0)
        for lane in {r.lane for r in records}:
            nonces = [r.outcome.nonce for r in records if r.lane == lane]
            assert nonces == list(range(len(nonces)))
        assert stage.received() == 24


async def test_what_asks_for_more_than_the_balance_fails_alone(make_geth):
    geth = make_geth(*EACH_SECOND)
    async with Stage(geth, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a"), stage.transfer("rich", 10**24), stage.transfer("b"))
        await stage.until_done("a", "b", timeout=60.0)
        rich = await stage.until_status("rich", Status.FAILED, Status.DONE)
        assert rich.status is Status.FAILED
        assert rich.attempts == ()
        assert stage.received() == 2


@pytest.mark.parametrize("journal", [True, False])
async def test_a_node_killed_under_load_loses_and_doubles_nothing(make_geth, journal):
    geth = make_geth(*EACH_SECOND, journal=journal)
    async with Stage(geth, [new_signer(), new_signer()], policy=PATIENT) as stage:
        keys = [f"k{n}" for n in range(60)]
        await stage.submit(*(stage.transfer(key) for key in keys[:30]))
        for _ in range(3):
            await until(lambda: sum(geth.pool()) > 0, 30.0, what="something waits in the pool")
            geth.kill()
            await stage.submit(*(stage.transfer(key) for key in keys[30:40]))
            geth.start()
        await stage.submit(*(stage.transfer(key) for key in keys[40:]))
        records = await stage.until_done(*keys, timeout=120.0)
        assert stage.received() == 60
        for signer in stage.signers:
            mine = sorted(r.outcome.nonce for r in records if r.lane.endswith(signer.address))
            assert mine == list(range(len(mine)))
            assert geth.count(signer.address) == len(mine)


async def test_a_rollback_before_finality_sends_the_same_bytes_again(make_geth):
    geth = make_geth(*EACH_SECOND)
    stage = Stage(geth, [new_signer()], policy=PATIENT, network=DEEP)
    async with stage:
        base = geth.number("eth_blockNumber")
        await stage.submit(*(stage.transfer(f"k{n}") for n in range(5)))
        await until(lambda: geth.count(stage.signer.address) == 5, 30.0, what="all are mined")
        before = [[a.hash for a in (await stage.record(f"k{n}")).attempts] for n in range(5)]
        geth.set_head(base)
        await until(lambda: geth.count(stage.signer.address) == 5, 60.0, what="mined again")
        assert [[a.hash for a in (await stage.record(f"k{n}")).attempts] for n in range(5)] == before
        assert (await stage.lane()).state is LaneState.ACTIVE
        assert stage.received() == 5


async def test_a_rollback_past_finality_quarantines_the_lane_and_changes_no_record(make_geth):
    geth = make_geth(*EACH_SECOND, "--txpool.nolocals")
    async with Stage(geth, [new_signer()], policy=PATIENT) as stage:
        base = geth.number("eth_blockNumber")
        keys = [f"k{n}" for n in range(4)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        before = [r.outcome for r in await stage.until_done(*keys, timeout=60.0)]
        geth.set_head(base)
        await stage.submit(stage.transfer("next"))
        lane = await stage.until_lane(LaneState.QUARANTINED, timeout=60.0)
        assert lane.reason == "reorg_beyond_finality"
        assert [(await stage.record(key)).outcome for key in keys] == before
        assert (await stage.record("next")).status is not Status.DONE


async def test_a_worker_killed_at_any_time_repeats_nothing(make_geth):
    geth = make_geth(*EACH_SECOND)
    stage = Stage(geth, [new_signer()], policy=PATIENT)
    async with stage:
        keys = [f"k{n}" for n in range(40)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        for wait in (5, 15, 25):
            await until(lambda wait=wait: geth.count(stage.signer.address, "pending") >= wait, 30.0)
            await stage.crash()
            await stage.start()
        records = await stage.until_done(*keys, timeout=90.0)
        assert [r.outcome.nonce for r in records] == list(range(40))
        assert stage.received() == 40


async def test_what_a_rollback_past_finality_undid_is_replayed_once(make_geth):
    geth = make_geth(*EACH_SECOND, "--txpool.nolocals")
    async with Stage(geth, [new_signer()], policy=PATIENT) as stage:
        base = geth.number("eth_blockNumber")
        keys = [f"k{n}" for n in range(20)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        before = [r.outcome for r in await stage.until_done(*keys, timeout=60.0)]
        with pytest.raises(NotAllowed, match="only a lane that is quarantined"):
            await plan_replay(stage.ledger, stage.chain, stage.lane_id)
        geth.set_head(base)
        await stage.submit(stage.transfer("next"))
        lane = await stage.until_lane(LaneState.QUARANTINED, timeout=60.0)
        assert "default/p/k0, default/p/k1" in lane.evidence["undone"]
        plan = await plan_replay(stage.ledger, stage.chain, stage.lane_id)
        assert [one.intent for one in plan.ready] == [f"default/p/{key}" for key in keys]
        assert (plan.next_nonce, plan.missing) == (0, ())
        for _ in range(2):  # repeating it is harmless
            assert await send_again(stage.chain, plan) is None
        await until(lambda: geth.count(stage.signer.address) >= 20, 60.0, what="mined again")
        await stage.manager.rebaseline(stage.lane_id)
        await stage.until_done("next", timeout=60.0)
        assert [(await stage.record(key)).outcome for key in keys] == before
        assert [geth.rpc("eth_getTransactionReceipt", end.tx_hash)["status"] for end in before] == ["0x1"] * 20
        assert stage.received() == 21
        assert geth.count(stage.signer.address) == 21


async def test_a_replay_stops_at_the_first_nonce_that_is_not_kept(make_geth):
    geth = make_geth(*EACH_SECOND, "--txpool.nolocals")
    async with Stage(geth, [new_signer()], policy=replace(PATIENT, keep_final_bytes=300)) as stage:
        base = geth.number("eth_blockNumber")
        keys = [f"k{n}" for n in range(6)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        await stage.until_done(*keys, timeout=60.0)
        geth.set_head(base)
        await stage.submit(stage.transfer("next"))
        await stage.until_lane(LaneState.QUARANTINED, timeout=60.0)
        plan = await plan_replay(stage.ledger, stage.chain, stage.lane_id)
        assert plan.ready == ()
        assert plan.missing[0] == 0
