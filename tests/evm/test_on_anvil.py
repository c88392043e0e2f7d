"""Lanes on a real anvil: what lands, what fails before a nonce, what comes back after drops, restarts and reorgs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.evm.machines import Anvil
from tests.evm.stage import CHAIN_ID, PATIENT, POOL, REVERTS, Stage, new_signer
from tests.waiting import until
from txmanager.chains.evm import EvmChain
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.core.errors import InvalidInput, Misconfigured
from txmanager.core.models import intent_id
from txmanager.core.states import LaneState, Status
from txmanager.rpc.endpoint import Endpoint

GWEI = 10**9
PING = "0x600a600c600039600a6000f3602a60005260206000f3"
"""Init code of a contract that answers 42."""


def foreign(stage: Stage, nonce: int, *, gwei: int = 50) -> str:
    """A transaction of the lane's own key that txmanager did not sign."""
    body = Body(bytes.fromhex(stage.receiver[2:]), 7, b"", 21_000)
    return "0x" + sign_any(CHAIN_ID, nonce, Fees(gwei * GWEI, gwei * GWEI), body, stage.signer).raw.hex()


async def test_transfers_land_once_in_order_and_a_repeat_gets_the_stored_outcome(anvil):
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(*(stage.transfer(f"k{n}", n + 1) for n in range(40)))
        records = await stage.until_done(*(f"k{n}" for n in range(40)))
        assert [r.outcome.nonce for r in records] == list(range(40))
        assert stage.received() == sum(range(41))
        await stage.submit(stage.transfer("k3", 4))
        assert (await stage.record("k3")).outcome == records[3].outcome
        assert stage.received() == sum(range(41))
        told = anvil.rpc("eth_getTransactionReceipt", records[0].outcome.tx_hash)
        assert records[0].outcome.result["gas_used"] == "21000"
        assert records[0].outcome.result["block_hash"] == told["blockHash"]


@pytest.mark.parametrize("type", [0, 1, 2])
async def test_every_type_lands(anvil, type):
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(stage.intent("a", "evm.transaction", {"to": stage.receiver, "value": 5, "type": type}))
        [record] = await stage.until_done("a")
        told = anvil.rpc("eth_getTransactionByHash", record.outcome.tx_hash)
        assert int(told["type"], 16) == type
        assert stage.received() == 5


async def test_a_delegation_of_another_account_lands(anvil):
    """Type 4: somebody's signed authorization, paid for by the lane."""
    from eth_account import Account

    user = Account.create()
    signed = user.sign_authorization({"chainId": CHAIN_ID, "address": "0x" + "11" * 20, "nonce": 0})
    entry = {"chain_id": CHAIN_ID, "address": "0x" + "11" * 20, "nonce": 0, "y_parity": signed.y_parity}
    entry |= {"r": str(signed.r), "s": str(signed.s)}
    async with Stage(anvil, [new_signer()]) as stage:
        payload = {"to": stage.receiver, "type": 4, "authorization_list": [entry]}
        await stage.submit(stage.intent("a", "evm.transaction", payload))
        await stage.until_done("a")
        assert anvil.rpc("eth_getCode", user.address, "latest") == "0xef0100" + "11" * 20


async def test_a_contract_is_created_and_called(anvil):
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(stage.intent("make", "evm.transaction", {"data": PING}))
        [made] = await stage.until_done("make")
        address = made.outcome.result["contract_address"]
        assert anvil.rpc("eth_getCode", address, "latest") != "0x"
        await stage.submit(stage.intent("call", "evm.transaction", {"to": address, "data": "0x00"}))
        await stage.until_done("call")


