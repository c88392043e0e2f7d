"""One schedule: workers, producers, operators, a ledger and a chain; first chaos, then quiet, then the questions.

In the chaos faults strike; then they end, everybody is up again, operators do what they would do, and every accepted
intent has a bounded time to end or to be held by name. Finally every key is asked for once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.sim import logs
from tests.sim.cast import (
    EPOCH_MS,
    FUNDER,
    GENESIS,
    LANES,
    POOL,
    RECEIVER,
    RELAYER,
    SIGNER_OF_FUNDER,
    SIGNERS,
    Seat,
)
from tests.sim.checker import Checked, blocked_by_holds, check
from tests.sim.faults import Faults
from tests.sim.history import Answered, Broke, Held, History, Moved
from tests.sim.ledger import SimLedger, few_homes
from tests.sim.loop import PROCESS, Life, Process, Stuck, VirtualLoop, ordered_task_groups
from tests.sim.nodes import Nodes, SimNetwork, SimRpc, decoded_once
from tests.sim.plan import Plan
from tests.sim.strikes import Strikes
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.core.decide import Policy
from txmanager.core.errors import NotAllowed, NotFound, TxManagerError
from txmanager.core.models import Attempt, Intent, LaneSpec, Record, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause
from txmanager.devnet import fees
from txmanager.devnet.model import Account, Transfer, Tx
from txmanager.devnet.network import Config
from txmanager.devnet.views import b58
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.care.sweeper import Sweeper
from txmanager.runtime.lane.metrics import Metrics
from txmanager.runtime.lane.worker import Service, Timing, Worker
from txmanager.signing.signer import Signer

ENDS_WITHIN_S = 120.0
"""Once the faults are over, everything that was accepted ends so soon, or waits for a person by name."""
METRICS = Metrics()


@dataclass(slots=True)
class Result:
    plan: Plan
    violations: list[str]
    struck: list[tuple[float, str, str, int]]
    cells: Counter[tuple[str, str]]
    ends: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    virtual_s: float = 0.0
    lines: list[str] | None = None
    digest: int = 0


def run(plan: Plan, *, verbose: bool = False, kind: type[World] | None = None) -> Result:
    """Run a whole schedule and judge it. Deterministic: the same plan gives the same result."""
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle would run finalizers at a moment of its own choosing
    loop = VirtualLoop(random.Random(f"loop:{plan.seed}"), plan.shuffle)
    history = History(loop.time, lines=[] if verbose else None)
    logs.listen(history)
    asyncio.set_event_loop(loop)
    try:
        world = (kind or World)(plan, loop, history)
        try:
            with decoded_once(), few_homes(), ordered_task_groups():
                loop.run_until_complete(world.main())
        except Stuck as stuck:
            history.note(Broke(loop.time(), str(stuck)))
        checked = check(world.evidence())
        violations = checked.violations
        ends = checked.ends
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
        logs.listen(None)
        if collecting:
            gc.enable()
    digest = hash(tuple((round(f.at, 6), type(f).__name__) for f in history.facts if not isinstance(f, Held | Moved)))
    faults = world.faults
    return Result(plan, violations, faults.struck, faults.cells, ends, loop.steps, loop.time(), history.lines, digest)


def _is_strange(tx: Tx, key: tuple[str, str], history: History) -> bool:
    return (tx.signer_id, tx.public_key) == key and b58(tx.hash) not in history.recorded


class World(Strikes):
    agreement = 1
    """How many nodes must say what ends an intent without an effect. Nodes do not lie here."""
    agreement_for_done = False
    nodes_seen: type[SimRpc] = SimRpc

    def __init__(self, plan: Plan, loop: VirtualLoop, history: History) -> None:
        self.plan, self.loop, self.history = plan, loop, history
        self.rng = random.Random(f"world:{plan.seed}")
        self.server_offset_ms = 0
        self.workers_offset_ms = 0
        self.faults = Faults(plan, loop.time, self._states)
        self.ledger = SimLedger(
            loop,
            self.faults,
            history,
            clock=self._server_ms,
            retention_ms=plan.retention_ms,
            vouches=plan.vouches,
            pause=self._pause_current,
            one_step=plan.one_step,
        )
        config = Config(
            chain_id="sim",
            block_ms=plan.block_ms,
            producers=3,
            nodes=max(2, len(plan.nodes)),
            delay_ms=(0.0, 20.0),
            loss=plan.loss,
            validity=plan.validity,
        )
        self.network = SimNetwork(
            GENESIS, config, random.Random(f"net:{plan.seed}"), self.faults, history, 5 * plan.epoch_blocks
        )
        self.nodes = Nodes(loop, self.network)
        history.may_land = self._may_land
        history.strangers = self._strangers
        self.served = plan.lanes
        self.seats = [Seat(n) for n in range(plan.workers)]
        self.producers = [Process(loop, f"p{n}") for n in range(plan.producers)]
        self.clients = [self._client(process) for process in self.producers]
        self.intents = [self._intent(n) for n in range(plan.intents)]
        self.arrivals = sorted(self.rng.uniform(0.3, plan.chaos_s * 0.6) for _ in self.intents)
        self.acknowledged: set[int] = set()
        self.tampered: set[str] = set()
        """Lanes whose key somebody else used."""
        self.damaged: set[str] = set()
        """Lanes whose cursor somebody moved in the ledger itself."""
        self.healing = False

    # -- what the faults want to know

    def _states(self, lane: str) -> Iterable[str]:
        if not self.faults.on:
            return ()
        stores = [self.ledger.stores[lane]] if lane in self.ledger.stores else list(self.ledger.stores.values())
        found = {r.status.value for s in stores for r in s.records.values()} or {"none"}
        return found | {s.state.value for s in stores}

    def _server_ms(self) -> int:
        return EPOCH_MS + self.server_offset_ms + int(self.loop.time() * 1000)

    def _may_land(self, lane: str, attempt: Attempt) -> bool:
        blocks = self.network.chain.blocks
        final = blocks[min(self.network.final_index, len(blocks) - 1)]
        key = self.network.reader(final)((RELAYER.account_id, SIGNERS[LANES.index(lane)].public_key))
        expired = final.height > attempt.base_height + self.plan.validity
        return not expired and key.nonce < attempt.nonce and attempt.hash not in self.history.landed

    def _strangers(self, lane: str, ours: Iterable[int]) -> bool:
        if lane not in self.tampered:
            return False
        network, key = self.network, (RELAYER.account_id, SIGNERS[LANES.index(lane)].public_key)
        used = {tx.nonce for block in network.chain.blocks for tx in block.txs if _is_strange(tx, key, self.history)}
        seen = {network.reader(network.view(node).final)(key).nonce for node in range(network.config.nodes)}
        return seen <= used - set(ours)

    # -- making the parts

    def _intent(self, n: int) -> Intent:
        """Every intent moves an amount of its own: whatever lands names the intent that paid for it."""
        roll = self.rng.random()
        payload: dict[str, str] = {"receiver_id": RECEIVER.account_id, "amount": str(1000 + n)}
        max_age_s = None
        if roll < 0.08:
            payload["receiver_id"] = "nobody.near"
        elif roll < 0.12:
            payload["receiver_id"] = "NOT AN ACCOUNT"
        elif roll < 0.16:
            max_age_s = self.rng.randint(1, 20)
        return new_intent(key=f"k{n}", pool=POOL, kind="near.transfer", payload=payload, max_age_s=max_age_s)

    def _client(self, process: Process) -> Producer:
        rng = random.Random(f"{process.name}:{self.plan.seed}:{self.rng.random()}")
        return Producer(self.ledger, new_life=lambda: f"{rng.getrandbits(64):016x}")

    def _start(self, seat: Seat) -> None:
        if seat.closed_until > self.loop.time() and not self.healing:
            self.loop.later(seat.closed_until - self.loop.time() + 0.001, self._start, seat)
            return
        if seat.process is not None and seat.process.life is not Life.DEAD:
            return
        seat.generation += 1
        name = f"w{seat.number}" if self.plan.same_name else f"w{seat.number}.{seat.generation}"
        seat.process = Process(self.loop, name, lambda _: self._died(seat))
        seat.process.spawn(self._work(seat, seat.process))

    def _died(self, seat: Seat) -> None:
        self.loop.later(0.2 + 6.0 * self.rng.random() ** 2, self._start, seat)

    async def _work(self, seat: Seat, process: Process) -> None:
        try:
            seat.worker = self._worker(seat, process)
            await seat.worker.run()
        except Exception as error:
            if self.loop.over:
                return
            self.history.note(Broke(self.loop.time(), f"worker ended: {type(error).__name__}: {error}"))
        process.kill()

    def _worker(self, seat: Seat, process: Process) -> Worker:
        plan = self.plan
        rng = random.Random(f"{process.name}:{seat.generation}:{plan.seed}")
        settings = NearNetwork(plan.validity, plan.epoch_blocks, head_fresh_s=1.0, head_max_age_s=4.0, scan_blocks=400)
        rpc = self.nodes_seen(self.nodes, self.faults, self.history, plan.nodes, rng, self._pause_current)
        lanes = LANES[: self.served]
        chain = NearChain(
            "sim",
            (),
            self.keys(lanes),
            settings=settings,
            rpc=rpc,
            rng=rng,
            agreement=self.agreement,
            agreement_for_done=self.agreement_for_done,
        )
        policy = Policy(
            window=plan.window, max_inflight=plan.max_inflight, include_within_ms=4000, hold_after_ms=plan.hold_after_ms
        )
        services = {lane: Service(LaneSpec(lane, POOL), chain, policy) for lane in lanes}
        return Worker(
            self.ledger,
            services,
            name=process.name,
            timing=Timing(lease_ms=plan.lease_ms, margin_ms=plan.lease_ms // 5, poll_s=1.0, grace_s=8.0),
            metrics=METRICS,
            clock=lambda: EPOCH_MS + self.workers_offset_ms + process.clock_offset_ms + int(self.loop.time() * 1000),
            rng=rng,
            new_token=lambda: f"{rng.getrandbits(128):032x}",
            point=lambda where: self._point(process, where),
        )

    def keys(self, lanes: list[str]) -> dict[str, Signer]:
        """Of a worker that starts now."""
        return dict(zip(lanes, SIGNERS, strict=False))

    def _point(self, process: Process, where: str) -> None:
        if self.faults.draw("point", f"{process.name} {where}"):
            process.kill()

    def _pause_current(self, amount: float) -> None:
        process = PROCESS.get()
        if process is not None:
            self._freeze(process, amount)

    def _freeze(self, process: Process, amount: float) -> None:
        process.freeze()
        self.loop.later(self.plan.lease_ms / 1000 * (0.5 + 2.0 * amount), process.thaw)

    # -- the course of a schedule

    async def main(self) -> None:
        self._tick()
        for seat in self.seats:
            self.loop.later(self.rng.uniform(0.0, 0.5), self._start, seat)
        self._sweep()
        for n, at in enumerate(self.arrivals):
            self.loop.later(at, self._call, n, n % len(self.producers))
        for event in self.plan.events:
            self.loop.later(event.at_s, self._strike, event)
        await asyncio.sleep(self.plan.chaos_s)
        self._calm()
        await self._settle_down()
        if self._forgetful:
            for n in range(len(self.intents)):  # while some answers are still kept, and some are not
                self.acknowledged.discard(n)
                self._call(n, self._living())
            await self._settle_down()
        await self._ask_all()

    @property
    def _forgetful(self) -> bool:
        return self.plan.retention_ms < 3_600_000

    def _sweep(self) -> None:
        process = Process(self.loop, "sweeper", lambda _: self.loop.later(3.0, self._sweep))
        process.spawn(Sweeper(self.ledger, every_s=6.0, claims_older_than_ms=70_000).run())

    def _tick(self) -> None:
        self.nodes.tick()
        self.loop.later(self.plan.block_ms / 1000, self._tick)

    def _call(self, n: int, producer: int) -> None:
        """A caller asks for intent `n`, and asks again until it has an answer."""
        process = self.producers[producer]
        if process.life is not Life.DEAD:
            process.spawn(self._submit(process, self.clients[producer], n))

    async def _submit(self, process: Process, client: Producer, n: int) -> None:
        pause = 0.2
        while True:
            try:
                submitted = await client.submit(self.intents[n])
            except TxManagerError as error:
                if error.code == "idempotency_key_reused":
                    self.history.note(Broke(self.loop.time(), f"k{n}: {error}"))
                    return
                await asyncio.sleep(pause)
                pause = min(3.0, pause * 2)
                continue
            self._answered(process.name, submitted.record, accepted=True)
            self.acknowledged.add(n)
            return

    def intrude(self, n: int) -> None:
        """Somebody else submits another payload under the key of intent `n`, and must be told that it is taken."""
        taken = self.intents[n]
        other = new_intent(key=taken.id.key, pool=POOL, kind=taken.kind, payload={**taken.payload, "amount": "1"})

        async def submit() -> None:
            said = f"a payload of its own under the key of {taken.id.key}"
            try:
                await self.clients[0].submit(other)
            except TxManagerError as error:
                if error.code != "idempotency_key_reused":
                    self.history.note(Broke(self.loop.time(), f"{said} was answered: {error}"))
            else:
                self.history.note(Broke(self.loop.time(), f"{said} was answered with the stored record"))

        self.producers[0].spawn(submit())

    def _answered(self, by: str, record: Record, *, accepted: bool) -> None:
        fact = Answered(self.loop.time(), by, record.id, record.life, record.status, record.outcome, accepted)
        self.history.note(fact)

    def _calm(self) -> None:
        """No more faults; everybody and everything is up again."""
        self.faults.on = False
        self.healing = True
        self.nodes.stalled = False
        self.network.resume(self.loop.time() * 1000)
        self.network.stuck_at.clear()
        self.ledger.cut_off = False
        if self.ledger.down:
            self.ledger.start()
        for process in self.producers:
            process.thaw()
        for seat in self.seats:
            if seat.process is None or seat.process.life is Life.DEAD:
                self._start(seat)
            else:
                seat.process.thaw()
        self._fund()

    async def _settle_down(self) -> None:
        """Give what was accepted a bounded time to end, with operators at work."""
        until = self.loop.time() + ENDS_WITHIN_S
        started = self.loop.time()
        round_ = 0
        while self.loop.time() < until:
            round_ += 1
            for n in range(len(self.intents)):
                if n not in self.acknowledged and round_ % 30 == 1:
                    self._call(n, self._living())
            await asyncio.sleep(1.0)
            await self._operate(self.loop.time() - started)
            shut = all(s.state in (LaneState.QUARANTINED, LaneState.CLOSED) for s in self.ledger.stores.values())
            everybody_knows = len(self.acknowledged) == len(self.intents) or (shut and round_ > 20)
            if everybody_knows and self._quiet():
                return

    def _living(self) -> int:
        for n, process in enumerate(self.producers):
            if process.life is Life.DEAD:
                self._revive(n)
        return self.rng.randrange(len(self.producers))

    def _revive(self, n: int) -> None:
        if self.producers[n].life is Life.DEAD:
            self.producers[n] = Process(self.loop, f"p{n}")
            self.clients[n] = self._client(self.producers[n])
            for intent in range(len(self.intents)):
                if self.arrivals[intent] <= self.loop.time() and intent not in self.acknowledged:
                    self._call(intent, n)

    def _quiet(self) -> bool:
        """Whether everything has ended, or waits for a person by name."""
        for store in self.ledger.stores.values():
            if store.state is LaneState.QUARANTINED:
                continue
            blocked = blocked_by_holds(self.plan, store)
            for record in store.records.values():
                if record.status is not Status.HELD and not (blocked and not record.status.final):
                    return False  # in flight, or final and not retired yet
        return True

    # -- operators

    async def _operate(self, healed_for_s: float) -> None:
        """What people do once the storm is over: resume what they stopped, fund, vouch, resolve."""
        wants = {event.kind for event in self.plan.events}
        for lane, store in list(self.ledger.stores.items()):
            stopped_by_us = store.state is LaneState.PAUSED and store.reason == "operator"
            by_name = store.command is not None or store.cause is PauseCause.HELD
            waits = store.state is LaneState.PAUSED and not by_name and healed_for_s > 60.0
            if stopped_by_us or waits:
                await self.ledger.set_lane(lane, LaneState.ACTIVE)
            foreign = store.cause is QuarantineCause.FOREIGN_NONCE_USE
            if foreign and "rebaseline" in wants and healed_for_s > 5.0:
                await self.ledger.set_lane(lane, LaneState.PAUSED, command=LaneCommand.REBASELINE)
            if "resolve_held" in wants and healed_for_s > 10.0:
                for record in list(store.records.values()):
                    if record.status is Status.HELD and record.directive is None:
                        verb = ("resign", "kill", "track")[int(record.position[-1]) % 3]
                        with contextlib.suppress(NotAllowed, NotFound):
                            await self.ledger.resolve(record.id, {"verb": verb, "by": "sim"})
        if not any(s.state is LaneState.ACTIVE for s in self.ledger.stores.values()):
            for lane, store in self.ledger.stores.items():
                if store.state is LaneState.DRAINING:
                    await self.ledger.set_lane(lane, LaneState.ACTIVE)

    def _fund(self) -> None:
        account: Account = self.network.chain.state.get((RELAYER.account_id,))
        if account.amount < 1000 * fees.NEAR:
            self._pay(FUNDER.account_id, SIGNER_OF_FUNDER, RELAYER.account_id, 100_000 * fees.NEAR)

    def _pay(self, sender: str, key: str, receiver: str, amount: int) -> None:
        """Money that moves on its own, by a key that is no lane: straight into every producer's pool."""
        nonce = self.network.chain.state.get((sender, key)).nonce + 1
        base = self.network.chain.blocks[-1].hash
        tx = Tx(sender, key, nonce, receiver, base, (Transfer(amount),))
        for pool in self.network.pools:
            pool.add(tx)

    # -- the questions

    async def _ask_all(self) -> None:
        """Every key once more, from a fresh process: the answer must be the stored one."""
        client = Producer(self.ledger, new_life=lambda: "asked-again-and-never-needed")
        for n, intent in enumerate(self.intents):
            if n not in self.acknowledged:
                continue
            for _ in range(2):
                record = await self.ledger.read(intent.id)
                if record is not None:
                    self._answered("end", record, accepted=False)
            if record is not None and record.status.final and not self._forgetful:
                try:
                    submitted = await client.submit(replace(intent))
                    self._answered("end", submitted.record, accepted=False)
                except TxManagerError as error:
                    self.history.note(Broke(self.loop.time(), f"replay of {intent.id.key}: {error}"))

    def evidence(self) -> Checked:
        return Checked(
            plan=self.plan,
            facts=self.history.facts,
            stores=self.ledger.stores,
            chain=self.network.chain,
            keys={1000 + n: intent.id for n, intent in enumerate(self.intents)},
            acknowledged={self.intents[n].id for n in self.acknowledged},
            final={fact.id: fact for fact in self.history.facts if isinstance(fact, Answered) and fact.by == "end"},
            tampered=self.tampered,
            damaged=self.damaged,
            landed=self.history.landed,
        )
