"""Signers that are slow, away, refuse or lie: the lane shows it, loses nothing, sends nothing wrong, and goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.runtime.stage import POLICY, TIMING, Stage, lane_of, metric
from tests.signing.signers import RemoteSigner
from tests.waiting import until
from txmanager.chains.near import NearChain
from txmanager.core.errors import SignerAway, SignerRefused, TransactionRefused
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause
from txmanager.runtime.lane import signatures
from txmanager.signing.signer import Answer

WINDOW = replace(POLICY, window=16)


def right(_: int, signature: bytes) -> Answer:
    return signature


def away(_: int, __: bytes) -> Answer:
    return SignerAway("the signer is restarting")


class Keys:
    """Wraps the keys of every chain that a stage makes, and keeps them for the test to spoil."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.made: dict[str, RemoteSigner] = {}

    def __call__(self, network: str, endpoints: Any, signers: Any, **more: Any) -> NearChain:
        wrapped = {lane: RemoteSigner(signer, self.delay_s) for lane, signer in signers.items()}
        self.made |= wrapped
        return NearChain(network, endpoints, wrapped, **more)

    def of(self, stage: Stage) -> RemoteSigner:
        return self.made[stage.lane]


@pytest.fixture
def probes_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "PROBE_S", 0.2)


async def test_leases_are_renewed_while_a_signer_takes_three_seconds(stage: Stage) -> None:
    keys = Keys(delay_s=3.0)
    timing = replace(TIMING, lease_ms=1_200, margin_ms=200)
    running = await stage.start(kind=keys, timing=timing, policy=WINDOW)
    before = await stage.ledger.lane(stage.lane)
    await stage.done(await stage.submit(*stage.transfers(3)))
    after = await stage.ledger.lane(stage.lane)
    assert before is not None
    assert after is not None
    assert after.epoch == before.epoch, "the lane never changed hands"
    assert metric(running.worker, "lease_changes_total", change="lost") == 0
    assert stage.amounts() == [1, 2, 3]


async def test_other_lanes_go_on_while_one_signer_takes_long(stage: Stage) -> None:
    keys, other = Keys(), next(stage.fresh)
    await stage.start(stage.account, other, kind=keys)
    keys.of(stage).delay_s = 60.0
    slow = await stage.submit(*stage.transfers(2))
    quick = await stage.submit(stage.transfer("quick", 7, pool=stage.pool_of(other)))
    await stage.done(quick)
    assert [(await stage.read(i)).status for i in slow] == [Status.QUEUED] * 2
    assert lane_of(other) in keys.made


async def test_what_is_before_a_failed_signature_is_sent_and_the_rest_follows_in_order(stage: Stage) -> None:
    keys = Keys()
    await stage.start(kind=keys, policy=WINDOW)
    signer = keys.of(stage)
    signer.spoil = lambda n, signature: SignerAway("throttled") if n >= 3 else signature
    ids = await stage.submit(*stage.transfers(8))
    await stage.done(ids[:3])
    records = [await stage.read(i) for i in ids[3:]]
    assert {r.status for r in records} == {Status.QUEUED}
    assert not any(r.attempts for r in records), "no nonce is consumed from there on"
    signer.spoil = right
    await stage.done(ids)
    nonces = [(await stage.read(i)).attempts[0].nonce for i in ids]
    assert nonces == list(range(nonces[0], nonces[0] + 8))
    assert stage.amounts() == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_signer_that_is_away_stalls_the_lane_visibly_and_loses_nothing(stage: Stage) -> None:
    keys = Keys()
    running = await stage.start(kind=keys)
    keys.of(stage).spoil = away
    ids = await stage.submit(*stage.transfers(4))
    await until(lambda: metric(running.worker, "stalled") == 1, what="the lane shows that it stalls")
    lane = await stage.ledger.lane(stage.lane)
    assert lane is not None
    assert lane.state is LaneState.ACTIVE
    assert metric(running.worker, "signer_faults_total", code="signer_away") >= 1
    keys.of(stage).spoil = right
    await stage.done(ids)
    assert metric(running.worker, "stalled") == 0
    assert stage.amounts() == [1, 2, 3, 4]


async def test_a_signer_that_breaks_counts_as_away_and_ends_no_intent(stage: Stage) -> None:
    keys = Keys()
    running = await stage.start(kind=keys)

    def broken(n: int, signature: bytes) -> Answer:
        raise RuntimeError("a bug of the adapter")

    keys.of(stage).spoil = broken
    ids = await stage.submit(*stage.transfers(2))
    await until(lambda: metric(running.worker, "signer_faults_total") >= 4, what="more breaks than an intent may have")
    keys.of(stage).spoil = right
    await stage.done(ids)


