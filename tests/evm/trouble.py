"""What EVM lanes suffer, told on a real node: each story ends well only because of the guard that is named beside it.

A story raises when the trouble is not alerted in the first round after it, not healed by the lane's owner within a
period, or not said to be over in the round after that.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from structlog.testing import capture_logs

from tests.evm.machines import Anvil
from tests.evm.stage import CHAIN_ID, PATIENT, POLICY, Stage, new_signer
from tests.evm.watch import LIMITS, Watch
from tests.sim.evm.planting import arm_instead
from tests.waiting import until
from txmanager.chains.evm.transaction import Body, Fees, read_raw, sign_any
from txmanager.core import alive
from txmanager.core.alerts import Alert
from txmanager.core.lane_plan import LanePlan
from txmanager.core.models import Purpose
from txmanager.core.states import LaneState, Status
from txmanager.runtime.lane.checks import Checks
from txmanager.runtime.lane.gaps import GapFiller
from txmanager.runtime.lane.requests import Requests
from txmanager.signing.evm import EvmSigner

GWEI = 10**9
DEAF = replace(PATIENT, include_within_ms=3_600_000)
"""Sends nothing again and bumps nothing by itself: whatever heals it is the monitor's request."""
Make = Callable[..., Anvil]
Story = Callable[[Make], Awaitable[None]]


@dataclass(frozen=True)
class Told:
    story: Story
    guard: Callable[[], AbstractContextManager[Any]]
    """Takes the guard out; the story must then fail."""


STORIES: dict[str, Told] = {}


def told(guard: Callable[[], AbstractContextManager[Any]]) -> Callable[[Story], Story]:
    def keep(story: Story) -> Story:
        STORIES[story.__name__] = Told(story, guard)
        return story

    return keep


def foreign(signer: EvmSigner, nonce: int, *, gwei: int = 50) -> str:
    """Bytes of the lane's own key that txmanager did not sign."""
    body = Body(bytes.fromhex("dd" * 20), 7, b"", 21_000)
    return "0x" + sign_any(CHAIN_ID, nonce, Fees(gwei * GWEI, gwei * GWEI), body, signer).raw.hex()


def never(*_: Any, **__: Any) -> None:
    return None


async def nothing(*_: Any, **__: Any) -> None:
    return None


@told(lambda: arm_instead(alive.offer_more_when_slow, never))
async def stuck_is_bumped_by_12_percent_lowest_nonce_first(make_anvil: Make) -> None:
    anvil = make_anvil("--no-mining")
    with capture_logs() as logs:
        stage = Stage(anvil, [new_signer()], policy=replace(POLICY, replace_after_ms=1_500))
        async with stage, Watch(stage, logs=logs) as watch:
            await stage.submit(*(stage.transfer(f"k{n}") for n in range(3)))
            await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x3", 10.0)
            [first] = (await stage.record("k0")).attempts
            await until(lambda: stage.worker.owned, 5.0)
            await until_late(first.signed_at, 1_000)
            await watch.alerted(Alert.STUCK)

            async def bumped() -> bool:
                return len((await stage.record("k0")).attempts) > 1

            await watch.healed(bumped, "the lowest nonce is bumped")
            old, new = (read_raw(a.raw).fees for a in (await stage.record("k0")).attempts[:2])
            anvil.rpc("evm_mine")
            [_, *others] = await stage.until_done("k0", "k1", "k2")
            assert new.max_fee * 100 >= old.max_fee * 112
            assert new.tip * 100 >= old.tip * 112
            assert [len(other.attempts) for other in others] == [1, 1]
            assert watch.owners("txmanager_replacements_total") >= 1
            assert watch.said("replaced", nonce=0)
            await watch.over(Alert.STUCK)


