"""The races that teams with home-made nonce trackers suffer from, each on a real node; and each comes true when the
one guard that closes it is taken out of its script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.evm.machines import Anvil
from tests.evm.nonce_stage import Wallet
from tests.evm.stage import CHAIN_ID, NETWORK, TIMING, new_signer
from tests.waiting import until
from txmanager.chains.evm import EvmChain, LaneId
from txmanager.chains.evm.given import EvmCounter
from txmanager.core.decide import Policy
from txmanager.core.errors import NonceConflict, NotAllowed, ReservationOver
from txmanager.core.models import LaneSpec
from txmanager.core.reservations import Reserved
from txmanager.core.states import Status
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.scripts import build, script
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.accept.nonces import KeylessPool, NonceDesk, Nonces, Place
from txmanager.runtime.accept.producer import Producer, Submitted
from txmanager.runtime.lane.worker import Service, Worker

POOL = "wallets"
LONG_MS, SHORT_MS = 60_000, 300


@dataclass
class Stage:
    anvil: Anvil
    ledger: RedisLedger
    nonces: Nonces
    place: Place
    wallet: Wallet
    receiver: str
    patience_s: float

    async def reserve(self, ttl_ms: int = LONG_MS) -> tuple[str, int]:
        token, got = await self.nonces.reserve(self.place, ttl_ms=ttl_ms)
        assert got.nonce is not None
        return token, got.nonce

    async def send(self, token: str, nonce: int, value: int, gwei: int = 100) -> Submitted:
        raw = self.wallet.sign(nonce, self.receiver, value, gwei=gwei)
        place, given = self.nonces.read("local", raw)
        return await self.nonces.send(place, given, token, "default")

    async def pay(self, value: int) -> Submitted:
        """A caller without any trouble."""
        token, nonce = await self.reserve()
        return await self.send(token, nonce, value)

    async def landed(self, *values: int) -> None:
        """Each of these payments is on chain, once."""

        def there() -> bool:
            return self.paid() == sorted(values)

        await until(there, self.patience_s, every=0.1, what=f"{values} have landed, each once")

    def paid(self) -> list[int]:
        if not self.anvil.balance(self.receiver):
            return []
        found = self.anvil.transactions(self.wallet.address, self.since)
        return sorted(int(tx["value"], 16) for tx in found if tx["to"] == self.receiver)

    def __post_init__(self) -> None:
        self.since = self.anvil.number("eth_blockNumber")


@asynccontextmanager
async def staged(anvil: Anvil, url: str, prefix: str, patience_s: float = 60.0) -> AsyncIterator[Stage]:
    wallet = Wallet()
    anvil.fund(wallet.address)
    lane = str(LaneId(CHAIN_ID, wallet.address))
    ledger = RedisLedger(url, prefix=prefix, durability="none", timeout_s=5.0)
    endpoints = [Endpoint(anvil.url, direct=True)]
    chain = EvmChain(CHAIN_ID, endpoints, settings=NETWORK, keyless=[lane])
    counter = EvmCounter(EvmChain(CHAIN_ID, endpoints, settings=NETWORK))
    pool = KeylessPool(POOL, frozenset({wallet.address}), False, LONG_MS)
    nonces = Nonces(ledger, Producer(ledger), {"local": NonceDesk("local", counter, (pool,))}, 5.0)
    policy = Policy(window=1_000, max_inflight=1_000, include_within_ms=500)
    spec = LaneSpec(lane, POOL, weight=0, keyless=True)
    worker = Worker(ledger, {lane: Service(spec, chain, policy)}, timing=TIMING)
    task = asyncio.create_task(worker.run())
    try:
        await until(lambda: worker.owned == [lane], 60.0)
        place = nonces.place("local", wallet.address)
        yield Stage(anvil, ledger, nonces, place, wallet, new_signer().address, patience_s)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await chain.close()
        await counter.close()
        await ledger.close()


Race = Callable[[Stage], Awaitable[None]]


async def two_callers_at_once_never_get_one_number(stage: Stage) -> None:
    got = await asyncio.gather(*(stage.reserve() for _ in range(8)))
    assert sorted(nonce for _, nonce in got) == list(range(8))
    for n, (token, nonce) in enumerate(got):
        await stage.send(token, nonce, 100 + n)
    await stage.landed(*(100 + n for n in range(8)))


async def caller_that_dies_before_its_send_blocks_nobody(stage: Stage) -> None:
    _, dead = await stage.nonces.reserve(stage.place, ttl_ms=SHORT_MS)
    await stage.pay(1)

    async def over() -> bool:
        return await stage.ledger.now_ms() > dead.until

    await until(over)
    await stage.pay(2)
    await stage.landed(1, 2)


async def number_of_a_failed_signature_is_used_by_the_next(stage: Stage) -> None:
    token, _ = await stage.reserve()
    await stage.pay(1)
    await stage.nonces.recycle(stage.place, token)
    await stage.pay(2)
    await stage.landed(1, 2)


async def node_that_lags_never_lowers_the_counter(stage: Stage) -> None:
    token, nonce = await stage.reserve()
    stale = await stage.ledger.reserve(stage.place.lane, "stale", LONG_MS, 0, 0)
    assert isinstance(stale, Reserved)
    assert stale.nonce == nonce + 1
    await stage.send(token, nonce, 1)
    await stage.send("stale", stale.nonce, 2)
    await stage.landed(1, 2)


async def late_duplicate_recycle_gives_nothing_to_two_callers(stage: Stage) -> None:
    token, _ = await stage.reserve()
    await stage.nonces.recycle(stage.place, token)
    second, nonce = await stage.reserve()
    with pytest.raises(ReservationOver):
        await stage.nonces.recycle(stage.place, token)
    third, other = await stage.reserve()
    await stage.send(second, nonce, 1)
    await stage.send(third, other, 2)
    await stage.landed(1, 2)


async def error_after_a_send_never_frees_the_number(stage: Stage) -> None:
    token, nonce = await stage.reserve()
    await stage.send(token, nonce, 1)
    with pytest.raises(NotAllowed):
        await stage.nonces.recycle(stage.place, token)
    assert (await stage.reserve())[1] == nonce + 1
    await stage.landed(1)


async def nonce_error_of_one_leaves_the_others_alone(stage: Stage) -> None:
    others = [await stage.reserve() for _ in range(3)]
    with pytest.raises(NonceConflict):
        await stage.send("nobody's", 1, 9)
    token, nonce = await stage.reserve()
    assert nonce == 3
    for n, (theirs, number) in enumerate([*others, (token, nonce)]):
        await stage.send(theirs, number, 100 + n)
    await stage.landed(100, 101, 102, 103)


async def holder_of_an_expired_lock_cannot_send(stage: Stage) -> None:
    old, turn = await stage.nonces.lock(stage.place, ttl_ms=SHORT_MS)
    new, next_turn = await stage.nonces.lock(stage.place, wait_s=60.0)
    assert turn.nonce == next_turn.nonce
    assert turn.nonce is not None
    with pytest.raises(NonceConflict):
        await stage.send(old, turn.nonce, 1)
    submitted = await stage.send(new, turn.nonce, 2)
    await stage.landed(2)

    async def done() -> bool:
        record = await stage.ledger.read(submitted.record.id)
        return record is not None and record.status is Status.DONE

    await until(done, stage.patience_s)


async def two_holders_of_a_lock_never_work_at_once(stage: Stage) -> None:
    first, _ = await stage.nonces.lock(stage.place)
    others = [asyncio.create_task(stage.nonces.lock(stage.place, wait_s=60.0)) for _ in range(2)]
    await until(lambda: _waiting(stage, 2), stage.patience_s)
    assert not any(task.done() for task in others)
    await stage.nonces.unlock(stage.place, first)
    done, pending = await asyncio.wait(others, timeout=stage.patience_s, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(pending)) == (1, 1)
    for task in pending:
        task.cancel()


async def _waiting(stage: Stage, count: int) -> bool:
    return (await stage.ledger.book(stage.place.lane)).waiting == count


async def somebody_elses_token_replaces_nothing(stage: Stage) -> None:
    token, nonce = await stage.reserve()
    stranger, _ = await stage.reserve()
    stage.anvil.rpc("evm_setAutomine", False)
    try:
        await stage.send(token, nonce, 1)
        with pytest.raises(NonceConflict):
            await stage.send(stranger, nonce, 2, gwei=500)
        await stage.send(token, nonce, 3, gwei=300)
        await until(lambda: "0x3" in _pooled(stage), stage.patience_s)
    finally:
        stage.anvil.rpc("evm_setAutomine", True)
        stage.anvil.rpc("evm_mine")
    await stage.landed(3)


def _pooled(stage: Stage) -> list[str]:
    """What the wallet's transactions in the pool would pay."""
    pool = stage.anvil.rpc("txpool_content")["pending"]
    mine = next((txs for address, txs in pool.items() if address.lower() == stage.wallet.address), {})
    return [tx["value"] for tx in mine.values()]