@pytest.mark.usefixtures("probes_often")
async def test_a_signer_that_refuses_pauses_the_lane_until_it_signs_again(stage: Stage) -> None:
    keys = Keys()
    await stage.start(kind=keys)
    keys.of(stage).spoil = lambda *_: SignerRefused("the key is disabled")
    ids = await stage.submit(*stage.transfers(3))
    lane = await stage.until_lane(LaneState.PAUSED)
    assert lane.cause is PauseCause.SIGNER_REFUSED
    assert "the key is disabled" in str(lane.evidence["message"])
    keys.of(stage).spoil = right
    await stage.done(ids)
    assert (await stage.until_lane(LaneState.ACTIVE)).cause is None
    assert stage.amounts() == [1, 2, 3]


async def test_what_the_signers_policy_refuses_fails_alone_and_the_lane_goes_on(stage: Stage) -> None:
    keys = Keys()
    await stage.start(kind=keys, policy=WINDOW)
    signer = keys.of(stage)
    names = {f"k{n}": b"\x03" + n.to_bytes(16, "little") for n in (1, 4, 5, 8)}

    def refuse_some(n: int, signature: bytes) -> Answer:
        forbidden = any(one in signer.asked[n].unsigned for one in names.values())
        return TransactionRefused("near-1: the receiver is not allowed") if forbidden else signature

    signer.spoil = refuse_some
    records = await stage.finals(await stage.submit(*stage.transfers(8)))
    failed = {r.id.key: r for r in records if r.status is Status.FAILED}
    assert failed.keys() == names.keys()
    for record in failed.values():
        assert record.outcome is not None
        assert record.outcome.error is not None
        assert record.outcome.error["code"] == "transaction_refused"
        assert "the receiver is not allowed" in str(record.outcome.error["message"])
        assert not record.attempts, "no nonce was used"
    assert stage.amounts() == [2, 3, 6, 7]
    lane = await stage.ledger.lane(stage.lane)
    assert lane is not None
    assert lane.state is LaneState.ACTIVE


@pytest.mark.usefixtures("probes_often")
async def test_a_worker_that_finds_a_lane_refused_asks_its_own_signer(stage: Stage) -> None:
    keys = Keys()
    first = await stage.start(kind=keys)
    keys.of(stage).spoil = lambda *_: SignerRefused("access denied")
    ids = await stage.submit(*stage.transfers(2))
    await stage.until_lane(LaneState.PAUSED)
    await first.crash()
    await stage.start()  # with the key in memory
    await stage.done(ids)


async def test_a_wrong_signature_quarantines_the_lane_and_is_never_written(stage: Stage) -> None:
    keys = Keys()
    await stage.start(kind=keys, policy=WINDOW)
    signer = keys.of(stage)
    spoilt = lambda n, signature: signature[:-1] + bytes((signature[-1] ^ 1,))  # noqa: E731
    signer.spoil = lambda n, signature: spoilt(n, signature) if n == 2 else signature
    ids = await stage.submit(*stage.transfers(5))
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.cause is QuarantineCause.BAD_SIGNATURE
    assert f"txmanager lanes resume {stage.lane}" in str(lane.evidence["resolve"])
    await stage.done(ids[:2])
    assert [(await stage.read(i)).attempts for i in ids[2:]] == [()] * 3

    # While the signer is wrong, a resume ends where it began.
    signer.spoil = spoilt
    asked = len(signer.asked)
    await stage.manager.resume(stage.lane)
    await until(lambda: len(signer.asked) > asked, what="a trial signature was asked for")
    lane = await stage.until_lane(LaneState.QUARANTINED)
    assert lane.cause is QuarantineCause.BAD_SIGNATURE
    assert lane.evidence["trial"] is True
    assert signer.asked[-1].unsigned.startswith(b"txmanager trial signature\n")

    signer.spoil = right
    await stage.manager.resume(stage.lane)
    await stage.done(ids)
    assert stage.amounts() == [1, 2, 3, 4, 5]


async def test_a_trial_signature_that_takes_long_keeps_nobody_from_the_lane(stage: Stage) -> None:
    keys = Keys()
    running = await stage.start(kind=keys)
    signer = keys.of(stage)
    signer.spoil = lambda n, signature: signature[:-1] + bytes((signature[-1] ^ 1,))
    ids = await stage.submit(*stage.transfers(2))
    await stage.until_lane(LaneState.QUARANTINED)
    signer.spoil, signer.delay_s, asked = right, 600.0, len(signer.asked)
    for _ in range(2):
        view = await stage.manager.resume(stage.lane)
        assert (view.state, view.command) == (LaneState.PAUSED, LaneCommand.TRIAL), "the second skips no trial"
    await until(lambda: len(signer.asked) > asked, what="a trial signature was asked for")
    signer.delay_s = 0.0
    await stage.manager.rebaseline(stage.lane)
    await stage.done(ids)
    assert stage.amounts() == [1, 2]
    assert metric(running.worker, "lease_changes_total", change="lost") == 0


