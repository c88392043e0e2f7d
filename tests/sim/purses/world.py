"""Several monitors over one treasury: real keepers, a real ledger behind a bad network, money on a small chain.

Monitors die and freeze at any await, requests and replies get lost, nodes lag. Spenders drain an account that three
lanes share, and a gas key of two lanes. What must hold: a purse never gets more than `high`, has one payment on its
way at most, the treasury pays no more than its budget, and in the end nothing is low that the budget could fill.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from structlog.testing import capture_logs

from tests.sim.loop import Life, Process, VirtualLoop, ordered_task_groups
from txmanager.chains.near.purses import PURSES
from txmanager.core.budgets import cost_of
from txmanager.core.chain import NonceView, Readings
from txmanager.core.errors import TxManagerError, Unavailable
from txmanager.core.funds import Funds, Purse
from txmanager.core.ledger import Settlement, WriteAhead
from txmanager.core.models import Attempt, LaneSpec, Outcome, Purpose, Record
from txmanager.core.purses import Marks, amount_due
from txmanager.core.states import Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.care.charges import sweep_charges
from txmanager.runtime.care.purse_metrics import PurseMetrics
from txmanager.runtime.care.purses import Cared, PurseKeeper
from txmanager.runtime.care.top_ups import TopUps
from txmanager.settings import Settings
from txmanager.wiring import build_kinds

NEAR = 10**24
EPOCH_MS = 1_700_000_000_000
EVERY_MS = 60_000
CHAOS_S, CALM_S = 260.0, 500.0
FEE = 10**21
KEYS = ["ed25519:" + letter * 43 + "1" for letter in "BCDE"]
ACCOUNT = "near:sim:relayer.near"
LANES = [*(f"{ACCOUNT}:{key}" for key in KEYS[:3]), *(f"{ACCOUNT}:{KEYS[3]}:{n}" for n in range(2))]
GAS_KEY = f"{ACCOUNT}:{KEYS[3]}"
TREASURY = f"near:sim:treasury.near:{KEYS[0]}"
MARKS = {"account": Marks(5 * NEAR, 20 * NEAR), "gas_key": Marks(NEAR, 2 * NEAR)}
SIDE = PURSES
"""What the monitors go by; seeded bugs put another one here."""
_METRICS = PurseMetrics()


def settings(cap: int) -> Settings:
    rpc = [{"url": "http://127.0.0.1:1"}]
    budget = [{"network": "sim", "amount": str(cap), "per": "1h"}]
    return Settings.model_validate(
        {
            "networks": {"sim": {"chain": "near", "rpc": rpc}},
            "pools": {
                "relay": {"network": "sim", "account": "relayer.near"},
                "treasury": {"network": "sim", "account": "treasury.near", "policy": {"budget": budget}},
            },
        }
    )


@dataclass
class Money:
    """Balances as they are, and as a node that lags by some seconds shows them."""

    now: Callable[[], float]
    balances: dict[str, int] = field(default_factory=lambda: {ACCOUNT: 20 * NEAR, GAS_KEY: 2 * NEAR})
    past: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def change(self, purse: str, by: int) -> None:
        self.past.append((self.now(), dict(self.balances)))
        self.balances[purse] += by

    def shown(self, lag_s: float) -> dict[str, int]:
        return next((told for at, told in self.past if at > self.now() - lag_s), self.balances)


class SmallChain:
    def __init__(self, world: World, rng: random.Random) -> None:
        self._world, self._rng = world, rng

    async def nonce(self, lane: str) -> NonceView:
        await asyncio.sleep(self._rng.uniform(0.0, 0.4))
        if self._world.chaos and self._rng.random() < 0.05:
            raise Unavailable("no node answers")
        shown = self._world.money.shown(self._rng.choice((0.0, 0.0, 4.0)) if self._world.chaos else 0.0)
        if lane == TREASURY:
            return NonceView(1, 1, 0, Funds((Purse("account", 10**30),), 1))
        purses = [Purse("account", shown[ACCOUNT])]
        if PURSES.of(lane, "gas_key") == GAS_KEY:
            purses.append(Purse("gas_key", shown[GAS_KEY], deposits=False))
        return NonceView(1, 1, 0, Funds(tuple(purses), 1))

    async def readings(self, lane: str, first: NonceView) -> Readings:
        return Readings({"node": first})

    async def close(self) -> None: ...


class BadNetwork:
    """The ledger as a monitor reaches it: late, and sometimes without an answer."""

    def __init__(self, ledger: MemoryLedger, world: World, rng: random.Random) -> None:
        self._ledger, self._world, self._rng = ledger, world, rng

    def __getattr__(self, name: str) -> Any:
        sound = getattr(self._ledger, name)
        if not inspect.iscoroutinefunction(sound):
            return sound

        async def call(*args: Any, **more: Any) -> Any:
            await asyncio.sleep(self._rng.uniform(0.0, 0.3))
            if self._world.chaos and self._rng.random() < 0.04:
                raise Unavailable("the request was lost")
            told = await sound(*args, **more)
            await asyncio.sleep(self._rng.uniform(0.0, 0.3))
            if self._world.chaos and self._rng.random() < 0.06:
                raise Unavailable("the reply was lost")
            return told

        return call


class World:
    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.loop, self.rng = loop, random.Random(f"purses:{seed}")
        self.seed, self.chaos = seed, True
        self.money = Money(loop.time)
        self.cap = self.rng.choice((35, 80, 400)) * NEAR
        self.settings = settings(self.cap)
        self.ledger = MemoryLedger(clock=self._now_ms, one_step=self.rng.random() < 0.5)
        self.said: list[str] = []
        self.paid: dict[str, int] = {}
        self.generations: dict[int, int] = {}

    def _now_ms(self) -> int:
        return EPOCH_MS + int(self.loop.time() * 1000)

    async def main(self) -> None:
        for lane in LANES:
            await self.ledger.register(LaneSpec(lane, "relay"))
        await self.ledger.register(LaneSpec(TREASURY, "treasury"))
        for number in range(self.rng.choice((2, 3))):
            self._watch(number)
        work = [asyncio.ensure_future(c) for c in (self._spend(), self._pay_out(), self._sweep(), self._look())]
        await asyncio.sleep(CHAOS_S)
        self.chaos = False
        await asyncio.sleep(CALM_S)
        for task in work:
            if task.done():
                self.said.append(f"the world broke: {task.exception()!r}")
            task.cancel()
        self._check_end()

    # -- monitors

    def _watch(self, number: int) -> None:
        self.generations[number] = self.generations.get(number, 0) + 1
        name = f"m{number}.{self.generations[number]}"
        process = Process(self.loop, name, lambda _: self.loop.later(self.rng.uniform(0.5, 8.0), self._watch, number))
        process.spawn(self._monitor(name))
        if self.chaos and self.rng.random() < 0.7:
            self.loop.later(self.rng.uniform(1.0, 50.0), process.kill)
        elif self.chaos and self.rng.random() < 0.5:
            self.loop.later(self.rng.uniform(1.0, 30.0), process.freeze)
            self.loop.later(self.rng.uniform(31.0, 90.0), self._thaw, process)

    def _thaw(self, process: Process) -> None:
        if process.life is not Life.DEAD:
            process.thaw()

    async def _monitor(self, name: str) -> None:
        rng = random.Random(f"{name}:{self.seed}")
        ledger: Any = BadNetwork(self.ledger, self, rng)
        billing, kinds = build_billing(self.settings), build_kinds(self.settings)
        producer = Producer(ledger, new_life=lambda: f"{rng.getrandbits(64):016x}")
        top_ups = TopUps(
            ledger, producer, billing, "treasury", SIDE.pay, lambda k, p, told: kinds[k].read(p, told), EVERY_MS
        )
        chain: Any = SmallChain(self, rng)
        cared = Cared("sim", chain, SIDE, MARKS, top_ups)  # type: ignore[arg-type]
        await PurseKeeper(ledger, {"near:sim": cared}, billing, period_s=3.0, metrics=_METRICS, name=name).run()

    # -- who spends, and who pays

    async def _spend(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.5, 3.0))
            if self.loop.time() < CHAOS_S + 300:
                for purse, most in ((ACCOUNT, NEAR), (GAS_KEY, NEAR // 8)):
                    spent = min(self.money.balances[purse], self.rng.randrange(1, most))
                    self.money.change(purse, -spent)

    async def _pay_out(self) -> None:
        """The treasury's worker: in order, each after a while; some end without having been signed."""
        lease = await self.ledger.lease(TREASURY, "w", "token", 10**9)
        fence = lease.fence
        assert fence is not None
        nonce = await self.ledger.baseline(fence, 1) - 1
        while True:
            await asyncio.sleep(self.rng.uniform(0.2, 12.0) if self.chaos else 0.5)
            for entry in await self.ledger.take(fence, 1):
                if self.chaos and self.rng.random() < 0.15:
                    unsigned = Outcome(Status.FAILED, error={"code": "expired", "message": "too old"})
                    await self.ledger.settle(fence, [Settlement(entry.intent.id, entry.life, entry.position, unsigned)])
                    continue
                nonce += 1
                attempt = Attempt(nonce, f"h{nonce}", b"raw", Purpose.FIRST, self._now_ms())
                ahead = WriteAhead(entry.intent.id, entry.life, entry.position, attempt)
                await self.ledger.record_attempts(fence, nonce, [ahead])
                await asyncio.sleep(self.rng.choice((0.5, 2.0, 40.0)) if self.chaos else 0.5)
                purse, amount = self._payment(entry.intent.payload)
                self.money.change(purse, amount)
                self.paid[purse] = self.paid.get(purse, 0) + amount
                if self.money.balances[purse] > MARKS[_kind(purse)].high:  # type: ignore[operator]
                    self.said.append(f"{purse} has {self.money.balances[purse] / NEAR:.2f} NEAR, above its high")
                await asyncio.sleep(self.rng.choice((0.1, 3.0)))
                done = Outcome(Status.DONE, tx_hash=attempt.hash, nonce=nonce, cost=amount + FEE)
                settled = Settlement(entry.intent.id, entry.life, entry.position, done)
                await self.ledger.settle(fence, [settled], landed=nonce)
            await self.ledger.retire(await self.ledger.unretired(TREASURY, 100))

    @staticmethod
    def _payment(payload: Any) -> tuple[str, int]:
        if "amount" in payload:
            return ACCOUNT, int(payload["amount"])
        [action] = payload["actions"]
        assert action["type"] == "transfer_to_gas_key"
        return GAS_KEY, int(action["amount"])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(20.0)
            try:
                await sweep_charges(self.ledger)
            except TxManagerError as error:
                self.said.append(f"the sweep failed: {error}")

    # -- what must hold

    def _records(self) -> list[Record]:
        return list(self.ledger.stores[TREASURY].records.values())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            open_ones: dict[str, list[str]] = {}
            for record in self._records():
                if not record.status.final:
                    open_ones.setdefault(self._payment(record.intent.payload)[0], []).append(record.id.key)
            for purse, keys in open_ones.items():
                if len(keys) > 1:
                    self.said.append(f"{purse} is paid by {' and by '.join(sorted(keys))} at once")

    def _check_end(self) -> None:
        finals = {r.life: r for r in (*self._records(), *self.ledger.homes.finals(self._now_ms()))}
        spent = sum(cost_of(record) for record in finals.values())
        if spent > self.cap:
            self.said.append(f"the treasury paid {spent / NEAR:.2f} NEAR, above its budget")
        for purse, balance in self.money.balances.items():
            due = amount_due(balance, MARKS[_kind(purse)], False)
            if due and spent + due + FEE + NEAR // 10 < self.cap:
                self.said.append(f"{purse} has {balance / NEAR:.2f} NEAR in the end, and nobody fills it up")


def _kind(purse: str) -> str:
    return "account" if purse == ACCOUNT else "gas_key"


@dataclass
class Played:
    violations: list[str]
    paid: dict[str, int]
    steps: int


def run(seed: int) -> Played:
    collecting = gc.isenabled()
    gc.disable()
    loop = VirtualLoop(random.Random(f"loop:{seed}"), 0.2)
    asyncio.set_event_loop(loop)
    try:
        world = World(seed, loop)
        with ordered_task_groups(), capture_logs():
            loop.run_until_complete(world.main())
        return Played(world.said, world.paid, loop.steps)
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
        if collecting:
            gc.enable()
