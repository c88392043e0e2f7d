"""What nodes and networks do to a lane: every accident ends with one effect per intent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.relay import Answer, Forward, RpcRelay, hash_of, refuse
from tests.runtime.stage import POLICY, Stage, metric
from tests.waiting import until
from txmanager.core.states import LaneState, Status
from txmanager.rpc.endpoint import Endpoint


async def test_a_429_then_invalid_nonce_although_the_first_send_landed_is_a_success_by_hash(stage: Stage) -> None:
    async def limited_after_all(_: dict[str, Any], forward: Forward) -> Answer:
        await forward()
        return Answer(429, None)

    async def too_low(_: dict[str, Any], __: Forward) -> Answer:
        return refuse({"InvalidNonce": {"tx_nonce": 1, "ak_nonce": 2}})

    async def unknown_for_long(request: dict[str, Any], forward: Forward) -> Answer:
        probed = sum(method == "send_tx" for method, _ in relay.calls)
        return await forward() if probed else unknown(request["params"]["tx_hash"])

    bend = {"broadcast_tx_async": limited_after_all, "send_tx": too_low, "EXPERIMENTAL_tx_status": unknown_for_long}
    async with RpcRelay(stage.devnet.url, bend) as relay:
        running = await stage.start(url=relay.url, policy=replace(POLICY, include_within_ms=20))
        [record] = await stage.done(await stage.submit(stage.transfer("a", 42)))
        assert len(relay.sent("broadcast_tx_async")) >= 1
    assert metric(running.worker, "sends_total", verdict="rate_limited") >= 1
    assert [a.hash for a in record.attempts] == [t.hash for t in stage.landed()]
    assert stage.amounts() == [42]
    assert (await stage.until_lane(LaneState.ACTIVE)).reason == ""


def unknown(tx_hash: str) -> Answer:
    cause = {"name": "UNKNOWN_TRANSACTION", "info": {"requested_transaction_hash": tx_hash}}
    body = {"name": "HANDLER_ERROR", "cause": cause, "code": -32000, "message": "Server error", "data": "unknown"}
    return Answer(200, {"error": body})


async def test_an_invalid_nonce_of_a_lagging_node_is_not_believed(stage: Stage) -> None:
    """It says that the nonce is too low and does not know the hash; a final reading proves nothing of the kind."""
    refused = 0

    async def swallow(request: dict[str, Any], forward: Forward) -> Answer:
        if refused < 2:
            return Answer(200, {"result": hash_of(request["params"][0])})
        return await forward()

    async def too_low(_: dict[str, Any], forward: Forward) -> Answer:
        nonlocal refused
        refused += 1
        return refuse({"InvalidNonce": {"tx_nonce": 1, "ak_nonce": 2}}) if refused <= 2 else await forward()

    async with RpcRelay(stage.devnet.url, {"broadcast_tx_async": swallow, "send_tx": too_low}) as relay:
        await stage.start(url=relay.url, policy=replace(POLICY, include_within_ms=200))
        [record] = await stage.done(await stage.submit(stage.transfer("a", 42)))
    assert refused >= 3
    assert len(record.attempts) == 1, "the same bytes landed in the end"
    assert stage.amounts() == [42]


async def test_a_lagging_node_delays_and_breaks_nothing(stage: Stage) -> None:
    stage.devnet.fault("lag", blocks=15)
    await stage.start()
    records = await stage.done(await stage.submit(*stage.transfers(20)), timeout=40)
    stage.devnet.clear_faults()
    assert [len(r.attempts) for r in records] == [1] * 20
    assert stage.amounts() == list(range(1, 21))


async def test_nodes_that_disagree_from_answer_to_answer_break_nothing(stage: Stage) -> None:
    stage.devnet.fault("disagree", blocks=10)
    await stage.start()
    await stage.done(await stage.submit(*stage.transfers(20)), timeout=40)
    stage.devnet.clear_faults()
    assert sorted(stage.amounts()) == list(range(1, 21))


async def test_a_whole_window_lost_by_a_node_is_sent_again_with_the_same_bytes(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"], count=8)
    running = await stage.start(policy=replace(POLICY, window=8))
    records = await stage.done(await stage.submit(*stage.transfers(8)))
    assert [len(r.attempts) for r in records] == [1] * 8
    assert stage.amounts() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert metric(running.worker, "rebroadcasts_total") >= 7


async def test_reordered_deliveries_kill_some_and_every_intent_still_lands_once(stage: Stage) -> None:
    stage.devnet.fault("reorder", signer_id=stage.account["account_id"], ms=120)
    running = await stage.start(policy=replace(POLICY, window=8))
    ids = await stage.submit(*stage.transfers(40))
    await until(lambda: metric(running.worker, "overtaken_total") >= 3, 30, what="some are overtaken")
    stage.devnet.clear_faults()
    records = await stage.done(ids, timeout=60)
    assert sorted(stage.amounts()) == list(range(1, 41))
    firsts = [r.attempts[0].nonce for r in records]
    assert firsts == sorted(firsts), "first attempts were signed in the order of acceptance"


@pytest.mark.parametrize("kind", ["rate_limit", "http_error", "error", "disconnect"])
async def test_a_node_that_fails_for_a_while_costs_time_only(stage: Stage, kind: str) -> None:
    stage.devnet.fault(kind, probability=0.3, count=40)
    await stage.start(url=[Endpoint(stage.devnet.url)])
    records = await stage.done(await stage.submit(*stage.transfers(15)), timeout=40)
    stage.devnet.clear_faults()
    assert [len(r.attempts) for r in records] == [1] * 15
    assert stage.amounts() == list(range(1, 16))


async def test_a_refusal_inside_a_pipeline_of_a_direct_node_costs_a_re_sign_at_most(stage: Stage) -> None:
    stage.devnet.fault("rate_limit", method="broadcast_tx_async", probability=0.2, count=10)
    await stage.start()
    await stage.done(await stage.submit(*stage.transfers(40)), timeout=40)
    stage.devnet.clear_faults()
    assert sorted(stage.amounts()) == list(range(1, 41))


async def test_congestion_is_waited_out_with_the_same_bytes(stage: Stage) -> None:
    fault = stage.devnet.fault("congestion", signer_id=stage.account["account_id"], level=1.0)
    running = await stage.start(policy=replace(POLICY, include_within_ms=200))
    ids = await stage.submit(*stage.transfers(4))
    await until(lambda: metric(running.worker, "sends_total", verdict="busy") >= 1, what="a node said why")
    assert (await stage.read(ids[0])).status is Status.INFLIGHT
    stage.devnet.admin(f"/faults/{fault['id']}", method="DELETE")
    records = await stage.done(ids)
    assert [len(r.attempts) for r in records] == [1] * 4
    assert stage.amounts() == [1, 2, 3, 4]


async def test_a_reorganisation_of_unfinal_blocks_settles_nothing_wrong(stage: Stage) -> None:
    await stage.start()
    ids = await stage.submit(*stage.transfers(30))
    for _ in range(6):
        head = stage.devnet.head()["height"]
        await until(lambda head=head: stage.devnet.head()["height"] > head + 1, what="the chain grows")  # type: ignore[misc]
        stage.devnet.admin("/reorg", {"depth": 2})
    records = await stage.done(ids, timeout=40)
    landed = {t.hash for t in stage.landed()}
    assert {r.outcome.tx_hash for r in records if r.outcome} <= landed
    assert sorted(stage.amounts()) == list(range(1, 31))


async def _has_cursor(stage: Stage) -> bool:
    lane = await stage.ledger.lane(stage.lane)
    return lane is not None and lane.cursor is not None


async def test_a_new_lane_waits_for_the_second_node_and_signs_nothing(stage: Stage) -> None:
    dead = Endpoint("http://127.0.0.1:9", direct=True, connect_timeout_s=0.5)
    running = await stage.start(url=[dead, Endpoint(stage.devnet.url, direct=True)])
    await stage.submit(*stage.transfers(1))
    await until(lambda: metric(running.worker, "stalled") == 1, what="the wait is visible")
    assert not await _has_cursor(stage)
    assert (await stage.read("k1")).status is Status.QUEUED


async def test_one_dead_endpoint_beside_a_live_one_costs_nothing_but_its_attempts(stage: Stage) -> None:
    running = await stage.start()  # a lane's very first nonce needs both nodes; a lane that has one does not
    await until(lambda: _has_cursor(stage), what="the lane has its first nonce")
    await running.stop()
    dead = Endpoint("http://127.0.0.1:9", direct=True, connect_timeout_s=0.5)
    await stage.start(url=[dead, Endpoint(stage.devnet.url, direct=True)])
    await stage.done(await stage.submit(*stage.transfers(10)))
    assert stage.amounts() == list(range(1, 11))


async def test_an_outage_of_every_node_is_survived_without_signing_anything_twice(stage: Stage) -> None:
    async with RpcRelay(stage.devnet.url) as relay:
        await stage.start(url=relay.url)
        ids = await stage.submit(*stage.transfers(40))
        await until(lambda: len(stage.amounts()) >= 5, what="some landed")

        async def down(_: dict[str, Any], __: Forward) -> None:
            return None

        methods = ("broadcast_tx_async", "send_tx", "query", "block", "EXPERIMENTAL_tx_status", "status", "tx")
        relay.bend = dict.fromkeys(methods, down)
        seen = len(relay.calls)
        await until(lambda: len(relay.calls) > seen + 5, what="the outage is noticed")
        relay.bend = {}
        records = await stage.done(ids, timeout=40)
    assert [len(r.attempts) for r in records] == [1] * 40
    assert stage.amounts() == list(range(1, 41))


async def test_a_slow_lane_never_slows_another(stage: Stage) -> None:
    other = next(stage.fresh)
    async with RpcRelay(stage.devnet.url) as relay:
        stuck = await stage.start(url=relay.url)
        await stage.start(other)

        async def hang(_: dict[str, Any], forward: Forward) -> Answer:
            await until(lambda: not relay.bend, 30)
            return await forward()

        relay.bend = {"broadcast_tx_async": hang}
        [slow] = await stage.submit(stage.transfer("slow", 5))
        await stage.until_status(slow, Status.INFLIGHT)
        pool = stage.pool_of(other)
        await stage.done(await stage.submit(*[stage.transfer(f"o{n}", n, pool=pool) for n in range(1, 11)]))
        assert (await stage.read(slow)).status is Status.INFLIGHT
        relay.bend = {}
        await stage.done([slow])
    assert stuck.owned
    assert stage.amounts(other) == list(range(1, 11))