async def test_a_lane_that_is_stopped_while_it_is_resumed_stays_stopped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an operator, who read it before its signer was found wrong; and by itself, while an operator pauses it."""
    running = await stage.start()
    read, stops = stage.ledger.lane, [QuarantineCause.BAD_SIGNATURE]

    async def stopped_behind_it(lane: str) -> Any:
        view = await read(lane)
        if stops:
            await stage.ledger.set_lane(lane, LaneState.QUARANTINED, "wrong", cause=stops.pop())
        return view

    await stage.manager.pause(stage.lane, "for a while")
    monkeypatch.setattr(stage.ledger, "lane", stopped_behind_it)
    view = await stage.manager.resume(stage.lane)
    assert (view.state, view.command) == (LaneState.PAUSED, LaneCommand.TRIAL)
    monkeypatch.undo()
    await stage.until_lane(LaneState.ACTIVE)

    owned = running.worker._held[stage.lane].lane
    await until(lambda: owned.asks == owned.plan.stored.asks and not owned.refresh, what="the owner read all of it")
    await owned.pause(PauseCause.FUNDS, {})
    view = await stage.ledger.set_lane(stage.lane, LaneState.PAUSED, "by hand")  # its owner has not read this
    await owned.resume("funded again")
    after = await stage.ledger.lane(stage.lane)
    assert after is not None
    assert (after.state, after.reason, after.asks) == (LaneState.PAUSED, "by hand", view.asks)


async def test_a_pause_discards_signatures_that_come_late(stage: Stage) -> None:
    keys = Keys()
    await stage.start(kind=keys)
    signer = keys.of(stage)
    signer.delay_s = 0.6
    [id] = await stage.submit(stage.transfer("late", 5))
    await until(lambda: len(signer.asked) == 1, what="the signer was asked")
    await stage.manager.pause(stage.lane, "for the test")
    await until(lambda: signer.answered == 1, what="the signature arrives")
    await asyncio.sleep(0.3)  # time in which it could do harm
    assert (await stage.read(id)).status is Status.QUEUED
    await stage.ledger.cancel(id)
    await stage.manager.resume(stage.lane)
    [after] = await stage.submit(stage.transfer("after", 6))
    await stage.done([after])
    assert (await stage.read(id)).status is Status.CANCELLED
    assert stage.amounts() == [6]


async def test_what_was_signed_is_sent_again_and_settled_while_the_signer_hangs(stage: Stage) -> None:
    stage.devnet.fault("drop", signer_id=stage.account["account_id"])
    keys = Keys()
    running = await stage.start(kind=keys, policy=WINDOW)
    first = await stage.submit(*stage.transfers(3))
    await until(lambda: metric(running.worker, "sends_total") >= 3, what="all were sent, and dropped")
    keys.of(stage).delay_s = 60.0
    later = await stage.submit(*stage.transfers(3, first=4))
    await until(lambda: len(keys.of(stage).asked) >= 4, what="the signer hangs")
    stage.devnet.clear_faults()
    await stage.done(first, timeout=30)
    assert [(await stage.read(i)).status for i in later] == [Status.QUEUED] * 3
    assert stage.amounts() == [1, 2, 3]


async def test_a_lane_goes_to_a_worker_whose_signer_answers(stage: Stage) -> None:
    keys = Keys()
    timing = replace(TIMING, lease_ms=900, margin_ms=150)
    first = await stage.start(kind=keys, timing=timing)
    keys.of(stage).spoil = away
    ids = await stage.submit(*stage.transfers(3))
    await until(lambda: metric(first.worker, "stalled") == 1, what="the signer is away")
    await asyncio.sleep(1.2)
    assert first.owned == [stage.lane], "nobody else could have it"
    await stage.start(timing=timing, own=False)
    await stage.done(ids)
    assert stage.amounts() == [1, 2, 3]


async def test_a_worker_is_told_how_many_live_so_that_they_share_a_signers_quota(stage: Stage) -> None:
    timing, told = replace(TIMING, lease_ms=900, margin_ms=150), list[int]()
    await stage.start(timing=timing, on_members=told.append)
    await until(lambda: told and told[-1] == 1, what="it is alone")
    other = await stage.start(timing=timing, own=False)
    await until(lambda: told[-1] == 2, what="there are two")
    await other.crash()
    await until(lambda: told[-1] == 1, what="the other one is forgotten")