@told(lambda: arm_instead(alive.kill_overdue, never))
async def overdue_is_cancelled_by_a_self_transfer_where_the_policy_says_so(make_anvil: Make) -> None:
    anvil = make_anvil("--no-mining")
    with capture_logs() as logs:
        stage = Stage(anvil, [new_signer()], policy=replace(PATIENT, cancel_after_ms=2_000))
        limits = replace(LIMITS, overdue_after_ms=1_000)
        async with stage, Watch(stage, limits, logs=logs) as watch:
            await stage.submit(stage.transfer("late", 5), stage.transfer("next", 7))
            await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x2", 10.0)
            await until_late((await stage.record("late")).attempts[0].signed_at, 1_000)
            await watch.alerted(Alert.STUCK, Alert.OVERDUE)

            async def given_up() -> bool:
                return any(a.purpose is Purpose.NOOP for a in (await stage.record("late")).attempts)

            await watch.healed(given_up, "a no-op takes its nonce")
            noop = (await stage.record("late")).attempts[-1]
            assert watch.owners("txmanager_stuck_cancels_total") == 1
            assert watch.said("given up", nonce=0)
            await until(lambda: anvil.rpc("eth_getTransactionByHash", noop.hash), 10.0)
            anvil.rpc("evm_mine")
            late = await stage.until_status("late", Status.CANCELLED, Status.DONE, Status.FAILED)
            assert late.status is Status.CANCELLED
            assert late.outcome.error["code"] == "not_included"
            # What only waited behind it is not late itself.
            await stage.until_done("next")
            assert stage.received() == 7
            await watch.over(Alert.STUCK, Alert.OVERDUE)


@told(lambda: patch.object(Requests, "_compare", nothing))
async def dropped_is_sent_again_with_the_same_bytes(make_anvil: Make) -> None:
    anvil = make_anvil("--no-mining")
    with capture_logs() as logs:
        async with Stage(anvil, [new_signer()], policy=DEAF) as stage, Watch(stage, logs=logs) as watch:
            await stage.submit(*(stage.transfer(f"k{n}") for n in range(4)))
            await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x4", 10.0)
            hashes = [(await stage.record(f"k{n}")).attempts[0].hash for n in range(4)]
            anvil.rpc("anvil_dropTransaction", hashes[1])  # and its descendants
            await watch.alerted(Alert.DROPPED)
            await watch.healed(lambda: anvil.rpc("txpool_status")["pending"] == "0x4", "all are in the pool again")
            await until(lambda: watch.owners("txmanager_rebroadcasts_total") >= 3, 5.0)
            assert watch.owners("txmanager_checks_total") >= 1
            assert watch.said("checked", lane=stage.lane_id)
            await watch.over(Alert.DROPPED)
            anvil.rpc("evm_mine")
            records = await stage.until_done(*(f"k{n}" for n in range(4)))
            assert [[a.hash for a in r.attempts] for r in records] == [[hash] for hash in hashes]


@told(lambda: patch.object(GapFiller, "see", never))
async def gap_is_filled_and_the_cursor_stays(make_anvil: Make) -> None:
    """A transaction from before the lane, taken back by a reorg: the number below the lane's first is nobody's."""
    anvil, signer = make_anvil(), new_signer()
    anvil.fund(signer.address)
    anvil.rpc("eth_sendRawTransaction", foreign(signer, 0))
    await until(lambda: anvil.count(signer.address) == 1, 10.0)
    with capture_logs() as logs:
        stage = Stage(anvil, [signer], policy=replace(DEAF, fill_after_ms=1_000))
        async with stage, Watch(stage, logs=logs) as watch:
            await until_based(stage, 1)
            anvil.rpc("anvil_reorg", 1, [])
            assert anvil.count(signer.address) == 0
            anvil.fund(signer.address)
            await stage.submit(stage.transfer("a"))
            await until(lambda: anvil.rpc("txpool_status")["queued"] == "0x1", 10.0)
            seen = await watch.alerted(Alert.GAP)
            assert seen.gaps == (0,)
            await watch.healed(lambda: anvil.count(signer.address) == 2, "the gap is filled")
            [record] = await stage.until_done("a")
            assert (record.outcome.nonce, len(record.attempts)) == (1, 1)
            assert (await stage.lane()).cursor == 2
            assert watch.owners("txmanager_fills_total") == 1
            assert watch.said("gap filled", nonces=["0"])
            await until(lambda: watch.said("gap closed"), 10.0)
            await watch.over(Alert.GAP)
            [noop, _] = anvil.transactions(signer.address)
            assert (noop["to"], int(noop["value"], 16)) == (signer.address, 0)