async def test_a_revert_fails_before_a_nonce_is_taken(anvil):
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(
            stage.intent("bad", "evm.transaction", {"data": REVERTS}),
            stage.intent("bad-gas", "evm.transaction", {"data": REVERTS, "gas": 100_000}),
            stage.intent("wrong", "evm.transaction", {"to": "0x12"}),
            stage.intent("near", "near.transfer", {"receiver_id": "a.near", "amount": "1"}),
            stage.transfer("good"),
        )
        for key, code in (("bad", "reverted"), ("bad-gas", "reverted"), ("wrong", "invalid_intent")):
            record = await stage.until_status(key, Status.FAILED)
            assert record.outcome.error["code"] == code
            assert record.attempts == ()
            assert record.outcome.error["spent"] == "0"
        assert (await stage.until_status("near", Status.FAILED)).outcome.error["field"] == "kind"
        [good] = await stage.until_done("good")
        assert good.outcome.nonce == 0


async def test_a_revert_on_chain_fails_with_what_it_cost(anvil):
    async with Stage(anvil, [new_signer()]) as stage:
        payload = {"data": REVERTS, "gas": 100_000, "simulate": False}
        await stage.submit(stage.intent("bad", "evm.transaction", payload), stage.transfer("good"))
        record = await stage.until_status("bad", Status.FAILED)
        assert record.outcome.error["code"] == "reverted"
        assert int(record.outcome.error["spent"]) > 0
        [good] = await stage.until_done("good")
        assert good.outcome.nonce == 1


async def test_a_price_the_caller_forbids_fails_before_a_nonce_is_taken(anvil):
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(stage.intent("a", "evm.transfer", {"to": stage.receiver, "value": 1, "max_fee_per_gas": 1}))
        record = await stage.until_status("a", Status.FAILED)
        assert record.outcome.error["code"] == "fee_limit_too_low"
        assert anvil.count(stage.signer.address) == 0


async def test_a_lane_without_funds_pauses_and_goes_on_when_it_is_funded(anvil):
    async with Stage(anvil, [new_signer()]) as stage:
        anvil.fund(stage.signer.address, 1000)
        await stage.submit(stage.transfer("a", 10**18), stage.transfer("b"))
        lane = await stage.until_lane(LaneState.PAUSED)
        assert lane.reason == "insufficient_funds"
        assert not (await stage.record("a")).status.final
        anvil.fund(stage.signer.address, 10**20)
        await stage.until_done("a", "b")
        await stage.until_lane(LaneState.ACTIVE)


async def test_a_stuck_transaction_is_replaced_and_its_first_hash_still_finds_the_record(make_anvil):
    anvil = make_anvil("--no-mining")
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a"), stage.transfer("b"))
        record = await stage.until_attempts("a", 3)
        assert {a.nonce for a in record.attempts} == {0}
        fees = [(int(a.terms["max_fee_per_gas"]), int(a.terms["max_priority_fee_per_gas"])) for a in record.attempts]
        for older, newer in pairwise(fees):
            assert newer[0] * 100 >= older[0] * 112
            assert newer[1] > older[1]
        assert len((await stage.record("b")).attempts) == 1  # only the lowest nonce is bumped
        anvil.rpc("evm_setAutomine", True)
        anvil.rpc("evm_mine")
        [a, _] = await stage.until_done("a", "b")
        assert a.outcome.tx_hash in {attempt.hash for attempt in a.attempts}
        assert a.outcome.tx_hash != a.attempts[0].hash
        assert stage.received() == 2


async def test_no_price_passes_the_cap(make_anvil):
    anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()])
    stage.network = type(stage.network)(finality=1, max_fee=3 * GWEI, fees_fresh_s=0.0)
    async with stage:
        await stage.submit(stage.transfer("a"))
        await until(lambda: stage.worker.metrics.priced_out.labels(stage.lane_id)._value.get() > 0, 20.0)
        record = await stage.record("a")
        assert all(int(a.terms["max_fee_per_gas"]) <= 3 * GWEI for a in record.attempts)
        anvil.rpc("evm_mine")
        await stage.until_done("a")


