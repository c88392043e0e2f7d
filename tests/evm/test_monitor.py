"""The monitor over real lanes on a real node: trouble is alerted and healed, and what is healthy is left alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from tests.evm.middleman import middleman
from tests.evm.stage import PATIENT, POLICY, POOL, Stage, lane_of, new_signer
from tests.evm.trouble import STORIES, foreign, until_based
from tests.evm.watch import LIMITS, PERIODS, Watch
from tests.waiting import until
from txmanager.chains.evm.transaction import read_raw
from txmanager.core.alerts import Alert
from txmanager.core.health import Limits
from txmanager.core.models import LaneSpec
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.lane import tracker

ETHER = 10**18
CHECKS = 1_000


@pytest.mark.parametrize("name", STORIES)
async def test_within_two_periods(name, make_anvil):
    await STORIES[name].story(make_anvil)


@pytest.mark.parametrize("name", STORIES)
async def test_not_without_its_guard(name, make_anvil):
    PERIODS.append(2.5)
    try:
        with STORIES[name].guard(), pytest.raises((AssertionError, TimeoutError)):
            await STORIES[name].story(make_anvil)
    finally:
        PERIODS.pop()


# -- what is healthy is left alone


async def healthy(make_anvil, checks: int, count: int = 30) -> None:
    """Traffic all the while, two addresses, every owner asked again and again."""
    anvil = make_anvil("--block-time", "1")
    policy = replace(POLICY, include_within_ms=30_000, replace_after_ms=30_000)
    with capture_logs() as logs:
        stage = Stage(anvil, [new_signer(), new_signer()], policy=policy)
        async with stage, Watch(stage, Limits(dropped_after_ms=1_000), logs=logs) as watch:
            watch.monitor._reconcile_every_s = 0.0  # each check is also a request to the owner
            keys = [f"k{n}" for n in range(count)]

            async def traffic() -> None:
                for key in keys:
                    await stage.submit(stage.transfer(key))
                    await asyncio.sleep(0.2)

            sending = asyncio.create_task(traffic())
            rounds = 0
            while rounds < checks // 2:  # two lanes, two checks in each round
                for health in await watch.monitor.check_all():
                    assert health.healthy, health
                rounds += 1
            await sending
            records = await stage.until_done(*keys)
            assert [len(record.attempts) for record in records] == [1] * len(keys)
            total = stage.worker.metrics.registry.get_sample_value
            for lane in map(lane_of, stage.signers):
                assert (
                    watch.monitor.metrics.registry.get_sample_value("txmanager_monitor_checks_total", {"lane": lane})
                    == checks // 2
                )
                for name in ("replacements", "fills", "stuck_cancels", "rebroadcasts", "priced_out"):
                    assert not total(f"txmanager_{name}_total", {"lane": lane}), name
            assert not watch.said("nonce alert")


async def test_a_healthy_address_is_never_touched_in_a_thousand_checks(make_anvil):
    await healthy(make_anvil, CHECKS)


async def test_a_needless_bump_would_be_counted(make_anvil):
    """The same with a lane that bumps whatever it looks at."""
    sound = tracker.decide

    def eager(record, seen, policy, traits, now):
        return sound(record, seen, replace(policy, replace_after_ms=200), traits, now)

    with patch.object(tracker, "decide", eager), pytest.raises(AssertionError):
        await healthy(make_anvil, 200, 4)


async def test_what_is_late_is_not_cancelled_unless_the_policy_says_so(make_anvil):
    anvil = make_anvil("--no-mining")
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage, Watch(stage, replace(LIMITS, stuck_after_ms=1, overdue_after_ms=1)) as watch:
        await stage.submit(stage.transfer("a"))
        await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x1", 10.0)
        for _ in range(20):
            assert Alert.OVERDUE in (await watch.round()).alerts
        await until(lambda: watch.owners("txmanager_checks_total") >= 1, 5.0)
        assert len((await stage.record("a")).attempts) == 1
        anvil.rpc("evm_mine")
        await stage.until_done("a")


async def test_a_monitor_that_starts_asks_every_owner_once_and_then_only_now_and_then(anvil):
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage, Watch(stage) as watch:
        for _ in range(3):
            await watch.round()
        assert watch.metric("txmanager_monitor_asks_total") == 1
        await until(lambda: watch.owners("txmanager_checks_total") == 1, 5.0)
        watch.monitor = watch.another()
        await watch.round()
        await until(lambda: watch.owners("txmanager_checks_total") == 2, 5.0)


async def test_foreign_use_while_the_monitor_was_down_is_found_at_its_start(make_anvil):
    anvil = make_anvil()
    stage = Stage(anvil, [new_signer()], policy=PATIENT)
    async with stage:
        await until_based(stage, 0)
        anvil.rpc("eth_sendRawTransaction", foreign(stage.signer, 0))
        await until(lambda: anvil.count(stage.signer.address) == 1, 10.0)
        async with Watch(stage) as watch:
            await watch.round()
            await stage.until_lane(LaneState.QUARANTINED)


async def test_a_monitor_never_takes_a_lease(anvil):
    stage = Stage(anvil, [new_signer()])
    async with stage, Watch(stage) as watch:
        await until_based(stage, 0)
        before = await stage.lane()
        for _ in range(5):
            await watch.round()
        after = await stage.lane()
        assert (after.owner, after.epoch, after.cursor) == (before.owner, before.epoch, before.cursor)


# -- keys that the caller holds


async def test_a_keyless_lane_is_only_ever_alerted_about(make_anvil):
    anvil = make_anvil("--no-mining")
    signer, ledger = new_signer(), MemoryLedger()
    stage = Stage(anvil, [new_signer()], ledger=ledger)
    lane = lane_of(signer)
    with capture_logs() as logs:
        async with stage, Watch(stage, Limits(dropped_after_ms=0), logs=logs) as watch:
            await ledger.register(LaneSpec(lane, POOL, keyless=True))
            await ledger.reserve(lane, "t1" * 8, 60_000, 0, 0)
            await ledger.set_lane(lane, LaneState.PAUSED, "why")
            before = await ledger.lane(lane)
            for _ in range(3):
                [seen] = [h for h in await watch.monitor.check_all() if h.lane == lane]
            assert set(seen.alerts) == {Alert.STOPPED}
            after = await ledger.lane(lane)
            assert (after.asks, after.check, after.cursor) == (before.asks, before.check, before.cursor)
            assert watch.said("nonce alert", alert="stopped", lane=lane, keyless=True)
            assert not any("fixed" in str(line) for line in watch.logs)
            assert (
                watch.monitor.metrics.registry.get_sample_value("txmanager_monitor_asks_total", {"lane": lane}) is None
            )
            assert (await ledger.book(lane)).checked_at > 0


# -- the stricter node


async def mined(stage: Stage, *keys: str) -> None:
    """Blocks until all are done."""

    async def done() -> bool:
        stage.machine.rpc("evm_mine")
        return [(await stage.record(key)).status for key in keys] == [Status.DONE] * len(keys)

    await until(done, 30.0, every=0.3)


async def test_stuck_by_the_base_fee_on_a_strict_node_is_alerted_and_bumped_out(hardhat):
    with capture_logs() as logs:
        stage = Stage(hardhat, [new_signer()], policy=replace(POLICY, replace_after_ms=1_000))
        async with stage, Watch(stage, logs=logs) as watch:
            await stage.submit(stage.transfer("a"), stage.transfer("b"))
            [first] = (await stage.until_attempts("a", 1)).attempts
            await until(lambda: hardhat.rpc("eth_getTransactionByHash", first.hash), 10.0)
            hardhat.rpc("hardhat_setNextBlockBaseFeePerGas", hex(20 * int(first.terms["max_fee_per_gas"])))
            hardhat.rpc("evm_mine")

            async def stuck() -> bool:
                return Alert.STUCK in (await watch.round()).alerts

            await until(stuck, 10.0)
            assert watch.said("nonce alert", alert="stuck")
            await mined(stage, "a", "b")
            await watch.over(Alert.STUCK)


async def test_missing_funds_on_a_strict_node_stop_the_lane_until_they_come(hardhat):
    with capture_logs() as logs:
        stage = Stage(hardhat, [new_signer()])
        hardhat.fund(stage.signer.address, 1_000)
        async with stage, Watch(stage, logs=logs) as watch:
            await stage.submit(stage.transfer("a", ETHER), stage.transfer("b", 5))
            lane = await stage.until_lane(LaneState.PAUSED)
            assert (lane.reason, lane.evidence["balance"]) == ("insufficient_funds", "1000")
            await watch.alerted(Alert.STOPPED)
            hardhat.fund(stage.signer.address)
            await stage.until_lane(LaneState.ACTIVE)
            await mined(stage, "a", "b")
            await watch.over(Alert.STOPPED)
            assert stage.received() == ETHER + 5


# -- clients that differ from both


async def test_missing_funds_before_anything_is_signed_pause_the_lane_until_they_come(make_anvil):
    """A node that cannot estimate as if there were enough: nobody fails, nothing is tried again and again."""
    anvil = make_anvil()

    def without_overrides(method: str, params: list[Any]) -> str | None:
        if method not in ("eth_estimateGas", "eth_call") or "value" not in params[0]:
            return None
        if len(params) == 3:
            return "too many arguments, want at most 2"
        poor = int(params[0]["value"], 16) > anvil.balance(params[0]["from"])
        return "insufficient funds for gas * price + value" if poor else None

    with capture_logs() as logs:
        async with middleman(anvil, without_overrides) as server:
            stage = Stage(anvil, [new_signer()], urls=[server.url])
            anvil.fund(stage.signer.address, 1_000)
            async with stage, Watch(stage, logs=logs) as watch:
                await stage.submit(stage.transfer("a", ETHER), stage.transfer("b", 5))
                lane = await stage.until_lane(LaneState.PAUSED)
                assert (lane.reason, lane.evidence["balance"]) == ("insufficient_funds", "1000")
                seen = await watch.alerted(Alert.STOPPED)
                assert seen.alerts[Alert.STOPPED]["reason"] == "insufficient_funds"
                assert watch.owners("txmanager_balance") == 1_000
                asked = len(server.seen)
                await until(lambda: len(server.seen) >= asked + 4, 20.0, what="the balance was looked at again")
                assert [(await stage.record(key)).status for key in "ab"] == [Status.QUEUED] * 2
                assert len([line for line in logs if line["event"] == "lane paused"]) == 1
                anvil.fund(stage.signer.address)
                await stage.until_done("a", "b")
                await watch.over(Alert.STOPPED)
                assert stage.received() == ETHER + 5


async def test_a_delegated_account_sends_one_at_a_time(make_anvil):
    """Nodes take one pending transaction of an account with code (EIP-7702): the lane narrows its window by itself."""
    anvil = make_anvil("--block-time", "1")
    signer = new_signer()
    refusals: list[str] = []

    def one_pending(method: str, params: list[Any]) -> str | None:
        if method != "eth_sendRawTransaction":
            return None
        if read_raw(bytes.fromhex(params[0][2:])).nonce <= anvil.count(signer.address):
            return None
        refusals.append(params[0])
        return "in-flight transaction limit reached for delegated accounts"

    with capture_logs() as logs:
        async with middleman(anvil, one_pending) as server:
            stage = Stage(anvil, [signer], urls=[server.url], policy=PATIENT)
            async with stage, Watch(stage, logs=logs) as watch:
                await stage.submit(*(stage.transfer(f"k{n}") for n in range(3)))
                await stage.until_done("k0", "k1", "k2")
                assert watch.said("one at a time from now on")
                assert watch.owners("txmanager_sends_total", verdict="one_at_a_time") >= 1
                before = len(refusals)
                await stage.submit(*(stage.transfer(f"m{n}") for n in range(4)))
                await stage.until_done(*(f"m{n}" for n in range(4)))
                assert len(refusals) == before, "sent before the one in front was included"
