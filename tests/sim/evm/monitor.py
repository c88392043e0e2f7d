"""EVM lanes with monitors beside them: requests to owners, gaps, what is given up for being late, and top-ups.

The world is the one of `world.py`, with one or two monitors that die like everybody else, a treasury lane, and numbers
that a reorg takes from under a new lane. What is checked besides: nobody but a worker owns a lane, no cursor goes down,
no number of an intent is filled, nothing is bumped or given up but the lowest nonce, and a lane is not paid again while
a payment is on its way.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tests.sim.evm.machine import CHAIN_ID, GWEI
from tests.sim.evm.rpc import SimRpc
from tests.sim.evm.world import LANES, SIGNERS, Result, World
from tests.sim.evm.world import run as run_world
from tests.sim.history import Appended, Ended, Fact, Leased, Recorded
from tests.sim.loop import Process, VirtualLoop
from txmanager.chains.evm import EvmChain, LaneId
from txmanager.chains.evm.family import FAMILY
from txmanager.chains.evm.reader import EvmReader
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.core.health import Limits
from txmanager.core.models import Purpose
from txmanager.core.purses import Marks
from txmanager.core.states import LaneState, Status
from txmanager.rpc.errors import RpcError
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.care.monitor import Monitor, Watched
from txmanager.runtime.care.monitor_metrics import MonitorMetrics
from txmanager.runtime.care.purse_metrics import PurseMetrics
from txmanager.runtime.care.purses import Cared, PurseKeeper
from txmanager.runtime.care.top_ups import TopUps
from txmanager.settings import Settings
from txmanager.wiring import build_kinds

TREASURY = LANES[2]
MARKS = Marks(10**22, 10**22 + 10**20)
SPAN_MS = 60_000
_METRICS, _PURSE_METRICS = MonitorMetrics(), PurseMetrics()
_BUDGET = {"network": "sim", "amount": str(10**24), "per": "1h"}
SETTINGS = Settings.model_validate(
    {
        "networks": {"sim": {"chain": "evm", "chain_id": CHAIN_ID, "rpc": [{"url": "http://127.0.0.1:1"}]}},
        "pools": {"treasury": {"network": "sim", "policy": {"max_cost": str(2 * 10**22), "budget": [_BUDGET]}}},
    }
)


class MonitoredWorld(World):
    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        self.dice = random.Random(f"monitor:{seed}")
        self.policy = replace(self.policy, cancel_after_ms=self.dice.choice((None, None, 7_000)), fill_after_ms=2_000)
        self.lanes = [*self.lanes, TREASURY]
        self.pools = {TREASURY: "treasury"}
        self.early = self.dice.random() < 0.4
        """Whether the first lane begins above a transaction that a reorg then takes back."""
        self.generations: dict[int, int] = {}
        self.cursors: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.cheap: set[tuple[str, int]] = set()
        """Whose price a node has refused: any nonce may be priced again then."""
        self.paying: dict[str, str] = {}
        """Address to the key of the payment that is on its way."""
        self.foreign: dict[str, set[str]] = {}
        """Hashes that somebody else signed with a lane's key."""
        self.stopped: set[str] = set()
        """Lanes that were quarantined at some time."""

    # -- monitors

    async def main(self) -> None:
        if self.early:
            signer = SIGNERS[0]
            body = Body(bytes.fromhex("dd" * 20), 1, b"", 21_000)
            raw = sign_any(CHAIN_ID, 0, Fees(9 * GWEI, GWEI), body, signer).raw
            self.machine.send(raw)
            self.machine.mine()
            self._take_back()
        for number in range(self.dice.choice((1, 2))):
            self._watch(number)
        await super().main()

    def _take_back(self) -> None:
        """As soon as the lane has read its first nonce, and before anything was signed with it."""
        store = self.ledger.stores.get(LANES[0])
        if store is None or (store.cursor is None and not store.records):
            self.loop.later(0.05, self._take_back)
        elif not self.owed.nonces:
            self.machine.reorg(self.machine.head.number, 0.0)
            self.struck["taken_back"] += 1

    def _watch(self, number: int) -> None:
        self.generations[number] = self.generations.get(number, 0) + 1
        name = f"m{number}.{self.generations[number]}"

        def died(_: Any) -> None:
            if not self.loop.over:
                self.loop.later(0.5 + 3.0 * self.dice.random(), self._watch, number)

        process = Process(self.loop, name, died)
        process.spawn(self._monitor(process, name))
        if not self.healing and self.dice.random() < 0.5:
            self.loop.later(self.dice.uniform(2.0, 20.0), process.kill)

    async def _monitor(self, process: Process, name: str) -> None:
        rng = random.Random(f"{name}:{self.seed}")
        producer = Producer(self.ledger, new_life=lambda: f"{rng.getrandbits(64):016x}")
        limits = Limits(stuck_after_ms=8_000, overdue_after_ms=20_000, dropped_after_ms=1_500)
        watched = Watched("sim", EvmReader(CHAIN_ID, rpc=SimRpc(self, rng)), limits)
        process.spawn(self._keep_purses(name, producer, rng))
        monitor = Monitor(
            self.ledger,
            {f"evm:{CHAIN_ID}": watched},
            period_s=3.0,
            reconcile_every_s=10.0,
            metrics=_METRICS,
            clock=self._now_ms,
            name=name,
        )
        try:
            await monitor.run()
        except Exception as error:
            if not self.loop.over:
                self.say(f"monitor ended: {type(error).__name__}: {error}")
        process.kill()

    async def _keep_purses(self, name: str, producer: Producer, rng: random.Random) -> None:
        billing, kinds, side = build_billing(SETTINGS), build_kinds(SETTINGS), FAMILY.purses
        assert side is not None
        top_ups = TopUps(
            self.ledger, producer, billing, "treasury", side.pay, lambda k, p, told: kinds[k].read(p, told), SPAN_MS
        )
        chain = EvmChain(CHAIN_ID, (), {}, settings=self.network, rpc=SimRpc(self, rng))
        cared = Cared("sim", chain, side, {"account": MARKS}, top_ups)
        keeper = PurseKeeper(
            self.ledger, {f"evm:{CHAIN_ID}": cared}, billing, period_s=3.0, metrics=_PURSE_METRICS, name=name
        )
        try:
            await keeper.run()
        except Exception as error:
            if not self.loop.over:
                self.say(f"keeper ended: {type(error).__name__}: {error}")

    # -- checked where it happens

    def recorded(self, fact: Recorded) -> None:
        super().recorded(fact)
        address = LaneId.parse(fact.lane).address
        if fact.purpose not in (Purpose.REPLACE, Purpose.NOOP) or self._reorged() or fact.lane in self.tampered:
            return
        used = self.machine.count(address)
        lower = [n for lane, n in self.owed.nonces if lane == fact.lane and used <= n < fact.nonce]
        asked = fact.id.key in self.cancelled or (address, fact.nonce) in self.cheap
        if lower and not asked:
            self.say(f"nonce {fact.nonce} of {fact.id.key} was priced again while {min(lower)} was open")

    def _reorged(self) -> bool:
        return self.deep or self.early or self.struck["shallow_reorg"] > 0

    def ended(self, fact: Ended) -> None:
        super().ended(fact)
        error = fact.outcome.error or {}
        late = error.get("code") == "not_included" and self.policy.cancel_after_ms is not None
        if fact.outcome.status is Status.CANCELLED and fact.id.key not in self.cancelled and not late:
            self.say(f"{fact.id.key} was cancelled, and nobody asked for it")
        for address, key in list(self.paying.items()):
            if key == fact.id.key:
                del self.paying[address]

    def noted(self, fact: Fact) -> None:
        if isinstance(fact, Leased) and not fact.owner.startswith("w"):
            self.say(f"{fact.owner} took the lease of {fact.lane[-6:]}")
        if isinstance(fact, Appended) and fact.id.pool == "treasury":
            store = self.ledger.stores[fact.lane]
            address = str(store.records[fact.id].intent.payload["to"])
            if address in self.paying:
                self.say(f"{address[-6:]} is paid by {fact.id.key} while {self.paying[address]} is on its way")
            self.paying[address] = fact.id.key

    def _check_sent(self, params: Any) -> None:
        tx = self.machine.decode(bytes.fromhex(params[0][2:]))
        lane = str(LaneId(CHAIN_ID, tx.sender))
        store = self.ledger.stores.get(lane)
        filled = store is not None and any(a.hash == tx.hash for a in store.fills.values())
        if filled and self.deep:
            return  # it competes with what was settled, and gone since: whichever lands, the number is used
        super()._check_sent(params)
        if filled and (lane, tx.nonce) in self.owed.nonces:
            self.say(f"nonce {tx.nonce} of {self.owed.nonces[lane, tx.nonce]} was filled")

    async def ask(self, method: str, params: Any) -> Any:
        try:
            return await super().ask(method, params)
        except RpcError as error:
            if method == "eth_sendRawTransaction" and "underpriced" in str(error):
                tx = self.machine.decode(bytes.fromhex(params[0][2:]))
                self.cheap.add((tx.sender, tx.nonce))
            raise

    def _tick(self) -> None:
        super()._tick()
        for lane, store in self.ledger.stores.items():
            if store.cursor is not None:
                if store.cursor < self.cursors.get(lane, 0):
                    self.say(f"the cursor of {lane[-6:]} went down from {self.cursors[lane]} to {store.cursor}")
                self.cursors[lane] = store.cursor

    def _on_foreign_use(self, amount: float) -> bool:
        lane = self.lanes[int(amount * len(self.lanes))]
        address = LaneId.parse(lane).address
        struck = super()._on_foreign_use(amount)
        if struck:
            self.foreign.setdefault(lane, set()).add(self.machine.pool[address][self.machine.count(address)].hash)
        return struck

    async def _operate(self) -> None:
        self.stopped |= {lane for lane, store in self.ledger.stores.items() if store.state is LaneState.QUARANTINED}
        await super()._operate()

    def _unnoticed(self) -> list[str]:
        """Lanes whose key somebody else used on chain, and that were never stopped for it. A number from before the
        lane is nobody's: whoever uses that up does what the lane would."""
        found = []
        for lane, hashes in self.foreign.items():
            landed = [told[1] for hash in hashes if (told := self.machine.find(hash)) is not None]
            ours = self.ledger.stores[lane].baseline or 0
            if lane not in self.stopped and any(tx.nonce >= ours for tx in landed):
                found.append(lane)
        return found

    def _quiet(self) -> bool:
        return super()._quiet() and (self.deep or not self._unnoticed())

    def _check_end(self) -> None:
        super()._check_end()
        for lane in [] if self.deep else self._unnoticed():
            self.say(f"somebody else used the key of {lane[-6:]}, and nobody noticed")

    def _on_cancel(self, amount: float) -> None:
        self.cancelled.add(self.intents[int(amount * len(self.intents))].id.key)
        super()._on_cancel(amount)


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=MonitoredWorld)