async def test_what_a_pool_dropped_is_sent_again_with_its_descendants(make_anvil):
    anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage:
        await stage.submit(*(stage.transfer(f"k{n}") for n in range(5)))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x5", 10.0)
        first = (await stage.record("k0")).attempts[0].hash
        anvil.rpc("anvil_dropTransaction", first)
        await until(lambda: anvil.rpc("txpool_status") == {"pending": "0x5", "queued": "0x0"}, 10.0)
        anvil.rpc("evm_mine")
        records = await stage.until_done(*(f"k{n}" for n in range(5)))
        assert all(len(r.attempts) == 1 for r in records)
        assert stage.received() == 5


async def test_a_base_fee_that_evicts_is_outbid(make_anvil):
    anvil = make_anvil("--no-mining")
    async with Stage(anvil, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a"))
        [first] = (await stage.until_attempts("a", 1)).attempts
        anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(20 * int(first.terms["max_fee_per_gas"])))
        anvil.rpc("evm_mine")
        anvil.rpc("evm_setIntervalMining", 1)
        [record] = await stage.until_done("a")
        assert record.outcome.tx_hash != first.hash
        assert stage.received() == 1


async def test_a_restarted_node_lost_its_pool_and_nothing_of_ours_is_lost(make_anvil):
    anvil: Anvil = make_anvil("--no-mining", state=True)
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage:
        await stage.submit(*(stage.transfer(f"k{n}") for n in range(3)))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x3", 10.0)
        anvil.rpc("evm_mine")
        await stage.until_done("k0", "k1", "k2")
        await stage.submit(*(stage.transfer(f"m{n}") for n in range(5)))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x5", 10.0)
        before = anvil.dumped()
        await until(lambda: anvil.dumped() > before, 10.0, what="the state is on disk")
        anvil.kill()
        anvil.start()
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x5", 20.0)
        anvil.rpc("evm_mine")
        await stage.until_done(*(f"m{n}" for n in range(5)))
        assert stage.received() == 8


@pytest.mark.parametrize("depth", [1, 3, 5])
async def test_a_reorg_sends_the_same_bytes_again(make_anvil, depth):
    anvil = make_anvil()
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    stage.network = type(stage.network)(finality=8, max_fee=10_000 * GWEI, fees_fresh_s=0.0)
    async with stage:
        anvil.rpc("anvil_mine", "0x8")
        for n in range(6):
            await stage.submit(stage.transfer(f"k{n}"))
            await until(lambda n=n: anvil.count(stage.signer.address) == n + 1, 10.0)
        before = [[a.name for a in (await stage.record(f"k{n}")).attempts] for n in range(6)]
        anvil.rpc("anvil_reorg", depth, [])
        await until(lambda: anvil.count(stage.signer.address) == 6, 10.0, what="sent again")
        anvil.rpc("anvil_mine", "0x8")
        records = await stage.until_done(*(f"k{n}" for n in range(6)))
        assert [[a.name for a in r.attempts] for r in records] == before
        assert stage.received() == 6


async def test_a_reorg_beyond_finality_quarantines_the_lane_and_changes_no_record(make_anvil):
    anvil = make_anvil()
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage:
        for n in range(3):
            await stage.submit(stage.transfer(f"k{n}"))
            await stage.until_done(f"k{n}")
        before = [(await stage.record(f"k{n}")).outcome for n in range(3)]
        anvil.rpc("anvil_reorg", 2, [])
        await stage.submit(stage.transfer("next"))
        lane = await stage.until_lane(LaneState.QUARANTINED)
        assert lane.reason == "reorg_beyond_finality"
        assert [(await stage.record(f"k{n}")).outcome for n in range(3)] == before


