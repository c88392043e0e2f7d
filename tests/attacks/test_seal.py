"""Whoever can write to Redis and knows no secret gets nothing signed: what was changed is set aside, the lane goes on.

The stage is a real server, a worker and a chain; the attacker has the server's whole database.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.attacks.redis_hand import Hand
from tests.conftest import HasUrl
from tests.evm.stage import Stage as EvmStage
from tests.evm.stage import new_signer
from tests.runtime.stage import POOL, Account, Stage, lane_of, metric
from tests.waiting import until
from txmanager.core.chain import Prepared
from txmanager.core.errors import NotAllowed, NotOurs
from txmanager.core.models import Intent, IntentId, LaneSpec, Record, intent_id
from txmanager.core.purses import Marks
from txmanager.core.seal import BAD_SEAL, SealCheck, SealMode
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.sealing import make_seals
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.signing.evm import EvmSigner, keccak256
from txmanager.wiring import build_purses

SECRET, OLDER = "s" * 40, "o" * 40
SEALS = make_seals([SECRET], SealMode.REQUIRE)


@pytest.fixture
async def sealed(redis_lanes: Stage) -> Stage:
    """Producers seal, and no worker runs yet: what is queued can be changed before it is taken."""
    return await sealing(redis_lanes)


async def sealing(stage: Stage) -> Stage:
    stage.producer = Producer(stage.ledger, routes_for_s=0.0, seals=SEALS)
    stage.manager = TxManager(stage.ledger, seals=SEALS)
    await stage.ledger.register(LaneSpec(stage.lane, POOL))
    return stage


def hand(stage: Stage | EvmStage) -> Hand:
    assert isinstance(stage.ledger, RedisLedger)
    return Hand(stage.ledger)


async def set_aside(stage: Stage, id: IntentId, check: str = "wrong") -> Record:
    record = await stage.until_status(id, Status.HELD)
    assert record.hold is not None
    assert record.hold["reason"] == BAD_SEAL
    assert record.hold["evidence"]["check"] == check
    assert record.attempts == ()
    return record


async def lane_goes_on(stage: Stage, *paid: int) -> None:
    await stage.done(await stage.submit(stage.transfer("after", 99)))
    assert sorted(stage.amounts()) == sorted([*paid, 99])
    assert (await stage.until_lane(LaneState.ACTIVE)).depth == 0


@pytest.mark.parametrize("change", [{"receiver_id": "thief.near"}, {"amount": "1000"}], ids=["receiver", "amount"])
async def test_payload_changed_in_the_queue_is_not_signed(sealed: Stage, change: dict[str, str]) -> None:
    one, two, three = await sealed.submit(*sealed.transfers(3))
    await hand(sealed).change_payload(sealed.lane, "k2", **change)
    running = await sealed.start(seals=SEALS)
    await sealed.done([one, three])
    await set_aside(sealed, two)
    await lane_goes_on(sealed, 1, 3)
    assert metric(running.worker, "holds_total", reason=BAD_SEAL) == 1


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("k", "near.function_call"),
        ("f", "v1:0000"),
        ("l", "0123456789abcdef"),
        ("m", '{"max_age_s":1}'),
        ("m", '{"limits":{"max_cost":"9"}}'),
        ("m", '{"version":9}'),
    ],
)
async def test_anything_else_of_an_entry_changed_is_not_signed(sealed: Stage, field: str, text: str) -> None:
    one, two = await sealed.submit(*sealed.transfers(2))
    [(_, told), _] = await hand(sealed).entries(sealed.lane)
    if field == "m":  # the seal stays, beside what was put in
        text = json.dumps({**json.loads(told["m"]), **json.loads(text)})
    await hand(sealed).change_entry(sealed.lane, "k1", **{field: text})
    await sealed.start(seals=SEALS)
    await sealed.done([two])
    await set_aside(sealed, one)
    await lane_goes_on(sealed, 2)


async def test_payloads_of_two_intents_swapped_are_not_signed(sealed: Stage) -> None:
    one, two = await sealed.submit(*sealed.transfers(2))
    (_, first), (_, second) = await hand(sealed).entries(sealed.lane)
    await hand(sealed).change_entry(sealed.lane, "k1", p=second["p"])
    await hand(sealed).change_entry(sealed.lane, "k2", p=first["p"])
    await sealed.start(seals=SEALS)
    await set_aside(sealed, one)
    await set_aside(sealed, two)
    await lane_goes_on(sealed)


async def test_sealed_intent_copied_to_another_lane_or_life_is_not_signed(sealed: Stage) -> None:
    """The same words, paid again from another key, or under a key that was used before."""
    other: Account = next(sealed.fresh)
    await sealed.ledger.register(LaneSpec(lane_of(other), POOL))
    [id] = [i.id for i in [sealed.transfer("k1", 1)]]
    await sealed.producer.submit_many([sealed.transfer("k1", 1)], lane=sealed.lane)
    [(_, fields)] = await hand(sealed).entries(sealed.lane)
    copy = {**fields, "i": "default/p/copy"}
    await hand(sealed).put(lane_of(other), fields)
    await hand(sealed).put(sealed.lane, {**fields, "l": "0123456789abcdef", "i": "default/p/life"})
    await hand(sealed).put(sealed.lane, copy)
    running = await sealed.start(sealed.account, other, seals=SEALS)
    for key in ("life", "copy"):
        await set_aside(sealed, intent_id(key, POOL))
    await until(lambda: metric(running.worker, "holds_total", reason=BAD_SEAL) == 3, what="all copies are set aside")
    await until(lambda: sealed.amounts() == [1], what="the intent itself is done, once")
    assert sealed.amounts(other) == []
    found = await hand(sealed).record(lane_of(other), id)
    assert found[b"s"] == b"held"


async def test_intent_of_somebodys_own_making_is_not_signed_where_a_seal_is_required(sealed: Stage) -> None:
    [id] = await sealed.submit(sealed.transfer("k1", 1))
    [(_, fields)] = await hand(sealed).entries(sealed.lane)
    payload = json.dumps({"receiver_id": sealed.receiver["account_id"], "amount": "7000"})
    await hand(sealed).put(sealed.lane, {**fields, "i": "default/p/forged", "m": "", "p": payload})
    await sealed.start(seals=SEALS)
    await sealed.done([id])
    await set_aside(sealed, intent_id("forged", POOL), "missing")
    await lane_goes_on(sealed, 1)


async def test_what_was_queued_before_sealing_is_still_signed_until_a_seal_is_required(redis_lanes: Stage) -> None:
    """Turning it on quarantines nothing; a wrong seal is refused from the first moment."""
    stage = redis_lanes
    await stage.ledger.register(LaneSpec(stage.lane, POOL))
    [before] = await stage.submit(stage.transfer("k1", 1))
    await sealing(stage)
    changed, good = await stage.submit(*stage.transfers(2, first=2))
    await hand(stage).change_payload(stage.lane, "k2", amount="2000")
    await stage.start(seals=make_seals([SECRET]))
    await stage.done([before, good])
    await set_aside(stage, changed)
    await lane_goes_on(stage, 1, 3)


async def test_secret_is_replaced_without_anything_failing(sealed: Stage) -> None:
    """First every process verifies with both, then the new one seals, then the old one goes."""
    sealed.producer = Producer(sealed.ledger, routes_for_s=0.0, seals=make_seals([OLDER]))
    [old] = await sealed.submit(sealed.transfer("k1", 1))
    sealed.producer = Producer(sealed.ledger, routes_for_s=0.0, seals=make_seals([SECRET, OLDER]))
    [new] = await sealed.submit(sealed.transfer("k2", 2))
    running = await sealed.start(seals=make_seals([SECRET, OLDER], SealMode.REQUIRE))
    await sealed.done([old, new])
    await running.stop()
    sealed.producer = Producer(sealed.ledger, routes_for_s=0.0, seals=make_seals([OLDER]))
    [late] = await sealed.submit(sealed.transfer("k3", 3))
    await sealed.start(seals=SEALS)
    await set_aside(sealed, late, "unknown_secret")


async def test_operator_reseals_or_cancels_what_was_set_aside(sealed: Stage) -> None:
    one, two = await sealed.submit(*sealed.transfers(2))
    for key in ("k1", "k2"):
        await hand(sealed).change_payload(sealed.lane, key, amount="1000")
    await sealed.start(seals=SEALS)
    for id in (one, two):
        await set_aside(sealed, id)
    with pytest.raises(NotAllowed):
        await TxManager(sealed.ledger).reseal(one)  # a configuration without the secret
    with pytest.raises(NotAllowed):
        await sealed.manager.resolve(one, "resign", "ops")
    assert (await sealed.manager.cancel(two)).status is Status.CANCELLED
    assert (await sealed.manager.reseal(one)).status is Status.QUEUED
    await sealed.done([one])
    assert sealed.amounts() == [1000], "as it stood when the operator vouched for it"
    with pytest.raises(NotAllowed):
        await sealed.manager.reseal(one)


async def test_word_of_an_operator_written_into_redis_reseals_nothing(sealed: Stage) -> None:
    [id] = await sealed.submit(sealed.transfer("k1", 1))
    await hand(sealed).change_payload(sealed.lane, "k1", amount="1000")
    await sealed.start(seals=SEALS)
    await set_aside(sealed, id)
    await hand(sealed).set_record(sealed.lane, id, d='{"verb":"reseal","by":"ops"}', s="queued")
    found = await hand(sealed).record(sealed.lane, id)
    fields = {"i": str(id), "l": found[b"l"].decode(), "f": found[b"f"].decode(), "k": found[b"k"].decode()}
    await hand(sealed).put(sealed.lane, {**fields, "m": found[b"m"].decode(), "p": found[b"p"].decode()})
    await lane_goes_on(sealed)


async def test_record_changed_while_it_was_in_flight_is_not_signed_again(sealed: Stage) -> None:
    """Its first bytes never got in, another worker takes over and reads what stands in Redis now."""
    sealed.devnet.fault("drop", signer_id=sealed.account["account_id"])
    first = await sealed.start(seals=SEALS)
    [id] = await sealed.submit(sealed.transfer("k1", 1))
    await sealed.until_status(id, Status.INFLIGHT)
    await first.crash()
    entries = await hand(sealed).entries(sealed.lane)
    await hand(sealed).change_payload(sealed.lane, "k1", amount="1000")
    sealed.devnet.clear_faults()
    sealed.devnet.fault("drop", signer_id=sealed.account["account_id"], count=2)
    await sealed.start(seals=SEALS)
    await sealed.done(await sealed.submit(*sealed.transfers(3, first=2)))
    record = await sealed.until_status(id, Status.HELD)
    assert (record.hold or {})["reason"] == BAD_SEAL
    assert len(record.attempts) == 1
    await hand(sealed).rewrite(sealed.lane, lambda _: entries)
    await sealed.manager.reseal(id)
    await sealed.done([id])
    assert sorted(sealed.amounts()) == [1, 2, 3, 4]


# -- EVM: a replacement signs what the stored bytes say


@asynccontextmanager
async def stuck(
    make_anvil: Callable[..., Any], redis7: HasUrl, prefix: str, **more: Any
) -> AsyncIterator[tuple[EvmStage, Any, Record]]:
    """One transaction on its way to a node that mines nothing yet, and the worker that sent it gone."""
    machine = make_anvil("--no-mining")
    stage = EvmStage(machine, [new_signer()], ledger=RedisLedger(redis7.url, prefix=prefix))
    stage.manager = TxManager(stage.ledger, seals=more.get("seals"))
    try:
        await stage.start(**more)
        await stage.submit(stage.transfer("a"))
        record = await stage.until_status("a", Status.INFLIGHT)
        await stage.crash()
        yield stage, machine, record
    finally:
        await stage.crash()
        await stage.ledger.close()


async def damaged(stage: EvmStage, reason: str) -> Record:
    record = await stage.until_status("a", Status.HELD)
    assert (record.hold or {})["reason"] == reason
    assert len(record.attempts) == 1, "nothing was signed"
    return record


async def foreign_bytes(stage: EvmStage, signer: EvmSigner, nonce: int) -> bytes:
    """A transaction that this key would sign, at that nonce."""
    chain, lane = stage.make_chain(), f"evm:31337:{signer.address}"
    chain._signers[lane] = chain._checked(lane, signer)
    noop = await chain.noop(lane, nonce, (), 0)
    await chain.close()
    assert noop is not None
    return noop.raw


async def test_bytes_changed_before_a_replacement_are_not_signed(
    make_anvil: Callable[..., Any], redis7: HasUrl, prefix: str
) -> None:
    """With or without a seal: what the attacker put there must not get our signature and a better fee."""
    async with stuck(make_anvil, redis7, prefix) as (stage, machine, record):
        [attempt] = record.attempts
        raw = await foreign_bytes(stage, stage.signer, 7)
        await hand(stage).set_raw(stage.lane_id, record.id, attempt.name, raw)
        await stage.start()
        await damaged(stage, "bad_bytes")
        machine.rpc("evm_mine")  # what was sent before is as good as ever
        machine.rpc("evm_setAutomine", True)
        await stage.until_done("a")
        await stage.until_lane(LaneState.ACTIVE)
        await stage.submit(stage.transfer("b"))
        await stage.until_done("b")
        assert stage.received() == 2


async def test_only_bytes_of_the_lanes_own_key_are_replaced(
    make_anvil: Callable[..., Any], redis7: HasUrl, prefix: str
) -> None:
    """Every way to change them, with a hash that fits what was put there, and the adapter alone."""
    async with stuck(make_anvil, redis7, prefix) as (stage, _, record):
        [attempt] = record.attempts
        at = attempt.raw.index(bytes.fromhex(stage.receiver[2:]))
        forged = {
            "another receiver": attempt.raw[:at] + bytes(20) + attempt.raw[at + 20 :],
            "a stranger": await foreign_bytes(stage, new_signer(), 0),
            "another nonce": await foreign_bytes(stage, stage.signer, 7),
            "cut": attempt.raw[:-1],
            "nothing": b"",
        }
        chain = stage.make_chain()
        for raw in forged.values():
            for hash in (attempt.hash, "0x" + keccak256(raw).hex()):
                changed = replace(attempt, raw=raw, hash=hash)
                with pytest.raises(NotOurs):
                    await chain.replace(stage.lane_id, Prepared(record.intent, None), [changed], 0)
        assert await chain.replace(stage.lane_id, Prepared(record.intent, None), [attempt], 0) is not None
        await chain.close()


async def test_intent_changed_before_a_replacement_is_not_signed_until_it_is_resealed(
    make_anvil: Callable[..., Any], redis7: HasUrl, prefix: str
) -> None:
    async with stuck(make_anvil, redis7, prefix, seals=SEALS) as (stage, machine, _):
        await hand(stage).change_payload(stage.lane_id, "a", max_fee_per_gas="1000000000000000")
        await stage.start(seals=SEALS)
        held = await damaged(stage, BAD_SEAL)
        resealed = await stage.manager.reseal(held.id)
        assert resealed.status is Status.INFLIGHT
        await stage.until_attempts("a", 2)
        machine.rpc("evm_setAutomine", True)
        machine.rpc("evm_mine")
        await stage.until_done("a")
        assert stage.received() == 1


async def test_top_up_of_the_monitor_is_sealed() -> None:
    """It is asked for without a token, and is worth stealing."""
    network = {"chain": "evm", "chain_id": 31337, "rpc": [{"url": "http://127.0.0.1:1"}]}
    policy = {"max_cost": 10**6, "budget": [{"network": "local", "amount": "1 gwei", "per": "1d"}]}
    settings = Settings.model_validate(
        {
            "ledger": {"url": "memory://", "seal": [SECRET]},
            "networks": {"local": network},
            "pools": {"treasury": {"network": "local", "policy": policy}},
            "monitor": {"networks": {"local": {"low": 5, "high": 9, "treasury": "treasury"}}},
        }
    )
    ledger = MemoryLedger()
    payer = await ledger.register(LaneSpec("evm:31337:0x" + "aa" * 20, "treasury"))
    cared, close = build_purses(settings, ledger)
    top_ups = cared["evm:31337"].top_ups
    assert top_ups is not None

    async def balance() -> int:
        return 4

    made = await top_ups.pay("evm:31337:0x" + "bb" * 20, Marks(5, 9), balance)
    assert made is not None
    record = await ledger.read(intent_id(made.key, "treasury"))
    assert record is not None
    assert SEALS.check(record.intent, record.life, payer.id, record.seal) is SealCheck.GOOD
    await close()


def test_everything_that_is_signed_from_is_under_the_seal() -> None:
    """A new field of an intent has to be thought about: sealed, or of no importance to what is signed."""
    unsealed = {"partition_key", "metadata", "token", "trace"}  # for usage and for tracing alone
    assert {f.name for f in fields(Intent)} - unsealed == {
        "id",
        "kind",
        "payload",
        "fingerprint",
        "max_age_s",
        "version",
        "limits",
    }
