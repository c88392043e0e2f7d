"""Funds on a real EVM node: what asks for too much ends alone, what is poor waits, and nobody else notices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.evm.stage import POLICY, Stage, new_signer
from tests.runtime.stage import metric
from txmanager.core.models import Purpose
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause
from txmanager.rpc.errors import RpcError

ETHER = 10**18
MEANS_MUCH = replace(POLICY, max_deposit=10 * ETHER)


async def warm(stage: Stage) -> None:
    """From here on the lane knows its balance, and does not look again before it has a reason to."""
    await stage.submit(stage.transfer("warm", 0))
    await stage.until_done("warm")


def code_of(record) -> str:
    return str(record.outcome.error["code"])


@pytest.mark.parametrize(
    "payload",
    [
        {"value": str(10**27)},
        {"value": str(10**27), "gas": 21_000},
        {"value": str(10**27), "gas": 21_000, "simulate": False},
        {"value": str(2**256 - 1)},
        {"value": "1", "gas": 2**60, "simulate": False},
    ],
)
async def test_what_costs_more_than_the_whole_balance_fails_alone(make_anvil, payload):
    anvil = make_anvil()  # a new one: the base fee of a shared one falls with every block, and with it the price of gas
    async with Stage(anvil, [new_signer()]) as stage:
        greedy = stage.intent("greedy", "evm.transaction", {"to": stage.receiver, **payload})
        await stage.submit(stage.transfer("a"), greedy, stage.transfer("b"))
        await stage.until_done("a", "b")
        record = await stage.until_status("greedy", Status.FAILED)
        assert (code_of(record), record.outcome.error["spent"]) == ("insufficient_funds", "0")
        assert record.attempts == ()
        assert stage.received() == 2
        assert anvil.count(stage.signer.address) == 2
        assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""


async def test_a_node_that_cannot_estimate_as_if_rich_stops_nobody_either(anvil, monkeypatch):
    """Without state overrides nobody knows what it costs; what it moves alone is more than there is."""
    from txmanager.chains.evm import simulation

    async def unable(rpc, lane, body, group, first: RpcError):
        return first

    monkeypatch.setattr(simulation, "_as_if_rich", unable)
    async with Stage(anvil, [new_signer()]) as stage:
        greedy = stage.intent("greedy", "evm.transaction", {"to": stage.receiver, "value": str(10**27)})
        await stage.submit(greedy, stage.transfer("a"))
        await stage.until_done("a")
        assert code_of(await stage.until_status("greedy", Status.FAILED)) == "insufficient_funds"


async def test_what_fits_the_balance_but_not_beside_its_neighbours_waits_its_turn(make_anvil):
    """Gas is set aside at its cap and mostly given back: a balance for two or three pays for any number in turn."""
    anvil = make_anvil("--block-time", "1")
    stage = Stage(anvil, [new_signer()])
    anvil.fund(stage.signer.address, ETHER // 40)
    async with stage:
        payload = {"to": stage.receiver, "value": "1", "gas": 5_000_000, "simulate": False}
        await stage.submit(*[stage.intent(f"k{n}", "evm.transaction", payload) for n in range(8)])
        await stage.until_done(*[f"k{n}" for n in range(8)])
        assert stage.received() == 8
        assert metric(stage.worker, "sends_total", verdict="insufficient_funds") == 0, "no node had to say no"
        assert [a.nonce for n in range(8) for a in (await stage.record(f"k{n}")).attempts] == list(range(8))


async def test_funds_that_went_after_signing_end_the_lowest_nonce_alone(make_anvil):
    anvil = make_anvil()
    async with Stage(anvil, [new_signer()], policy=replace(POLICY, window=4)) as stage:
        await warm(stage)
        anvil.rpc("evm_setAutomine", False)
        anvil.fund(stage.signer.address, ETHER // 2)  # behind the lane's back
        await stage.submit(stage.transfer("dear", ETHER), *[stage.transfer(f"k{n}") for n in range(3)])
        killed = await stage.until_attempts("dear", 2)
        assert [a.purpose for a in killed.attempts] == [Purpose.FIRST, Purpose.NOOP]
        anvil.rpc("evm_setIntervalMining", 1)
        dear = await stage.until_status("dear", Status.FAILED)
        assert code_of(dear) == "insufficient_funds"
        assert dear.attempts[0].proof is not None
        await stage.until_done("k0", "k1", "k2")
        assert stage.received() == 3
        assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""


async def test_a_poor_lane_pauses_fails_nobody_and_goes_on_after_a_top_up(anvil):
    stage = Stage(anvil, [new_signer()], policy=MEANS_MUCH)
    anvil.fund(stage.signer.address, ETHER)
    async with stage:
        await stage.submit(stage.transfer("dear", 2 * ETHER), stage.transfer("b"))
        lane = await stage.until_lane(LaneState.PAUSED)
        assert (lane.cause, lane.evidence["purse"]) == (PauseCause.FUNDS, "account")
        assert [(await stage.record(key)).status for key in ("dear", "b")] == [Status.QUEUED] * 2
        anvil.fund(stage.signer.address, 3 * ETHER)
        await stage.until_done("dear", "b")
        await stage.until_lane(LaneState.ACTIVE)


async def test_cancelling_what_the_lane_waits_for_brings_it_back(anvil):
    stage = Stage(anvil, [new_signer()], policy=MEANS_MUCH)
    anvil.fund(stage.signer.address, ETHER)
    async with stage:
        await stage.submit(stage.transfer("dear", 2 * ETHER), stage.transfer("b"))
        await stage.until_lane(LaneState.PAUSED)
        await stage.manager.cancel((await stage.record("dear")).id)
        await stage.until_done("b")
        await stage.until_lane(LaneState.ACTIVE)
        assert stage.received() == 1


async def test_cancelling_what_was_signed_and_cannot_be_paid_brings_the_lane_back(anvil):
    async with Stage(anvil, [new_signer()], policy=MEANS_MUCH) as stage:
        await warm(stage)
        anvil.fund(stage.signer.address, ETHER)  # behind the lane's back
        await stage.submit(stage.transfer("dear", 2 * ETHER), stage.transfer("b"))
        await stage.until_lane(LaneState.PAUSED)
        dear = await stage.record("dear")
        assert dear.status is Status.INFLIGHT
        await stage.manager.cancel(dear.id)
        await stage.until_status("dear", Status.CANCELLED)
        await stage.until_done("b")
        await stage.until_lane(LaneState.ACTIVE)
        assert stage.received() == 1
