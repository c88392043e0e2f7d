"""A mempool set up for a test: any backend, a clock that the test moves, and the few steps that lead anywhere."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from txmanager.core.admission import Admitted, Count, Done, Entry, Grant, Limits, Mempool, Offer, State, Verdict
from txmanager.core.mempool import Machine
from txmanager.ledger.memory.mempool import MemoryMempool
from txmanager.ledger.redis.mempool import RedisMempool
from txmanager.ledger.redis.scripts import Script, build, names, script

START_MS = 1_700_000_000_000
SERVER_TIME = "local t = redis.call('TIME')\n  return t[1] * 1000 + math.floor(t[2] / 1000)"
TEST_TIME = "return tonumber(redis.call('HGET', KEYS[1], 'now') or '1700000000000')"
CHAIN = 298


def scripts_on_test_time() -> dict[str, Script]:
    """The scripts as they are, but for the clock: it is a field that the test sets."""
    return {
        name: build(name, script(name).text.replace(SERVER_TIME, TEST_TIME))
        for name in names()
        if name.startswith("mempool_")
    }


def counter() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"t{next(numbers)}"


@dataclass
class Stage:
    make: Callable[[Limits], Mempool]
    set_clock: Callable[[int], Awaitable[None]]
    now: int = START_MS
    mempool: Mempool = field(init=False)
    limits: Limits = field(init=False)
    hashes: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def open(self, **limits: Any) -> Mempool:
        """A mempool with these limits; of the same store when it is called again."""
        self.limits = Limits(**limits)
        self.mempool = self.make(self.limits)
        await self.mempool.heartbeat("me")
        return self.mempool

    async def advance(self, ms: int, *alive: str) -> None:
        """Time goes by; those who are named are heard all the while."""
        while ms > 0:
            self.now += min(ms, 2_000)
            ms -= 2_000
            await self.set_clock(self.now)
            for owner in alive:
                await self.mempool.heartbeat(owner)

    # -- short ways

    def offer(self, sender: str, nonce: int, price: int = 10, size: int = 10) -> Offer:
        return Offer(f"0x{next(self.hashes):064x}", address(sender), nonce, price, bytes([nonce % 256]) * size)

    async def admit(
        self, sender: str, nonce: int, price: int = 10, *, count: int | None = 0, owner: str = "", size: int = 10
    ) -> tuple[Offer, Admitted]:
        offer = self.offer(sender, nonce, price, size)
        counts = {} if count is None else {offer.sender: Count(count, "0xb1", 1)}
        [answer] = await self.mempool.admit([offer], counts, owner=owner)
        return offer, answer

    async def word(self, sender: str, nonce: int, price: int = 10, **more: Any) -> str:
        return (await self.admit(sender, nonce, price, **more))[1].word

    async def waiting(self, sender: str, nonce: int, price: int = 10, **more: Any) -> Offer:
        offer, answer = await self.admit(sender, nonce, price, **more)
        assert answer.word == "admitted", answer
        return offer

    async def granted(self, sender: str, nonce: int, price: int = 10, *, owner: str = "me", **more: Any) -> Grant:
        _, answer = await self.admit(sender, nonce, price, owner=owner, **more)
        assert answer.grant is not None, answer
        return answer.grant

    async def sent(self, sender: str, nonce: int, price: int = 10, **more: Any) -> Grant:
        grant = await self.granted(sender, nonce, price, **more)
        await self.done(grant, more=False)
        return grant

    async def done(self, grant: Grant, verdict: Verdict = "sent", *, owner: str = "me", **more: Any) -> Done:
        return await self.mempool.done(grant, verdict, owner=owner, **more)

    async def take(self, most: int = 1, owner: str = "me") -> list[Grant]:
        return list((await self.mempool.take(owner, most)).grants)

    async def observe(self, sender: str, count: int, **more: Any) -> str:
        read = Count(count, **{"block": f"0xb{count}", "height": 10 + count, **more})
        return (await self.mempool.observe({address(sender): read}))[address(sender)].word

    async def state(self, one: Offer | Grant) -> State | str | None:
        """Where it is: a live state, why it ended, or None."""
        found = await self.mempool.find(one.hash)
        return None if found is None else getattr(found, "state", None) or getattr(found, "reason", None)

    async def gapped(self, one: Offer) -> bool:
        found = await self.mempool.find(one.hash)
        assert isinstance(found, Entry)
        return found.gapped

    async def run(self, sender: str) -> int | None:
        base = await self.mempool.base(address(sender))
        return None if base is None else base.run


def address(name: str) -> str:
    """A sender by a short name."""
    return "0x" + name.encode().hex().rjust(40, "0")


def memory_stage() -> Stage:
    machines: list[Machine] = []
    times = [START_MS]

    def make(limits: Limits) -> Mempool:
        token = counter()
        if not machines:
            machines.append(Machine(limits, START_MS))
        machines[0].limits = machines[0].book.limits = limits
        return MemoryMempool(limits, clock=lambda: times[0], machine=machines[0], token=token)

    async def set_clock(now: int) -> None:
        times[0] = now

    return Stage(make, set_clock)


@asynccontextmanager
async def redis_stage(url: str, prefix: str, **options: Any) -> AsyncIterator[Stage]:
    made: list[RedisMempool] = []

    def make(limits: Limits) -> Mempool:
        token = counter()
        one = RedisMempool(url, CHAIN, limits, prefix=prefix, token=token, **{"durability": "none", **options})
        one.runner.scripts.update(scripts_on_test_time())
        made.append(one)
        return one

    async def set_clock(now: int) -> None:
        await made[-1].runner.plain(made[-1].keys[0], ("HSET", made[-1].keys[0], "now", now))

    try:
        yield Stage(make, set_clock)
    finally:
        for one in made:
            await one.close()
