"""Instances, clients and faults around one mempool; what is checked is the node's own log.

Each instance does what a gateway must: heartbeat, take, look up before bytes go again on a strict node, stop at its own
deadline, say what came of a send, follow counts, end what is final. It can be killed or frozen at every await.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.sim.loop import Life, Process, Stuck, VirtualLoop
from tests.sim.mempool.nodes import PoolNode, StrictNode
from tests.sim.mempool.store import Store
from txmanager.core.admission import ALIVE_MS, Admitted, Count, Done, End, Grant, Limits, Offer, State
from txmanager.core.errors import Unavailable
from txmanager.core.mempool_book import Tx

LAG_S = 6.0
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
            idle_ms=120_000,
            count_fresh_ms=2_000,
            quiet_ms=int(LAG_S * 1000) if self.strict else 0,
            resend_ms=0 if self.strict else 8_000,
            strict=self.strict,
            bump_percent=self.dice.choice([0, 10]),
        )
        self.violations: list[str] = []
        self.node: StrictNode | PoolNode = StrictNode(self.dice) if self.strict else PoolNode(self.dice)
        self.store = Store(self.limits, self.dice, self.say, forgetful=self.dice.random() < 0.4)
        self.flushes = self.dice.random() < 0.3
        self.admitted: dict[str, tuple[float, Offer]] = {}
        self.instances: list[Instance] = []
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
        self.instances.append(Instance(self, f"i{self.ordinal}"))

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
            for _, offer in list(self.admitted.values()):  # callers are told: unknown, send the same bytes again
                self.again.append(asyncio.create_task(self.offer(offer)))
        elif fault == "node" and isinstance(self.node, PoolNode):
            self.node.restart() if self.dice.random() < 0.5 else self.node.reorg(self.loop.time())

    async def blocks(self) -> None:
        while True:
            await asyncio.sleep(1)
            if isinstance(self.node, PoolNode):
                self.node.mine(self.loop.time())

    def at_work(self) -> list[Tx]:
        """What should come to an end by itself: not what waits for a nonce that nobody offers."""
        book = self.store.machine.book
        live = [tx for tx in book.txs.values() if tx.state is not State.LANDED]
        return [tx for tx in live if tx.nonce <= book.senders[tx.sender].run]

    def busy(self) -> bool:
        return bool(self.at_work())

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

    def made(self, number: int, sender: str, nonce: int, price: int) -> Offer:
        hash = f"0x{number:02x}{nonce:02x}{price:02x}".ljust(66, "0")
        return Offer(hash, sender, nonce, price + self.dice.randint(0, 5), hash.encode())

    async def offer(self, offer: Offer) -> None:
        """Until an instance answers; what is not accepted is not owed."""
        counts: dict[str, Count] = {}
        while True:
            alive = [one for one in self.instances if one.process.life is Life.RUNNING]
            if not alive:
                await asyncio.sleep(0.5)
                continue
            one = self.dice.choice(alive)
            try:
                answer = await one.serve(offer, counts)
            except Unavailable:
                await asyncio.sleep(0.3)
                continue
            if answer.word == "cold":
                counts = {offer.sender: self.node.read(self.loop.time(), offer.sender)}
                continue
            if answer.word in ("admitted", "known"):
                self.admitted.setdefault(offer.hash, (self.loop.time(), offer))
            return

    # -- judging

    def wrote(self, grant: Grant) -> None:
        """At the moment the bytes leave: the grant must be the store's own, unless the store forgot it."""
        s = self.store.machine.book.senders.get(grant.sender)
        if s is None or self.forgotten() or grant.nonce < s.count or self.node.struck["reorg"]:
            return  # a count that passed a hold ended it; after a reorg the same bytes are granted again
        if s.hold is None or s.hold.fence != grant.fence:
            self.say(f"nonce {grant.nonce} of {grant.sender[-2:]} is sent for a grant that is over")

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
        book = self.store.machine.book
        flushed = self.store.flushed_at[-1] if self.store.flushed_at else -1.0
        for hash, (at, offer) in self.admitted.items():
            taken = hash in self.node.landed or self.node.count[offer.sender] > offer.nonce
            waits = hash in book.txs and offer.nonce > book.senders[offer.sender].run
            if not taken and not waits and hash not in book.ended and at > flushed and not self.was_ended(hash):
                self.say(f"accepted and lost: nonce {offer.nonce} of {offer.sender[-2:]}")
            ended = book.ended.get(hash)
            if ended is not None and ended.reason == "refused" and hash in self.node.landed:
                self.say(f"told refused, and executed: nonce {offer.nonce} of {offer.sender[-2:]}")
            if ended is not None and ended.reason in ("expired", "overtaken") and not taken and flushed < 0:
                self.say(f"{ended.reason}, though it could be sent: nonce {offer.nonce} of {offer.sender[-2:]}")
        if self.busy():
            stuck = [
                (t.nonce, t.state.value) for t in book.txs.values() if t.state is not State.LANDED and not t.gapped
            ]
            self.say(f"still at work after {END_S} s: {stuck}")
        if self.clients_left:
            self.say(f"{self.clients_left} clients never got an answer")

    def was_ended(self, hash: str) -> bool:
        return any(hash in one.told_ended for one in self.instances)


