"""A worker process: lives in the member set, owns the lanes that are its share, renews, hands back.

Renewal runs on its own, however long the lanes' work takes. A lane whose renewal is late stops itself before the
lease can run out; the fence makes even a wrong clock harmless.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.errors import Fenced, LaneClosed, NotAllowed, TxManagerError
from txmanager.core.ledger import Lease, Ledger, Member, Route
from txmanager.core.models import LaneSpec
from txmanager.core.seal import Seals
from txmanager.core.states import LaneState
from txmanager.core.trace import Tracer
from txmanager.runtime.accept.built import Builders, BuildingChain
from txmanager.runtime.lane.breaks import first_break
from txmanager.runtime.lane.metrics import Metrics
from txmanager.runtime.lane.owner import Context, LeaseLapsed, OwnedLane, Unserved
from txmanager.runtime.lane.retirer import Retirer
from txmanager.runtime.lane.sender import Sender
from txmanager.runtime.lane.share import Share
from txmanager.runtime.lane.tracker import Tracker

_ABREAST = 64
_READ_AHEAD, _MOST_READ = 64, 2_000
"""Entries of a queue that are read at once, where the window has room for fewer: of one lane, and of all."""
_PARKED_AT_ONCE = 512
"""How many idle lanes are asked about in a tick."""


@dataclass(frozen=True, slots=True)
class Service:
    """A lane this worker is able to serve: what it publishes, the chain it speaks, how patient it is."""

    spec: LaneSpec
    chain: Chain
    policy: Policy
    park_after_ms: int = 0
    """How long nobody may use it before it is parked; 0: never. For lanes that were discovered: they come back so."""
    drop: Callable[[str], None] = lambda _: None
    """Called when the lane left the registry: its chain needs to remember nothing of it."""


@dataclass(frozen=True, slots=True)
class Timing:
    lease_ms: int = 10_000
    margin_ms: int = 2_000
    """How long before the end of its lease a lane stops itself."""
    poll_s: float = 0.25
    """The longest pause between two look-ups of what is in flight."""
    grace_s: float = 20.0
    """How long a stop waits for what is in flight."""

    @property
    def tick_s(self) -> float:
        return self.lease_ms / 3000


@dataclass(slots=True)
class _Held:
    lane: OwnedLane
    task: asyncio.Task[None]
    park_at: float
    """When it is worth asking whether nobody uses it."""


def _offers(lane: str, members: Sequence[Member]) -> bool:
    return any(lane in member.lanes for member in members)


class Worker:
    def __init__(
        self,
        ledger: Ledger,
        services: Mapping[str, Service],
        *,
        name: str | None = None,
        timing: Timing | None = None,
        metrics: Metrics | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rng: random.Random | None = None,
        new_token: Callable[[], str] = lambda: secrets.token_hex(16),
        point: Callable[[str], None] = lambda _: None,
        builders: Builders | None = None,
        discover: Callable[[Route], Service | None] | None = None,
        seals: Seals | None = None,
        on_members: Callable[[int], None] = lambda _: None,
        tracer: Tracer | None = None,
    ) -> None:
        """`discover` answers how to serve a lane that somebody else registered, or None. `on_members` is told how many
        workers live, this one included."""
        self.name = name or f"worker-{secrets.token_hex(4)}"
        self.metrics = metrics or Metrics()
        self._ledger = ledger
        self._builders = builders or Builders()
        self._chains: dict[int, tuple[Chain, BuildingChain]] = {}
        self._services = {lane: self._with_builders(service) for lane, service in services.items()}
        self._discover = discover
        self._on_members = on_members
        self._timing = timing or Timing()
        self._rng = rng or random.Random()
        self._new_token = new_token
        self._retirer = Retirer(ledger, self.metrics)
        self._context = Context(ledger, self.metrics, clock, self._retirer.add, point, seals, tracer, self._read_ahead)
        self._held: dict[str, _Held] = {}
        self._not_before: dict[str, float] = {}
        """When a lane that another owner holds, or that this worker gave up, is worth another try."""
        self._routes: Sequence[Route] | None = None
        """The registry as it was looked at last."""
        self._found: set[str] = set()
        """The lanes that were discovered in it."""
        self._declined: dict[str, float] = {}
        """Until when this worker does not offer itself for a lane, so that another one gets its turn."""
        self._share = Share(self.name)
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        """Set when a lane was won, so that its wake-ups are listened to at once."""
        self.ready = False
        """Whether the lanes are registered and the first tick was made."""
        self._log = structlog.get_logger("worker").bind(worker=self.name)

    def _with_builders(self, service: Service) -> Service:
        """Every worker knows built intents, if only to fail those whose builder is gone."""
        chain = service.chain
        _, building = self._chains.setdefault(id(chain), (chain, BuildingChain(chain, self._builders)))
        return replace(service, chain=building)

    @property
    def owned(self) -> list[str]:
        return sorted(self._held)

    def _read_ahead(self) -> int:
        """Few enough that those of all lanes fit into memory."""
        return min(_READ_AHEAD, _MOST_READ // max(1, len(self._held)))

    def stop(self) -> None:
        """Ask for a graceful end: take nothing more, settle what is in flight, hand the lanes back."""
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._register()
                break
            except TxManagerError as error:
                self._log.warning("cannot register yet", error=str(error))
                await self._nap(1.0)
        parts = (self._keep(), self._listen(), self._watch(), self._retirer.run())
        helpers = [asyncio.create_task(part) for part in parts]
        try:
            while not self._stopping.is_set():
                await self._tick()
                self.ready = True
                await self._nap(self._timing.tick_s)
            await self._drain()
        finally:
            for task in (*helpers, *(held.task for held in self._held.values())):
                task.cancel()
            await asyncio.gather(*helpers, *(h.task for h in self._held.values()), return_exceptions=True)

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds * self._rng.uniform(0.9, 1.0)):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _register(self) -> None:
        """Publish the lanes this worker can serve; a closed one is not served any more."""

        async def publish(lane: str) -> None:
            try:
                await self._ledger.register(self._services[lane].spec)
            except LaneClosed:
                self._log.warning("lane is closed and not served", lane=lane)
                del self._services[lane]
            except NotAllowed as error:
                # Its key is the callers' (or was ours before): signing beside them would collide.
                self._log.error("lane is not served", lane=lane, why=str(error))
                del self._services[lane]

        await self._in_groups(publish, list(self._services))

    # -- keep what is held; beside it, the tick: take, hand back

    async def _keep(self) -> None:
        """Renew and show that we live, however long taking and handing back lanes takes."""
        while True:
            await asyncio.sleep(self._timing.tick_s * self._rng.uniform(0.9, 1.0))
            try:
                await self._renew()
                if not self._stopping.is_set():
                    await self._show()
            except TxManagerError as error:
                self._log.warning("renewal failed", error=str(error))

    async def _show(self) -> None:
        await self._ledger.heartbeat(Member(self.name, frozenset(self._offered())), self._timing.lease_ms)

    async def _tick(self) -> None:
        try:
            await self._look_around()
            members = await self._ledger.members()
            if not any(member.name == self.name for member in members):
                await self._show()  # new here, or silent for so long that we were forgotten
                members = await self._ledger.members()
            self._on_members(len(members))
            await self._rebalance(members)
            await self._park_idle()
        except TxManagerError as error:
            self._log.warning("tick failed", error=str(error))
        self.metrics.lanes_owned.set(len(self._held))

    async def _look_around(self) -> None:
        """Serve what was registered since, and not what was deleted: lanes of callers' addresses come into being with
        their first number."""
        if self._discover is None:
            return
        routes = await self._ledger.routes()
        if routes is self._routes:
            return
        for route in routes:
            if route.lane not in self._services and route.state is not LaneState.CLOSED:
                service = self._discover(route)
                if service is not None:
                    self._services[route.lane] = self._with_builders(service)
                    self._found.add(route.lane)
                    self._log.info("lane found", lane=route.lane)
        gone = self._found - {route.lane for route in routes}
        for lane in gone:
            if lane in self._held:
                self._let_go(lane)
            self._log.info("lane is gone", lane=lane)
        self._forget(gone)
        self._routes = routes

    def _forget(self, lanes: Collection[str]) -> None:
        """Nothing of a lane that left the registry stays here; if it comes back, it is discovered again."""
        for lane in lanes:
            self._found.discard(lane)
            self._not_before.pop(lane, None)
            self._declined.pop(lane, None)
            if (service := self._services.pop(lane, None)) is not None:
                service.drop(lane)
        if lanes:
            self.metrics.forget(lanes)

    def _offered(self) -> set[str]:
        """Without lanes whose signer has been away for a lease: a worker with another way to it may have them."""
        now = asyncio.get_running_loop().time()
        return {
            lane for lane in self._services if self._declined.get(lane, 0.0) <= now and not self._signer_is_away(lane)
        }

    def _signer_is_away(self, lane: str) -> bool:
        held = self._held.get(lane)
        return held is not None and held.lane.signatures.away_s >= self._timing.lease_ms / 1000

    async def _renew(self) -> None:
        held = list(self._held.values())
        if not held:
            return
        valid_until = self._deadline()
        answers = await self._ledger.renew([h.lane.fence for h in held], self._timing.lease_ms)
        for one, answer in zip(held, answers, strict=True):
            if self._held.get(one.lane.id) is not one:
                continue  # it ended by itself while the answer was on its way
            if one.lane.valid_until <= asyncio.get_running_loop().time():
                # Somebody else may have owned it meanwhile, and a roll-back may have forgotten that: start afresh.
                self._let_go(one.lane.id)
                continue
            if answer.word == "fenced":
                self._log.warning("lane lost", lane=one.lane.id, owner=answer.owner, epoch=answer.epoch)
                self._let_go(one.lane.id)
            else:
                one.lane.renewed(answer, valid_until)
                self.metrics.depth.labels(one.lane.id).set(answer.depth)

    def _deadline(self) -> float:
        """Counted from before the request leaves: a slow reply must not lengthen the lease."""
        timing = self._timing
        return asyncio.get_running_loop().time() + (timing.lease_ms - timing.margin_ms) / 1000

    async def _rebalance(self, members: list[Member]) -> None:
        wanted = await self._share.of(self._services, members)
        # What nobody else offers to take is kept: it cannot sign, but it is tracked and settled.
        kept = {lane for lane in self._held if self._signer_is_away(lane) and not _offers(lane, members)}
        surplus = [lane for lane in self._held if lane not in wanted | kept]
        for lane in surplus:
            self._log.info("lane handed over", lane=lane)
            if self._signer_is_away(lane):
                self._declined[lane] = asyncio.get_running_loop().time() + 10 * self._timing.lease_ms / 1000
        await self._in_groups(self._give_back, surplus)
        now = asyncio.get_running_loop().time()
        free = [lane for lane in wanted if lane not in self._held and self._not_before.get(lane, 0.0) <= now]
        await self._in_groups(self._acquire, sorted(free))

    async def _park_idle(self) -> None:
        """Callers' lanes that nobody uses leave the registry; they come back with their next number."""
        now = asyncio.get_running_loop().time()
        due = [lane for lane, held in self._held.items() if held.park_at <= now and held.lane.idle]
        parked: set[str] = set()

        async def park(lane: str) -> None:
            if await self._parked(lane):
                parked.add(lane)

        try:
            await self._in_groups(park, due[:_PARKED_AT_ONCE])
        finally:
            self._forget(parked)
            if parked:
                self._routes = None  # one that is back before they are read again is among the same ones

    async def _parked(self, lane: str) -> bool:
        held, service = self._held.get(lane), self._services.get(lane)
        if held is None or service is None:
            return False
        try:
            left_ms = await self._ledger.park(held.lane.fence, service.park_after_ms)
        except Fenced:
            return False  # the next renewal says whose it is
        if left_ms > 0:
            held.park_at = asyncio.get_running_loop().time() + left_ms / 1000
            return False
        if self._held.get(lane) is held:
            del self._held[lane]
        held.task.cancel()
        await asyncio.gather(held.task, return_exceptions=True)
        self._log.info("lane parked", lane=lane)
        return True

    @staticmethod
    async def _in_groups(step: Callable[[str], Awaitable[None]], lanes: Sequence[str]) -> None:
        """Many lanes at once, not all: a thousand calls in one loop turn would time each other out."""
        for start in range(0, len(lanes), _ABREAST):
            await asyncio.gather(*(step(lane) for lane in lanes[start : start + _ABREAST]))

    async def _acquire(self, lane: str) -> None:
        valid_until, loop = self._deadline(), asyncio.get_running_loop()
        answer = await self._ledger.lease(lane, self.name, self._new_token(), self._timing.lease_ms)
        if answer.word == "leased":
            self._start(lane, answer, valid_until)
        elif answer.word == "held":
            # No later than the next tick: a lease may be given back long before it runs out.
            self._not_before[lane] = loop.time() + min(answer.left_ms / 1000, self._timing.tick_s)
            self.metrics.leases.labels(lane, "contended").inc()
        else:
            self._not_before[lane] = loop.time() + self._timing.lease_ms / 1000
            self._log.warning("lane cannot be leased", lane=lane, why=answer.word)

    def _start(self, lane: str, answer: Lease, valid_until: float) -> None:
        assert answer.fence is not None
        assert answer.lane is not None
        service = self._services[lane]
        owned = OwnedLane(self._context, service.chain, answer.fence, service.policy, answer.lane, valid_until)
        task = asyncio.create_task(self._serve(owned))
        parks = service.park_after_ms > 0
        self._held[lane] = _Held(owned, task, valid_until if parks else float("inf"))
        task.add_done_callback(lambda _: None if lane in self._held else self.metrics.left(lane))
        self._changed.set()
        self.metrics.leases.labels(lane, "won").inc()

    # -- one lane

    async def _serve(self, lane: OwnedLane) -> None:
        """Work a lane until it is lost, given back or broken; whatever happens, others go on."""
        retry_in_s = 0.0
        try:
            await lane.recover()
            tracker = Tracker(lane, self._timing.poll_s)
            sender = Sender(lane, self._rng)
            await lane.retry_while_leased(tracker.look)
            lane.plan.rebroadcast()
            async with asyncio.TaskGroup() as group:
                group.create_task(sender.run())
                group.create_task(tracker.run())
        except* (Fenced, LeaseLapsed) as lost:
            self.metrics.fenced.labels(lane.id).inc()
            lane.log.warning("lane stopped", why=str(lost.exceptions[0]))
        except* Unserved as newer:
            lane.log.warning("lane released to a newer worker", why=str(newer.exceptions[0]))
            retry_in_s = 10 * self._timing.lease_ms / 1000
        except* Exception as broken:
            lane.log.exception("lane broke; it is released and tried again")
            retry_in_s = self._timing.lease_ms / 1000
            if (error := first_break(broken)) is not None:
                with contextlib.suppress(TxManagerError):  # counted by the next owner that meets it
                    await lane.breaks.of_lane(error)
        if self._held.get(lane.id) is not None and self._held[lane.id].lane is lane:
            self._not_before[lane.id] = self._declined[lane.id] = asyncio.get_running_loop().time() + retry_in_s
            await self._release(lane)

    async def _release(self, lane: OwnedLane) -> None:
        self._held.pop(lane.id, None)
        try:
            await self._ledger.release(lane.fence)
        except TxManagerError as error:
            lane.log.warning("lease left to run out", error=str(error))

    async def _watch(self) -> None:
        """Stop every lane whose lease may be over, whatever it is waiting for: nobody else is to start beside it."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            for lane, held in list(self._held.items()):
                if held.lane.valid_until <= now:
                    held.lane.log.warning("lane stopped", why=f"the lease of lane {lane} was not renewed in time")
                    self._let_go(lane)
            soonest = min((held.lane.valid_until for held in self._held.values()), default=now + self._timing.tick_s)
            await asyncio.sleep(soonest - now)

    def _let_go(self, lane: str) -> None:
        held = self._held.pop(lane)
        held.task.cancel()
        self.metrics.leases.labels(lane, "lost").inc()

    async def _give_back(self, lane: str) -> None:
        held = self._held.pop(lane, None)
        if held is None:
            return  # it ended by itself, and released the lane
        held.task.cancel()
        await asyncio.gather(held.task, return_exceptions=True)
        await self._release(held.lane)
        self.metrics.leases.labels(lane, "released").inc()

    # -- waking and stopping

    async def _listen(self) -> None:
        """Pass wake-ups on; a lost one costs at most one tick."""
        while True:
            self._changed.clear()
            hearing = asyncio.create_task(self._hear())
            hearing.add_done_callback(lambda _: self._changed.set())  # whatever ended it: listen again
            try:
                await self._changed.wait()
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def _hear(self) -> None:
        """Listen on every lane held now; one won later starts another `_hear`."""
        lanes = list(self._held)
        while True:
            await self._wake(lanes)

    async def _wake(self, lanes: list[str]) -> None:
        try:
            for lane in await self._ledger.wait_wake(lanes, self._timing.tick_s):
                if lane in self._held:
                    self._held[lane].lane.wake(self._ledger.heard(lane))
        except TxManagerError as error:
            self._log.warning("cannot listen", error=str(error))
            await asyncio.sleep(self._timing.tick_s / 4)

    async def _drain(self) -> None:
        """Settle what is in flight, renewing meanwhile; each lane is handed back as soon as it has nothing left."""
        for held in self._held.values():
            held.lane.plan.stop_taking()
        try:
            await self._ledger.leave(self.name)
        except TxManagerError as error:
            self._log.warning("membership left to run out", error=str(error))
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timing.grace_s
        while self._held and loop.time() < until:
            empty = [lane for lane, held in self._held.items() if held.lane.settled]
            await self._in_groups(self._give_back, empty)
            await asyncio.sleep(0.02)
        await self._in_groups(self._give_back, list(self._held))
        await self._retirer.flush()
