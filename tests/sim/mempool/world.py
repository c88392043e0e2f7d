"""Gateways, wallets and faults around one mempool; what is checked is the node's own log."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from tests.sim.loop import Life, Stuck, VirtualLoop
from tests.sim.mempool.gateway import LAG_MS, Gateway
from tests.sim.mempool.nodes import PoolNode, StrictNode
from tests.sim.mempool.store import Store
from txmanager.core.admission import Limits
from txmanager.core.errors import TxManagerError
from txmanager.core.given import Given
from txmanager.runtime.gateway.outcomes import Lost

FAULTS_UNTIL_S = 25.0
END_S = 400.0


@dataclass
class Result:
    seed: int
    violations: list[str]
    struck: Counter[str]
    sends: int
    digest: tuple[tuple[float, str, str], ...] = field(default=(), repr=False)


class World:
    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.seed, self.loop = seed, loop
        self.dice = random.Random(f"mempool:{seed}")
        self.strict = seed % 2 == 0
        self.limits = Limits(
            capacity=self.dice.choice([6, 40]),
            executors=self.dice.choice([1, 2, 4]),
            hold_ms=12_000,
            idle_ms=60_000,
            count_fresh_ms=2_000,
            quiet_ms=LAG_MS if self.strict else 0,
            resend_ms=0 if self.strict else 8_000,
            strict=self.strict,
            bump_percent=self.dice.choice([0, 10]),
        )
        self.violations: list[str] = []
        self.node: StrictNode | PoolNode = StrictNode(self.dice) if self.strict else PoolNode(self.dice)
        self.store = Store(self.limits, self.dice, self.say, forgetful=self.dice.random() < 0.4)
        self.flushes = self.dice.random() < 0.3
        self.waits = self.dice.random() < 0.5
        """Callers get the node's word."""
        self.accepted: dict[str, tuple[float, Given]] = {}
        self.refused: dict[str, float] = {}
        """What callers were told that a node refused."""
        self.instances: list[Gateway] = []
        self.clients_left = 0
        self.again: list[asyncio.Task[None]] = []
        self.ordinal = 0

    def say(self, text: str) -> None:
        if len(self.violations) < 5:
            self.violations.append(f"{self.loop.time():.2f} {text}")

    # -- running

    async def main(self) -> None:
        for _ in range(2):
            self.start()
        clients = [asyncio.create_task(self.client(n)) for n in range(self.dice.randint(2, 5))]
        self.clients_left = len(clients)
        asyncio.create_task(self.blocks())  # noqa: RUF006
        while self.loop.time() < FAULTS_UNTIL_S:
            await asyncio.sleep(self.dice.uniform(0.2, 6))
            self.strike()
        self.store.faulty = False
        for one in self.instances:
            one.process.thaw()
        self.start()
        await self.calm()
        self.judge()

    async def calm(self) -> None:
        """Nothing strikes any more: everything comes to its end, what the last reorg undid included."""
        await asyncio.sleep(20)
        while self.loop.time() < END_S and (self.clients_left or self.busy()):  # noqa: ASYNC110
            await asyncio.sleep(1)

    def start(self) -> None:
        self.ordinal += 1
        self.instances.append(Gateway(self, f"i{self.ordinal}"))

    def strike(self) -> None:
        alive = [one for one in self.instances if one.process.life is Life.RUNNING]
        fault = self.dice.choice(["kill", "freeze", "freeze", "flush", "node", "node", "none"])
        if fault == "kill" and alive:
            self.store.struck["kill"] += 1
            self.dice.choice(alive).process.kill()
            self.start()
        elif fault == "freeze" and alive:
            self.store.struck["freeze"] += 1
            process = self.dice.choice(alive).process
            process.freeze()
            self.loop.later(self.dice.choice([1.0, 3.0, 6.0, 20.0]), process.thaw)
        elif fault == "flush" and self.flushes:
            self.store.flush()
            for _, given in list(self.accepted.values()):  # a wallet sends what nobody knows any more again
                self.again.append(asyncio.create_task(self.offer(given)))
        elif fault == "node" and isinstance(self.node, PoolNode):
            self.node.restart() if self.dice.random() < 0.5 else self.node.reorg(self.loop.time())

    async def blocks(self) -> None:
        while True:
            await asyncio.sleep(1)
            if isinstance(self.node, PoolNode):
                self.node.mine(self.loop.time())

    def busy(self) -> bool:
        """Everything comes to an end by itself: it lands, is refused, or expires."""
        return bool(self.store.machine.book.txs)

    # -- whoever sends

    async def client(self, number: int) -> None:
        sender = f"0x{number + 1:040x}"
        nonces = list(range(self.dice.randint(1, 8)))
        if self.dice.random() < 0.5:
            self.dice.shuffle(nonces)
        for nonce in nonces:
            for price in [10, 20][: self.dice.choice([1, 1, 2])]:
                await asyncio.sleep(self.dice.choice([0.0, 0.01, 1.0, 3.0]))
                await self.offer(self.made(number, sender, nonce, price))
            if self.dice.random() < 0.3:  # somebody outbids what may be on its way already
                await asyncio.sleep(self.dice.uniform(0, 2))
                await self.offer(self.made(number, sender, self.dice.choice(nonces), 40))
        self.clients_left -= 1

    def made(self, number: int, sender: str, nonce: int, price: int) -> Given:
        hash = f"0x{number:02x}{nonce:02x}{price:02x}".ljust(66, "0")
        price += self.dice.randint(0, 5)
        return Given(f"{hash} {nonce}".encode(), hash, nonce, sender, 1, None, 1, 21_000, price, 1, 2)

    async def offer(self, given: Given) -> None:
        """Until a gateway answers; what is not accepted is not owed."""
        while True:
            alive = [one for one in self.instances if one.process.life is Life.RUNNING]
            if not alive:
                await asyncio.sleep(0.5)
                continue
            try:
                told = await self.dice.choice(alive).serve(given)
            except (TxManagerError, Lost):
                await asyncio.sleep(0.3)
                continue
            if isinstance(told, str) or told.message == "already known":
                self.accepted.setdefault(given.hash, (self.loop.time(), given))
            elif told.message == "execution reverted":
                self.refused.setdefault(given.hash, self.loop.time())
            elif told.message.startswith("the sender's count could not be read"):
                continue
            return

    # -- judging

    def wrote(self, owner: str, sender: str, nonce: int, hash: str) -> None:
        """At the moment the bytes leave: the writer must hold them, unless the store forgot it."""
        s = self.store.machine.book.senders.get(sender)
        if s is None or self.forgotten() or nonce < s.count or self.node.struck["reorg"]:
            return  # a count that passed a hold ended it; after a reorg the same bytes are granted again
        if s.hold is None or (s.hold.hash, s.hold.owner) != (hash, owner):
            self.say(f"nonce {nonce} of {sender[-2:]} is sent for a grant that is over")

    def forgotten(self) -> bool:
        return bool(self.store.struck["step forgotten"] or self.store.flushed_at)

    def judge(self) -> None:
        if isinstance(self.node, StrictNode):
            for seen in self.node.charged:
                self.say(f"charged: nonce {seen.nonce} of {seen.sender[-2:]} at {seen.at:.2f}")
            if self.node.repeats:
                self.say(f"the same bytes were sent again {len(self.node.repeats)} times")
        first: dict[str, dict[int, float]] = defaultdict(dict)
        bytes_of: dict[tuple[str, int], set[str]] = defaultdict(set)
        for seen in self.node.log:
            lower = [n for n in range(seen.nonce) if n not in first[seen.sender]]
            if lower and not self.store.flushed_at:
                self.say(f"nonce {seen.nonce} of {seen.sender[-2:]} was sent before {lower[0]}")
            first[seen.sender].setdefault(seen.nonce, seen.at)
            if seen.verdict == "sent":
                bytes_of[seen.sender, seen.nonce].add(seen.hash)
        if self.strict:
            for (sender, nonce), hashes in bytes_of.items():
                if len(hashes) > 1:
                    self.say(f"two transactions of nonce {nonce} of {sender[-2:]} were executed")
        book, landed = self.store.machine.book, self.node.landed
        flushed = self.store.flushed_at[-1] if self.store.flushed_at else -1.0
        for hash, (at, given) in self.accepted.items():
            name = f"nonce {given.nonce} of {given.sender[-2:]}"
            count, ended = self.node.count(given.sender), book.ended.get(hash)
            if at > flushed and given.nonce >= count and hash not in book.txs and ended is None:
                self.say(f"accepted and lost: {name}")
            if ended is not None and ended.reason in ("expired", "overtaken") and given.nonce == count and flushed < 0:
                self.say(f"{ended.reason}, though it could be sent: {name}")
            if ended is not None and ended.reason == "refused" and hash in landed:
                self.say(f"ended as refused, and executed: {name}")
            if ended is not None and ended.reason == "overtaken" and hash in landed:
                self.say(f"ended as overtaken, and executed: {name}")
            if ended is not None and ended.reason == "final" and hash not in landed:
                self.say(f"ended as final, and not executed: {name}")
        for hash, at in self.refused.items():
            if hash in landed and hash not in self.accepted and not self.store.flushed_at:
                self.say(f"told at {at:.2f} that it was refused, and executed: {hash[:8]}")
        if self.busy():
            stuck = [(t.nonce, t.state.value) for t in book.txs.values()]
            self.say(f"still at work after {END_S} s: {stuck}")
        if self.clients_left:
            self.say(f"{self.clients_left} clients never got an answer")


class Log:
    """Stands in for structlog: what breaks is a finding, the rest is silent."""

    def __init__(self, world: World) -> None:
        self._world = world

    def error(self, event: str, **told: Any) -> None:
        if "broke" in event:
            self._world.say(f"{event}: {told}")

    def warning(self, event: str, **told: Any) -> None:
        pass

    info = debug = warning


def run(seed: int) -> Result:
    collecting = gc.isenabled()
    gc.disable()
    loop = VirtualLoop(random.Random(f"loop:{seed}"))
    asyncio.set_event_loop(loop)
    world = World(seed, loop)
    try:
        try:
            with patch("structlog.get_logger", lambda *_: Log(world)):
                loop.run_until_complete(world.main())
        except Stuck as stuck:
            world.say(str(stuck))
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
        if collecting:
            gc.enable()
    digest = tuple((round(s.at, 6), s.hash, s.verdict) for s in world.node.log)
    return Result(seed, world.violations, world.store.struck + world.node.struck, len(world.node.log), digest)