class Instance:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.node, self.store = world.node, world.store
        self.process = Process(world.loop, name)
        self.heard_at = -100.0
        """When the last acknowledged heartbeat was sent."""
        self.generation = 0
        self.landed_at: dict[str, float] = {}
        self.told_ended: set[str] = set()
        for loop in (self.beat(), self.dispatch(), self.follow()):
            self.process.spawn(loop)

    @property
    def now(self) -> float:
        return self.world.loop.time()

    async def serve(self, offer: Offer, counts: dict[str, Count]) -> Admitted:
        called = self.now
        task: asyncio.Task[Admitted] = self.process.spawn(self.admit(offer, counts, called))
        done, _ = await asyncio.wait([task], timeout=3)
        if not done:
            raise Unavailable("the instance died or hangs")
        return task.result()

    async def admit(self, offer: Offer, counts: dict[str, Count], called: float) -> Admitted:
        born = self.generation
        [answer] = await self.store.step(
            "admit", lambda machine, call, now: machine.admit([offer], counts, self.name, call, now)
        )
        if answer.grant is not None:
            self.process.spawn(self.execute(answer.grant, called, born))
        return answer

    async def beat(self) -> None:
        while True:
            sent = self.now
            try:
                alive = await self.store.step("heartbeat", lambda machine, _, now: machine.heartbeat(self.name, now))
            except Unavailable:
                await asyncio.sleep(0.3)
                continue
            self.generation += alive.lapsed
            self.heard_at = sent
            await asyncio.sleep(1)

    async def dispatch(self) -> None:
        while True:
            await asyncio.sleep(self.world.dice.uniform(0.1, 0.5))
            called, born = self.now, self.generation
            try:
                taken = await self.store.step("take", lambda machine, call, now: machine.take(self.name, 2, call, now))
            except Unavailable:
                continue
            for grant in taken.grants:
                self.process.spawn(self.execute(grant, called, born))

    def may_write(self, grant: Grant, called: float, born: int) -> bool:
        deadline = min(called + grant.left_ms / 1000, self.heard_at + ALIVE_MS / 1000) - 1
        return self.now < deadline and born == self.generation

    async def execute(self, grant: Grant, called: float, born: int) -> None:
        while True:
            verdict = await self.send(grant, called, born)
            if verdict is None:
                return
            called, born = self.now, self.generation
            done = await self.say_done(grant, verdict)
            if done is None or done.grant is None:
                return
            grant = done.grant

    async def send(self, grant: Grant, called: float, born: int) -> str | None:
        if grant.again and self.world.strict:
            until = self.now + LAG_S
            while self.now < until:
                await asyncio.sleep(0.5)
                if self.node.knows(self.now, grant.hash):
                    return "sent"
        await asyncio.sleep(self.world.dice.choice([0.0, 0.01, 0.02, 2.0]))  # a connection may take its time
        if not self.may_write(grant, called, born):
            return None
        self.world.wrote(grant)
        verdict, heard = self.node.send(self.now, grant)
        await asyncio.sleep(self.world.dice.uniform(0, 0.05))
        return verdict if heard else "maybe"

    async def say_done(self, grant: Grant, verdict: str) -> Done | None:
        for _ in range(5):
            try:
                return await self.store.step(
                    "done",
                    lambda machine, call, now: machine.done(
                        grant.sender,
                        grant.fence,
                        verdict,  # type: ignore[arg-type]
                        self.name,
                        call,
                        now,
                        wait_ms=500 if verdict in ("retry", "maybe") else 0,
                    ),
                )
            except Unavailable:
                await asyncio.sleep(0.2)
        return None

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(self.world.dice.uniform(0.3, 0.8))
            try:
                await self.follow_once()
            except Unavailable:
                continue

    async def follow_once(self) -> None:
        senders = [s.address for s in self.store.machine.book.senders.values() if s.slots]
        reads = {sender: self.node.read(self.now, sender) for sender in senders}
        told = await self.store.step("observe", lambda machine, _, now: machine.observe(reads, now))
        lower = {sender: one.base for sender, one in told.items() if one.word == "lower" and one.base is not None}
        again = {
            sender: Count(reads[sender].count, reads[sender].block, reads[sender].height, 0, base.block)
            for sender, base in lower.items()
            if not self.node.canonical(base.block)
        }
        if again:
            await self.store.step("observe", lambda machine, _, now: machine.observe(again, now))
        final: list[End] = []
        for tx in list(self.store.machine.book.txs.values()):
            if tx.state is not State.LANDED:
                self.landed_at.pop(tx.hash, None)
            elif self.now - self.landed_at.setdefault(tx.hash, self.now) > 30:
                final.append(End(tx.hash, "final" if tx.hash in self.node.landed else "overtaken"))
        if final:
            ended = await self.store.step("end", lambda machine, _, now: machine.end(final, now))
            self.told_ended |= set(ended)
        await self.store.step("expire", lambda machine, _, now: machine.expire(now))


def run(seed: int) -> Result:
    collecting = gc.isenabled()
    gc.disable()
    loop = VirtualLoop(random.Random(f"loop:{seed}"))
    asyncio.set_event_loop(loop)
    world = World(seed, loop)
    try:
        try:
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
