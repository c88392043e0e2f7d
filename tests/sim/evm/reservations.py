"""Keyless lanes under faults: callers reserve, sign and send themselves, and die where they please.

The world is the one of `world.py`; its lanes' keys are the callers'. Each caller has one payment to make: it reserves a
number (a lagging count of the chain in hand), signs, sends, waits, outbids itself, gives numbers back, repeats calls
late, or dies before or after its send. What is checked: no number belongs to two tokens, none that may have been sent
is handed out again, none is lost; a payment is made at most once, and every accepted one in the end; nobody is stuck.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.sim.evm.machine import CHAIN_ID, GWEI
from tests.sim.evm.rpc import SimRpc
from tests.sim.evm.world import LANES, METRICS, POOL, RECEIVER, SIGNERS, Result, World, _Seat
from tests.sim.evm.world import run as run_world
from tests.sim.history import Ended, Recorded
from tests.sim.loop import Process, VirtualLoop
from txmanager.chains.evm import EvmChain, LaneId
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.core.decide import Policy
from txmanager.core.errors import NonceConflict, NotFound, TxManagerError, Unavailable
from txmanager.core.models import LaneSpec, new_intent
from txmanager.core.reservations import Reserved, Turn, Use
from txmanager.core.states import Status
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.worker import Service, Timing, Worker

T = TypeVar("T")
TTL_MS = 4_000
FINISHED = "finished"


class ReservingWorld(World):
    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        self.dice = random.Random(f"reserving:{seed}")
        self.policy = Policy(window=1_000, max_inflight=1_000, include_within_ms=3_000)
        self.calls = 0
        self.fate: dict[int, str] = {}
        """What became of each caller: gone before its send, after it, or finished."""
        self.sent: dict[int, list[str]] = {}
        """Hashes of each payment that were accepted, as far as its caller knows."""
        self.tried: dict[int, list[str]] = {}
        """Hashes of each payment that may have been."""
        self.owners: dict[tuple[str, int], str] = {}
        """Which token's bytes a number got first."""
        self.tokens: dict[str, str] = {}
        self.next_at = 0.0

    # -- checked where it happens

    def recorded(self, fact: Recorded) -> None:
        token = self.tokens[fact.id.key]
        owner = self.owners.setdefault((fact.lane, fact.nonce), token)
        if owner != token:
            self.say(f"nonce {fact.nonce} of {owner} was used by {token}, too")

    def ended(self, fact: Ended) -> None:
        super().ended(fact)
        self._audit()

    def _check_sent(self, params: Any) -> None:
        tx = self.machine.decode(bytes.fromhex(params[0][2:]))
        if tx.hash not in self.history.recorded:
            self.say(f"{tx.hash[:10]} (nonce {tx.nonce}) was sent before it was written ahead")

    def _audit(self) -> None:
        """Every number below the counter is somebody's, to be handed out again, or used on chain; never two of them."""
        for lane, store in self.ledger.stores.items():
            live = Counter(h.nonce for h in store.held.values() if h.state in ("reserved", "sent"))
            for nonce, times in live.items():
                if times > 1:
                    self.say(f"nonce {nonce} of {lane[-6:]} belongs to {times} tokens")
                if nonce in store.reuse:
                    self.say(f"nonce {nonce} of {lane[-6:]} is to be handed out again and belongs to somebody")
            used = max(store.floor or 0, (store.landed if store.landed is not None else -1) + 1)
            for nonce in range(used, store.cursor or 0):
                if nonce not in live and nonce not in store.reuse:
                    self.say(f"nonce {nonce} of {lane[-6:]} is nobody's")

    def _tick(self) -> None:
        self._audit()
        super()._tick()

    # -- processes

    async def _work(self, seat: _Seat, process: Process) -> None:
        rng = random.Random(f"{process.name}:{self.seed}")
        chain = EvmChain(CHAIN_ID, (), settings=self.network, keyless=LANES, rpc=SimRpc(self, rng), agreement=1)
        worker = Worker(
            self.ledger,
            {lane: Service(self._spec(lane), chain, self.policy) for lane in self.lanes},
            name=process.name,
            timing=Timing(lease_ms=3_000, margin_ms=600, poll_s=0.5, grace_s=5.0),
            metrics=METRICS,
            clock=lambda: self._worker_ms(process),
            rng=rng,
            new_token=lambda: f"{rng.getrandbits(128):032x}",
            point=lambda where: self._point(process, where),
        )
        try:
            await worker.run()
        except Exception as error:
            if not self.loop.over:
                self.say(f"worker ended: {type(error).__name__}: {error}")
        process.kill()

    @staticmethod
    def _spec(lane: str) -> LaneSpec:
        return LaneSpec(lane, POOL, weight=0, keyless=True)

    # -- callers

    def _call(self, n: int, lane: str = "") -> None:
        """One life of the caller of a payment; another one only when the last is over and owes nothing."""
        if n in self.fate:
            return
        self.fate[n] = "at work"
        self.calls += 1
        rng = random.Random(f"caller:{self.seed}:{n}:{self.calls}")
        process = Process(self.loop, f"c{n}.{self.calls}", lambda _: self._gone(n))
        process.spawn(self._pay(n, lane or rng.choice(self.lanes), process, rng))

    def _gone(self, n: int) -> None:
        """Whoever died owes nothing but what was accepted; the ledger answers for that."""
        if self.fate[n] != FINISHED:
            self.fate[n] = "dead"
        self.acknowledged.add(n)

    async def _pay(self, n: int, lane: str, process: Process, rng: random.Random) -> None:
        producer = Producer(self.ledger, new_life=lambda: f"{rng.getrandbits(64):016x}")
        while True:
            token = f"t{rng.getrandbits(64):016x}"
            number = await self._number(lane, token, rng)
            fate = rng.random() if not self.healing else 1.0
            if fate < 0.1:
                process.kill()  # before it sends: its number must come back by itself
                await process.gone()
            if fate < 0.25:
                await self._give_back(lane, token, rng)
                continue
            if fate < 0.35:
                await asyncio.sleep(TTL_MS / 1000 * rng.uniform(0.5, 1.5))  # a slow signer
            if number is None or not await self._send(producer, n, lane, token, number, 0, rng):
                continue
            if fate > 0.9 and not self.healing:
                process.kill()  # after it sent: its bytes must land
                await process.gone()
            if await self._wait(producer, n, lane, token, number, rng):
                self.fate[n] = FINISHED
                process.kill()
                await process.gone()

    async def _number(self, lane: str, token: str, rng: random.Random) -> int | None:
        """By turn or by reservation, with a count of the chain that may lag."""
        by_turn = rng.random() < 0.3
        ask = self.ledger.turn if by_turn else self.ledger.reserve
        count = self.machine.count(LaneId.parse(lane).address)
        stale = max(0, count - rng.choice((0, 0, 1, 5)))

        async def once() -> Reserved | Turn:
            try:
                return await ask(lane, token, TTL_MS, rng.choice((None, stale)), count)
            except NotFound:
                await self.ledger.register(self._spec(lane))
                raise Unavailable("just registered") from None

        for _ in range(200):
            answer = await self._insist(once)
            if answer.word == "waiting":
                await asyncio.sleep(0.3)
                continue
            return answer.nonce if answer.word in ("reserved", "granted") else None
        return None

    async def _give_back(self, lane: str, token: str, rng: random.Random) -> None:
        """And once more, late: by then the number may be another caller's."""
        back = self.ledger.unlock if rng.random() < 0.3 else self.ledger.recycle
        await self._insist(lambda: back(lane, token))
        await asyncio.sleep(rng.uniform(0.0, 3.0))
        await self._insist(lambda: self.ledger.recycle(lane, token))

    async def _send(
        self, producer: Producer, n: int, lane: str, token: str, nonce: int, level: int, rng: random.Random
    ) -> bool:
        """Whether the bytes were accepted; trouble repeats the same call and never gives the number back."""
        signer = SIGNERS[LANES.index(lane)]
        body = Body(bytes.fromhex(RECEIVER[2:]), 1000 + n, b"", 21_000)
        fees = Fees(400 * GWEI * 3**level // 2**level, 10 * GWEI * 3**level // 2**level)
        signed = sign_any(CHAIN_ID, nonce, fees, body, signer)
        key = f"raw:{signed.hash}"
        self.tokens[key] = token
        payload = {"raw": "0x" + signed.raw.hex()}
        self.tried.setdefault(n, []).append(signed.hash)
        intent = new_intent(key=key, pool=POOL, kind="evm.raw", payload=payload)
        use = Use(token, nonce, signed.hash)

        async def once() -> bool:
            [result] = await producer.submit_many([intent], lane=lane, use=use)
            if isinstance(result, NonceConflict):
                return False
            if isinstance(result, TxManagerError):
                raise result
            return True

        accepted = await self._insist(once)
        if accepted:
            self.sent.setdefault(n, []).append(signed.hash)
            if rng.random() < 0.2:
                await self._insist(lambda: self.ledger.recycle(lane, token))  # which must be refused
        return accepted

    async def _wait(self, producer: Producer, n: int, lane: str, token: str, nonce: int, rng: random.Random) -> bool:
        """Until the payment is made, outbidding itself now and then; False when other bytes used the number."""
        level = 0
        while True:
            await asyncio.sleep(2.0)
            records = [await self._insist(lambda h=h: self._record(h)) for h in self.sent[n]]  # type: ignore[misc]
            ends = [record.status for record in records if record is not None and record.status.final]
            if Status.DONE in ends:
                return True
            if len(ends) == len(records):
                return False
            if rng.random() < 0.1 and level < 6:
                level += 1
                await self._send(producer, n, lane, token, nonce, level, rng)

    async def _record(self, hash: str) -> Any:
        return await self.ledger.read(new_intent(key=f"raw:{hash}", pool=POOL, kind="evm.raw", payload={}).id)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except TxManagerError:
                await asyncio.sleep(0.5)

    # -- the course and the end

    async def _operate(self) -> None:
        if self.violations:
            self.acknowledged.update(range(len(self.intents)))  # seen enough
        await super()._operate()
        for lane in self.lanes:
            if lane in self.ledger.stores:
                await self.ledger.expire(lane)
        for lane, store in self.ledger.stores.items():
            if (
                store.reuse
                and any(not r.status.final for r in store.records.values())
                and self.next_at < self.loop.time()
            ):
                # Numbers that came back are used by whoever comes next: somebody does.
                self.next_at = self.loop.time() + 5.0
                n = len(self.intents)
                self.intents.append(self._intent(n))
                self._call(n, lane)

    def _busy(self) -> bool:
        return any(fate == "at work" for fate in self.fate.values())

    def _quiet(self) -> bool:
        return self.deep or bool(self.violations) or (not self._busy() and super()._quiet())

    def _on_cancel(self, amount: float) -> None:
        """Nobody can take back what somebody else signed."""

    def _on_retry(self, amount: float) -> None:
        """Callers repeat their own calls."""

    def _check_end(self) -> None:
        self._audit()
        paid = Counter(tx.value for block in self.machine.blocks for tx in block.txs if tx.to == RECEIVER)
        for value, times in paid.items():
            if times > 1:
                self.say(f"payment {value - 1000} was made {times} times")
        if self.deep:
            return
        for n, fate in self.fate.items():
            states = {h[:10]: self._end_of(h) for h in self.tried.get(n, [])}
            if "never" in [self._end_of(h) for h in self.sent.get(n, [])]:
                self.say(f"payment {n} was accepted and never ended ({states}, {fate})")
            if (paid[1000 + n] == 1) != (Status.DONE.value in states.values()):
                self.say(f"payment {n} was made {paid[1000 + n]} times and says {states}")
            if fate == "at work":
                self.say(f"caller {n} never got through")
        for lane, store in self.ledger.stores.items():
            if store.state.value == "quarantined":
                self.say(f"{lane[-6:]} was quarantined: {store.reason} {store.evidence}")

    def _end_of(self, hash: str) -> str:
        fact = self.owed.ended.get(f"raw:{hash}")
        return "never" if fact is None else fact.outcome.status.value


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=ReservingWorld)