class Guarded(NamedTuple):
    race: Race
    script: str
    guard: str
    without: str


RACES = [
    Guarded(
        two_callers_at_once_never_get_one_number,
        "reserve",
        "redis.call('HINCRBY', KEYS[1], 'cursor', 1)",
        "local _ = 1",
    ),
    Guarded(caller_that_dies_before_its_send_blocks_nobody, "reserve", "expire(now)\nif has_all", "if has_all"),
    Guarded(
        number_of_a_failed_signature_is_used_by_the_next,
        "recycle",
        "if not spent(nonce, lane[1], lane[2]) then",
        "if false then",
    ),
    Guarded(node_that_lags_never_lowers_the_counter, "reserve", "if below(cursor, chain) then", "if true then"),
    Guarded(late_duplicate_recycle_gives_nothing_to_two_callers, "recycle", " or entry.state == 'over' then", " then"),
    Guarded(error_after_a_send_never_frees_the_number, "recycle", "if entry.state == 'sent' then", "if false then"),
    Guarded(
        nonce_error_of_one_leaves_the_others_alone,
        "accept",
        "return {taken(",
        "redis.call('HDEL', KEYS[1], 'cursor') return {taken(",
    ),
    Guarded(
        holder_of_an_expired_lock_cannot_send,
        "accept",
        "if entry.state ~= 'reserved' and entry.state ~= 'sent' then return 'unreserved' end",
        "",
    ),
    Guarded(
        two_holders_of_a_lock_never_work_at_once,
        "turn",
        "if redis.call('HEXISTS', KEYS[1], 'turn') == 1 then before = before + 1 end",
        "",
    ),
    Guarded(
        somebody_elses_token_replaces_nothing,
        "accept",
        "if not entry or entry.nonce ~= nonce then return 'unreserved' end",
        "if not entry then return 'unreserved' end",
    ),
]


def _name(told: Guarded) -> str:
    return told.race.__name__


@pytest.mark.parametrize("told", RACES, ids=_name)
async def test_race_is_closed(told: Guarded, anvil, redis7, prefix: str):
    async with staged(anvil, redis7.url, prefix) as stage:
        await told.race(stage)


@pytest.mark.parametrize("told", RACES, ids=_name)
async def test_race_comes_true_without_its_guard(told: Guarded, anvil, redis7, prefix: str):
    whole = script(told.script).text
    assert told.guard in whole, f"{told.script}.lua has no {told.guard!r} any more"
    async with staged(anvil, redis7.url, prefix, patience_s=5.0) as stage:
        stage.ledger.runner.scripts[told.script] = build(told.script, whole.replace(told.guard, told.without))
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await told.race(stage)