@told(lambda: patch.object(Checks, "look", nothing))
async def drift_below_what_was_final_stops_the_lane_and_never_lowers_its_cursor(make_anvil: Make) -> None:
    """A reorg beyond finality: nothing is guessed; after an operator's word the empty numbers are filled."""
    anvil = make_anvil()
    with capture_logs() as logs:
        async with Stage(anvil, [new_signer()], policy=DEAF) as stage, Watch(stage, logs=logs) as watch:
            for n in range(3):
                await stage.submit(stage.transfer(f"k{n}"))
                await stage.until_done(f"k{n}")
            anvil.rpc("anvil_reorg", 2, [])
            anvil.fund(stage.signer.address)
            assert anvil.count(stage.signer.address) == 1
            await watch.alerted(Alert.DRIFT)
            await stage.until_lane(LaneState.QUARANTINED, timeout=watch.period_s)
            lane = await stage.lane()
            assert (lane.reason, lane.cursor) == ("reorg_beyond_finality", 3)
            await watch.alerted(Alert.DRIFT, Alert.STOPPED)
            await stage.manager.rebaseline(stage.lane_id)
            await until(lambda: anvil.count(stage.signer.address) == 3, 10.0, what="the numbers are used up")
            await stage.submit(stage.transfer("next"))
            [record] = await stage.until_done("next")
            assert record.outcome.nonce == 3
            assert watch.owners("txmanager_fills_total") == 2
            await watch.over(Alert.DRIFT, Alert.STOPPED)


@told(lambda: patch.object(Requests, "_compare", nothing))
async def foreign_use_of_an_idle_key_quarantines_its_lane(make_anvil: Make) -> None:
    anvil = make_anvil()
    with capture_logs() as logs:
        async with Stage(anvil, [new_signer()], policy=DEAF) as stage, Watch(stage, logs=logs) as watch:
            await stage.submit(stage.transfer("a"))
            await stage.until_done("a")
            assert (await watch.round()).healthy
            anvil.rpc("eth_sendRawTransaction", foreign(stage.signer, 1))
            await until(lambda: anvil.count(stage.signer.address) == 2, 10.0)
            await watch.alerted(Alert.FOREIGN)
            lane = await stage.until_lane(LaneState.QUARANTINED, timeout=watch.period_s)
            assert (lane.reason, lane.cursor) == ("foreign_nonce_use", 1)
            assert watch.owners("txmanager_quarantines_total", reason="foreign_nonce_use") == 1
            assert watch.said("lane quarantined", reason="foreign_nonce_use")
            await watch.alerted(Alert.FOREIGN, Alert.STOPPED)


@told(lambda: patch.object(LanePlan, "rebroadcast", never))
async def restart_of_node_and_worker_loses_nothing(make_anvil: Make) -> None:
    """The node forgot its pool while no worker ran: alerted, and healed by the next owner's recovery."""
    anvil = make_anvil("--no-mining", state=True)
    with capture_logs() as logs:
        stage = Stage(anvil, [new_signer()], policy=DEAF)
        async with stage, Watch(stage, logs=logs) as watch:
            await stage.submit(*(stage.transfer(f"k{n}") for n in range(3)))
            await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x3", 10.0)
            before = anvil.dumped()
            await until(lambda: anvil.dumped() > before, 10.0, what="the state is on disk")
            await stage.crash()
            anvil.kill()
            anvil.start()

            async def unowned() -> bool:
                return (await stage.lane()).lease_ms == 0

            await until(unowned, 10.0)
            await watch.alerted(Alert.DROPPED, Alert.UNOWNED)
            await stage.start()
            await watch.healed(lambda: anvil.rpc("txpool_status")["pending"] == "0x3", "sent again by the next owner")
            await watch.over(Alert.DROPPED, Alert.UNOWNED)
            anvil.rpc("evm_mine")
            await stage.until_done("k0", "k1", "k2")
            assert stage.received() == 3


async def until_late(signed_at: int, age_ms: int) -> None:
    """Until bytes are so old."""
    await until(lambda: time.time_ns() // 1_000_000 - signed_at >= age_ms, 10.0, what="the bytes are old enough")


async def until_based(stage: Stage, cursor: int) -> None:
    """Until the lane has read its first nonce: owned is not yet ready."""

    async def based() -> bool:
        return (await stage.lane()).cursor == cursor

    await until(based, 30.0, what=f"the lane begins at {cursor}")