async def test_foreign_use_of_a_nonce_quarantines_the_lane_alone_and_a_rebaseline_goes_on(make_anvil):
    anvil = make_anvil()
    stage = Stage(anvil, [new_signer(), new_signer()], policy=PATIENT)
    async with stage:
        warm = [f"w{n}" for n in range(12)]
        await stage.submit(*(stage.transfer(key) for key in warm))
        await stage.until_done(*warm)
        used = anvil.count(stage.signer.address)
        anvil.rpc("eth_sendRawTransaction", foreign(stage, used))
        keys = [f"k{n}" for n in range(12)]
        await stage.submit(*(stage.transfer(key) for key in keys))
        lane = await stage.until_lane(LaneState.QUARANTINED)
        assert lane.reason == "foreign_nonce_use"
        assert lane.evidence["final_nonce"] == str(used)
        other = [key for key in keys if (await stage.record(key)).lane != stage.lane_id]
        assert other
        await stage.until_done(*other)
        assert (await stage.lane((await stage.record(other[0])).lane)).state is LaneState.ACTIVE
        await stage.manager.rebaseline(stage.lane_id)
        await stage.until_done(*keys)
        assert stage.received() == 7 + len(warm) + len(keys)


async def test_an_intent_in_flight_is_cancelled_by_a_recorded_self_transfer(make_anvil):
    anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage:
        await stage.submit(stage.transfer("a", 5), stage.transfer("b", 7))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x2", 10.0)
        await stage.manager.cancel(intent_id("a", POOL))
        record = await stage.until_attempts("a", 2)
        assert [a.purpose for a in record.attempts] == ["first", "noop"]
        assert {a.nonce for a in record.attempts} == {0}
        await until(lambda: anvil.rpc("eth_getTransactionByHash", record.attempts[1].hash), 10.0)
        anvil.rpc("evm_mine")
        cancelled = await stage.until_status("a", Status.CANCELLED, Status.DONE)
        assert cancelled.status is Status.CANCELLED
        await stage.until_done("b")
        assert stage.received() == 7
        assert anvil.count(stage.signer.address) == 2


async def test_a_cancel_that_comes_too_late_ends_done(make_anvil):
    anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    stage.network = type(stage.network)(finality=3, max_fee=10_000 * GWEI, fees_fresh_s=0.0)
    async with stage:
        await stage.submit(stage.transfer("a", 5))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x1", 10.0)
        anvil.rpc("evm_mine")
        await stage.manager.cancel(intent_id("a", POOL))
        anvil.rpc("anvil_mine", "0x3")
        record = await stage.until_status("a", Status.CANCELLED, Status.DONE)
        assert record.status is Status.DONE
        assert stage.received() == 5


@pytest.mark.alone
async def test_bytes_go_to_every_node_and_one_that_hangs_costs_nothing(make_anvil):
    first, second = make_anvil(), make_anvil("--no-mining")
    signer = new_signer()
    second.fund(signer.address)
    stage = Stage(first, [signer], urls=[first.url, second.url])
    async with stage:
        await stage.submit(stage.transfer("a"))
        await stage.until_done("a")
        await until(lambda: second.rpc("txpool_status")["pending"] == "0x1", 5.0)
        second.hang()
        began = asyncio.get_running_loop().time()
        await stage.submit(*(stage.transfer(f"k{n}") for n in range(5)))
        await stage.until_done(*(f"k{n}" for n in range(5)))
        assert asyncio.get_running_loop().time() - began < 2.0
        second.resume()


async def test_a_node_of_another_chain_is_refused_before_anything_is_signed(anvil):
    signer = new_signer()
    lane = f"evm:5:{signer.address}"
    chain = EvmChain(5, [Endpoint(anvil.url)], {lane: signer})
    with pytest.raises(Misconfigured, match="serves chain 31337, not 5"):
        await chain.nonce(lane)
    with pytest.raises(InvalidInput, match="not of the chain 5"):
        await chain.look_up(f"evm:6:{signer.address}", [(None, None)])
    await chain.close()


async def test_a_node_of_another_chain_beside_a_right_one_is_left_out_and_stops_nobody(anvil, make_anvil):
    stray = make_anvil("--chain-id", "5")
    signer = new_signer()
    lane = f"evm:31337:{signer.address}"
    chain = EvmChain(31337, [Endpoint(stray.url), Endpoint(anvil.url)], {lane: signer}, agreement=1)
    assert (await chain.nonce(lane)).next_nonce == 0
    assert [node.ready for node in chain.rpc.nodes] == [False, True]
    assert await chain.counts(signer.address) == (0, 0)
    await chain.close()


