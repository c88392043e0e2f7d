"""One schedule of EVM lanes: the real producer, worker and adapter on virtual time, faults first, then quiet.

The checks are made where things become true: at the store's atomic step, at the node, on the chain; the rest at the
end, when every acknowledged intent must have ended and the chain must say the same as the ledger.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.sim import logs
from tests.sim.evm.machine import CHAIN_ID, GWEI, Machine, Refusal
from tests.sim.evm.rpc import SimRpc
from tests.sim.faults import Faults
from tests.sim.history import Ended, Fact, History, Recorded
from tests.sim.ledger import SimLedger
from tests.sim.loop import PROCESS, Life, Process, Stuck, VirtualLoop, order_task_groups
from tests.sim.plan import Plan, draw
from tests.sim.rules import broken_by_attempt, broken_by_end
from txmanager.chains.evm import EvmChain, EvmNetwork, LaneId
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.core.decide import Policy
from txmanager.core.errors import TxManagerError
from txmanager.core.models import Intent, LaneSpec, Purpose, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand
from txmanager.rpc.errors import ConnectionFailed, RateLimited, RpcError, TimedOut
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.metrics import Metrics
from txmanager.runtime.lane.worker import Service, Timing, Worker
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret
from txmanager.signing.signer import Signer

POOL = "pool"
EPOCH_MS = 1_700_000_000_000
BLOCK_S = 1.0
HEAL_S = 300.0
SIGNERS = [EvmSigner(Secret(bytes([n + 1]) * 32)) for n in range(3)]
LANES = [str(LaneId(CHAIN_ID, s.address)) for s in SIGNERS]
RECEIVER = "0x" + "ee" * 20
METRICS = Metrics()
order_task_groups()

EVENTS = (
    "kill",
    "freeze",
    "drop",
    "spike",
    "shallow_reorg",
    "deep_reorg",
    "foreign_use",
    "cancel",
    "retry",
    "funds_gone",
)
_OFTEN = {"deep_reorg": 0.04, "foreign_use": 0.08, "funds_gone": 0.1}


@dataclass(slots=True)
class Result:
    seed: int
    violations: list[str]
    ends: Counter[str]
    struck: Counter[str]
    lines: list[str] | None
    virtual_s: float
    digest: tuple[Any, ...]


@dataclass(slots=True)
class WatchedHistory(History):
    world: Any = None

    def note(self, fact: Fact) -> None:
        History.note(self, fact)
        if isinstance(fact, Recorded):
            self.world.recorded(fact)
        elif isinstance(fact, Ended):
            self.world.ended(fact)
        else:
            self.world.noted(fact)


@dataclass(slots=True)
class _Seat:
    number: int
    generation: int = 0
    process: Process | None = None


@dataclass(slots=True)
class _Owed:
    """What the checker remembers."""

    firsts: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    nonces: dict[tuple[str, int], str] = field(default_factory=dict)
    prices: dict[tuple[str, int], dict[str, Fees]] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    killed: set[tuple[str, str]] = field(default_factory=set)
    """Intents with a no-op, by key and life."""


class World:
    agreement = 1
    """How many nodes must say what ends an intent without an effect. Nodes do not lie here."""
    agreement_for_done = False

    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        self.seed, self.loop = seed, loop
        self.rng = random.Random(f"evm:{seed}")
        self.plan: Plan = draw(seed)
        self.violations: list[str] = []
        self.struck: Counter[str] = Counter()
        self.finality = self.rng.choice((1, 3, 4, 6))
        self.policy = Policy(
            window=self.rng.choice((1, 2, 4, 16)),
            max_window=(steps := random.Random(f"window:{seed}")).choice((0, 0, 8, 64)),
            max_inflight=self.rng.choice((4, 16, 256)),
            include_within_ms=3_000,
            replace_after_ms=self.rng.choice((5_000, 9_000)),
        )
        self.machine = Machine(random.Random(f"machine:{seed}"))
        self.machine.room = steps.choice((None, None, 1, 3, 6))
        for signer in SIGNERS:
            self.machine.balance[signer.address] = 10**24
        self.faults = Faults(self.plan, loop.time, lambda _: ())
        self.history = WatchedHistory(loop.time, lines=[] if verbose else None, world=self)
        self.ledger = SimLedger(
            loop,
            self.faults,
            self.history,
            clock=self._server_ms,
            retention_ms=7 * 24 * 3_600_000,
            vouches=True,
            pause=self._pause_current,
            one_step=self.plan.one_step,
        )
        self.history.strangers = self._strangers
        self.owed = _Owed()
        self.lanes = LANES[: self.rng.choice((1, 2))]
        self.pools: dict[str, str] = {}
        """Lanes of another pool than the callers'."""
        self.seats = [_Seat(n) for n in range(self.rng.choice((1, 2, 3)))]
        self.healing = False
        self.intents = [self._intent(n) for n in range(self.rng.randint(3, 10))]
        self.acknowledged: set[int] = set()
        self.tampered: set[str] = set()
        self.deep: bool = False

    def say(self, words: str) -> None:
        self.violations.append(f"{self.loop.time():.3f} {words}")

    def _now_ms(self) -> int:
        return EPOCH_MS + int(self.loop.time() * 1000)

    def _server_ms(self) -> int:
        return self._now_ms()

    def _worker_ms(self, process: Process) -> int:
        return self._now_ms() + process.clock_offset_ms

    def _intent(self, n: int) -> Intent:
        payload = {"to": RECEIVER, "value": str(1000 + n)}
        return new_intent(key=f"k{n}", pool=POOL, kind="evm.transfer", payload=payload)

    def _strangers(self, lane: str, ours: Iterable[int]) -> bool:
        """Whether a final block uses a nonce that was never signed here."""
        cursor, height = self.ledger.stores[lane].cursor, self.machine.head.number - self.finality + 1
        used = self.machine.count(LaneId.parse(lane).address, height) if height >= 0 else 0
        return cursor is not None and used > cursor

    # -- checked where it happens

    def recorded(self, fact: Recorded) -> None:
        for words in broken_by_attempt(fact):
            self.say(words)
        if fact.purpose is Purpose.NOOP:
            self.owed.killed.add((fact.id.key, fact.life))
        place = (fact.lane, fact.nonce)
        owner = self.owed.nonces.setdefault(place, fact.id.key)
        if owner != fact.id.key:
            self.say(f"nonce {fact.nonce} of {owner} was handed to {fact.id.key}")
        if fact.purpose is Purpose.FIRST:
            stream = tuple(map(int, fact.position.split("-")))
            before = self.owed.firsts.get(fact.lane)
            if before is not None and (stream <= before[0] or fact.nonce <= before[1]):
                self.say(f"{fact.id.key} was signed out of order")
            self.owed.firsts[fact.lane] = (stream, fact.nonce)
        if fact.purpose is Purpose.RESIGN:
            for death in fact.deaths:
                self._check_death(fact.lane, death)
            if fact.unproven:
                self.say(f"{fact.id.key} was signed again without a proof of death")

    def _check_death(self, lane: str, name: str) -> None:
        nonce, _, hash = name.partition(":")
        height = self.machine.head.number - self.finality + 1
        used = height >= 0 and self.machine.count(LaneId.parse(lane).address, height) > int(nonce)
        if not used or self.machine.find(hash) is not None:
            self.say(f"{hash[:10]} was called dead, and was not")

    def ended(self, fact: Ended) -> None:
        outcome = fact.outcome
        for words in broken_by_end(fact, killed=(fact.id.key, fact.life) in self.owed.killed):
            self.say(words)
        if fact.id.key in self.owed.ended:
            self.say(f"{fact.id.key} ended twice")
        self.owed.ended[fact.id.key] = fact
        # A reorg beyond finality may come between the look and the write.
        early = outcome.tx_hash is not None and not self.machine.final(outcome.tx_hash, self.finality)
        if early and not self.deep:
            self.say(f"{fact.id.key} was settled by {str(outcome.tx_hash)[:10]} before that was final")
        if outcome.tx_hash is None:
            for death in fact.deaths:
                self._check_death(fact.lane, death)

    def noted(self, fact: Fact) -> None:
        """Whatever else the ledger did."""

    # -- the way to the chain

    async def ask(self, method: str, params: Any) -> Any:
        process = PROCESS.get()
        assert process is not None
        sends = method == "eth_sendRawTransaction"
        if sends:
            self._check_sent(params)
        fault = self.faults.draw("rpc", f"{process.name} {method}")
        amount = self.faults.amount("rpc") if fault else 0.0
        if fault:
            self.struck[fault] += 1
        if fault == "rpc_crash" and amount < 0.5:
            process.kill()
        await asyncio.sleep(0.0005 + (amount * 3.0 if fault == "rpc_slow" else 0.0))
        if process.life is Life.DEAD:
            await process.gone()
        if fault == "rpc_lost":
            raise ConnectionFailed("connection refused")
        if fault == "rpc_rate_limit":
            raise RateLimited("too many requests")
        if fault == "rpc_error":
            raise RpcError({"code": -32000, "message": "internal error"})
        if fault == "rpc_refusal" and sends and amount < 0.3:
            raise RpcError({"code": -32000, "message": self.rng.choice(("txpool is full", "words nobody knows"))})
        if fault == "rpc_late":
            self.loop.later(amount * amount * 20.0, self._arrive, method, params)
            await asyncio.sleep(0.5 + amount)
            raise TimedOut("no answer in time")
        try:
            answer = self.machine.rpc(method, params)
        except Refusal as refusal:
            raise RpcError({"code": -32000, "message": str(refusal)}) from None
        if fault == "rpc_duplicate" and sends:
            self.loop.later(amount * amount * 20.0, self._arrive, method, params)
        if fault == "rpc_crash":
            process.kill()
            await process.gone()
        if fault == "rpc_pause":
            self._pause_current(amount)
        if fault == "rpc_timeout":
            await asyncio.sleep(0.5 + amount)
            raise TimedOut("no answer in time")
        await asyncio.sleep(0.0)
        return answer

    def tells(self, node: int, method: str, params: Any, answer: Any) -> Any:
        """What a node makes of the truth."""
        return answer

    def _arrive(self, method: str, params: Any) -> None:
        try:
            self.machine.rpc(method, params)
        except Refusal:
            return

    def _check_sent(self, params: Any) -> None:
        tx = self.machine.decode(bytes.fromhex(params[0][2:]))
        if tx.hash not in self.history.recorded:
            self.say(f"{tx.hash[:10]} (nonce {tx.nonce}) was sent before it was written ahead")
        known = self.owed.prices.setdefault((tx.sender, tx.nonce), {})
        if tx.hash not in known:
            for other in known.values():
                if tx.fees.max_fee * 100 < other.max_fee * 110 or tx.fees.tip * 100 < other.tip * 110:
                    self.say(f"nonce {tx.nonce} was replaced for less than 10 % more")
            known[tx.hash] = tx.fees
        if tx.fees.max_fee > self.network.max_fee:
            self.say(f"{tx.hash[:10]} passes the cap")

    # -- processes

    @property
    def network(self) -> EvmNetwork:
        return EvmNetwork(finality=self.finality, max_fee=5_000 * GWEI, fees_fresh_s=0.5)

    def _start(self, seat: _Seat) -> None:
        if seat.process is not None and seat.process.life is not Life.DEAD:
            return
        seat.generation += 1
        seat.process = Process(self.loop, f"w{seat.number}.{seat.generation}", lambda _: self._died(seat))
        seat.process.spawn(self._work(seat, seat.process))

    def _died(self, seat: _Seat) -> None:
        self.loop.later(0.2 + 5.0 * self.rng.random() ** 2, self._start, seat)

    def keys(self) -> dict[str, Signer]:
        """Of a worker that starts now."""
        return dict(zip(LANES, SIGNERS, strict=True))

    async def _work(self, seat: _Seat, process: Process) -> None:
        rng = random.Random(f"{process.name}:{self.seed}")
        chain = EvmChain(
            CHAIN_ID,
            (),
            self.keys(),
            settings=self.network,
            rpc=SimRpc(self, rng),
            agreement=self.agreement,
            agreement_for_done=self.agreement_for_done,
        )
        worker = Worker(
            self.ledger,
            {lane: Service(LaneSpec(lane, self.pools.get(lane, POOL)), chain, self.policy) for lane in self.lanes},
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

    def _point(self, process: Process, where: str) -> None:
        if self.faults.draw("point", where):
            self.struck["crash_point"] += 1
            process.kill()

    def _pause_current(self, amount: float) -> None:
        process = PROCESS.get()
        if process is not None:
            process.freeze()
            self.loop.later(1.0 + 6.0 * amount, process.thaw)

    # -- the course

    async def main(self) -> None:
        self._tick()
        for seat in self.seats:
            self.loop.later(self.rng.uniform(0.0, 0.5), self._start, seat)
        for n in range(len(self.intents)):
            self.loop.later(self.rng.uniform(0.5, 15.0), self._call, n)
        for kind in EVENTS:
            for _ in range(3):
                if self.rng.random() < _OFTEN.get(kind, 0.4):
                    self.loop.later(self.rng.uniform(1.0, 25.0), self._strike, kind, self.rng.random())
        await asyncio.sleep(25.0)
        self.faults.on, self.healing = False, True
        for seat in self.seats:
            if seat.process is not None:
                seat.process.thaw()
        for signer in SIGNERS:
            self.machine.balance[signer.address] = max(10**24, self.machine.balance[signer.address])
        until = self.loop.time() + HEAL_S
        while self.loop.time() < until:
            await asyncio.sleep(1.0)
            for n in range(len(self.intents)):
                if n not in self.acknowledged and int(self.loop.time()) % 8 == 0:
                    self._call(n)
            await self._operate()
            if len(self.acknowledged) == len(self.intents) and self._quiet():
                break
        self._check_end()

    def _tick(self) -> None:
        self.machine.mine()
        self.loop.later(BLOCK_S, self._tick)

    def _call(self, n: int) -> None:
        async def submit() -> None:
            client = Producer(self.ledger, new_life=lambda: f"{self.rng.getrandbits(64):016x}")
            while n not in self.acknowledged:
                try:
                    await client.submit(self.intents[n])
                    self.acknowledged.add(n)
                except TxManagerError:
                    await asyncio.sleep(0.5)

        Process(self.loop, f"p{n}").spawn(submit())

    async def _operate(self) -> None:
        for lane, store in self.ledger.stores.items():
            if store.state is LaneState.QUARANTINED and (lane in self.tampered or self.deep):
                await self.ledger.set_lane(lane, LaneState.PAUSED, command=LaneCommand.REBASELINE)

    def _quiet(self) -> bool:
        live = [r for s in self.ledger.stores.values() for r in s.records.values() if not r.status.final]
        # After a reorg beyond finality, nonces below what was settled are nobody's: only a person can fill them.
        return self.deep or not live

    def _strike(self, kind: str, amount: float) -> None:
        if self.healing or getattr(self, f"_on_{kind}")(amount) is False:
            return
        self.struck[kind] += 1

    def _on_kill(self, amount: float) -> bool:
        process = self.seats[int(amount * len(self.seats))].process
        if process is None or process.life is Life.DEAD:
            return False
        process.kill()
        return True

    def _on_freeze(self, amount: float) -> bool:
        process = self.seats[int(amount * len(self.seats))].process
        if process is None or process.life is not Life.RUNNING:
            return False
        process.freeze()
        self.loop.later(1.0 + 7.0 * amount, process.thaw)
        return True

    def _on_drop(self, amount: float) -> None:
        self.machine.drop()

    def _on_spike(self, amount: float) -> None:
        self.machine.next_base_fee = int(self.machine.next_base_fee * (2 + 30 * amount))

    def _on_shallow_reorg(self, amount: float) -> bool:
        if self.finality < 2:
            return False
        self.machine.reorg(1 + int(amount * (self.finality - 1)), self.rng.choice((0.0, 0.5, 1.0)))
        return True

    def _on_deep_reorg(self, amount: float) -> bool:
        self.deep = True
        self.machine.reorg(self.finality + 1 + int(amount * 4), self.rng.choice((0.0, 0.5)))
        return True

    def _on_foreign_use(self, amount: float) -> bool:
        lane = self.lanes[int(amount * len(self.lanes))]
        signer = SIGNERS[LANES.index(lane)]
        if self.ledger.stores.get(lane) is None or self.ledger.stores[lane].cursor is None:
            return False
        self.tampered.add(lane)
        body = Body(bytes.fromhex("dd" * 20), 1, b"", 21_000)
        fees = Fees(4_000 * GWEI, 4_000 * GWEI)
        tx = sign_any(CHAIN_ID, self.machine.count(signer.address), fees, body, signer)
        self.machine.pool.setdefault(signer.address, {})[self.machine.count(signer.address)] = self.machine.decode(
            tx.raw
        )
        return True

    def _on_cancel(self, amount: float) -> None:
        intent = self.intents[int(amount * len(self.intents))]

        async def cancel() -> None:
            try:
                await self.ledger.cancel(intent.id)
            except TxManagerError:
                return

        Process(self.loop, "canceller").spawn(cancel())

    def _on_retry(self, amount: float) -> None:
        n = int(amount * len(self.intents))
        self.acknowledged.discard(n)
        self._call(n)

    def _on_funds_gone(self, amount: float) -> None:
        for signer in SIGNERS:
            self.machine.balance[signer.address] = 10**9

        def fund() -> None:
            for signer in SIGNERS:
                self.machine.balance[signer.address] = 10**24

        self.loop.later(1.0 + 8.0 * amount, fund)

    # -- the end

    def _check_end(self) -> None:
        paid = Counter(tx.value for block in self.machine.blocks for tx in block.txs if tx.to == RECEIVER)
        for value, times in paid.items():
            if times > 1:
                self.say(f"k{value - 1000} was paid {times} times")
        if self.deep:
            return  # what a chain takes back after finality, no ledger can answer for
        for n in range(len(self.intents)):
            key, times = f"k{n}", paid[1000 + n]
            fact = self.owed.ended.get(key)
            if fact is None:
                if n in self.acknowledged:
                    states = {s.spec.id[-6:]: (s.state, s.reason) for s in self.ledger.stores.values()}
                    self.say(f"{key} was accepted and never ended ({states})")
                continue
            if (fact.outcome.status is Status.DONE) != (times == 1):
                self.say(f"{key} ended {fact.outcome.status} and was paid {times} times")
            found = self.machine.find(fact.outcome.tx_hash) if fact.outcome.tx_hash else None
            if fact.outcome.status is Status.DONE and found is None:
                self.say(f"{key} is done by a hash that is not on chain")
        for lane in self.lanes:
            store = self.ledger.stores.get(lane)
            if store is not None and store.state is LaneState.QUARANTINED and lane not in self.tampered:
                self.say(f"{lane[-6:]} was quarantined without a cause: {store.reason} {store.evidence}")


def run(seed: int, *, verbose: bool = False, kind: type[World] = World) -> Result:
    collecting = gc.isenabled()
    gc.disable()
    loop = VirtualLoop(random.Random(f"loop:{seed}"))
    asyncio.set_event_loop(loop)
    world = kind(seed, loop, verbose)
    logs.listen(world.history)
    try:
        try:
            loop.run_until_complete(world.main())
        except Stuck as stuck:
            world.say(str(stuck))
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
        logs.listen(None)
        if collecting:
            gc.enable()
    ends = Counter(f.outcome.status.value for f in world.owed.ended.values())
    digest = tuple((round(f.at, 6), type(f).__name__) for f in world.history.facts)
    return Result(seed, world.violations, ends, world.struck, world.history.lines, loop.time(), digest)