async def test_bytes_no_node_will_take_are_killed_by_a_no_op_and_the_lane_goes_on(make_anvil):
    anvil = make_anvil()
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage:
        anvil.fund(stage.signer.address, 10**25)  # it can pay for so much gas, but no block has it
        payload = {"to": stage.receiver, "gas": 2**40, "simulate": False}
        await stage.submit(stage.intent("bad", "evm.transaction", payload), stage.transfer("good"))
        bad = await stage.until_status("bad", Status.FAILED, Status.DONE)
        assert bad.status is Status.FAILED
        assert bad.outcome.error["code"] == "rejected"
        assert [a.purpose for a in bad.attempts] == ["first", "noop"]
        [good] = await stage.until_done("good")
        assert good.outcome.nonce == 1
        assert stage.received() == 1


async def test_a_held_nonce_holds_its_lane_until_it_lands(make_anvil):
    anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()], policy=replace(PATIENT, hold_after_ms=1_500))
    async with stage:
        await stage.submit(stage.transfer("a"))
        held = await stage.until_status("a", Status.HELD)
        assert held.hold["reason"] == "no_proof"
        lane = await stage.until_lane(LaneState.PAUSED)
        assert "a" in lane.reason
        anvil.rpc("evm_setAutomine", True)
        anvil.rpc("evm_mine")
        await stage.until_done("a")
        await stage.until_lane(LaneState.ACTIVE)
        await stage.submit(stage.transfer("b"))
        await stage.until_done("b")
        assert stage.received() == 2


async def test_many_addresses_share_the_work_and_keep_their_own_order(anvil):
    """Four hundred transfers over eight lanes: no lane waits for another."""
    stage = Stage(anvil, [new_signer() for _ in range(8)])
    async with stage:
        keys = [f"k{n}" for n in range(400)]
        await stage.manager.submit_many([stage.transfer(key) for key in keys])
        records = await stage.until_done(*keys, timeout=60.0)
        assert stage.received() == 400
        for signer in stage.signers:
            mine = [r.outcome.nonce for r in records if r.lane.endswith(signer.address)]
            assert sorted(mine) == list(range(len(mine)))
            assert mine == sorted(mine)


async def test_an_outcome_waits_for_the_finalized_block(make_anvil):
    """The tag, not a depth: included is not enough, and a cancel is proven at the same block."""
    anvil = make_anvil("--no-mining", "--slots-in-an-epoch", "1")
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    stage.network = type(stage.network)(finality="finalized", max_fee=10_000 * GWEI, fees_fresh_s=0.0)
    async with stage:
        await stage.submit(stage.transfer("a", 5), stage.transfer("b", 7))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x2", 10.0)
        await stage.manager.cancel(intent_id("b", POOL))
        noop = (await stage.until_attempts("b", 2)).attempts[-1]
        await until(lambda: anvil.rpc("eth_getTransactionByHash", noop.hash), 10.0)
        anvil.rpc("evm_mine")
        included = anvil.number("eth_blockNumber")
        assert int(anvil.rpc("eth_getBlockByNumber", "finalized", False)["number"], 16) < included
        lane = stage.worker._held[stage.lane_id].lane
        await until(lambda: [f.landed for f in lane.plan.flights][:1] == [True], 10.0, what="seen included")
        assert (await stage.record("a")).status is Status.INFLIGHT
        anvil.rpc("anvil_mine", "0x4")
        assert int(anvil.rpc("eth_getBlockByNumber", "finalized", False)["number"], 16) >= included
        await stage.until_done("a")
        assert (await stage.until_status("b", Status.CANCELLED, Status.DONE)).status is Status.CANCELLED
        assert stage.received() == 5
