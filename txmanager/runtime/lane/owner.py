"""One owned lane: recover, then send and track side by side until the lease, the worker or the lane ends.

The sender is the only one who signs, writes ahead and broadcasts; the tracker is the only one who looks up, proves
and settles. Both stop for good at the first fenced answer. A crash anywhere leaves records the next owner recovers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, TypeVar

import structlog

from txmanager.core.chain import Chain
from txmanager.core.decide import Policy
from txmanager.core.errors import (
    Busy,
    Fenced,
    KeyMissing,
    NotAllowed,
    Outdated,
    RolledBack,
    TxManagerError,
    Unavailable,
    Unconfirmed,
)
from txmanager.core.flights import Flight
from txmanager.core.keyless_plan import KeylessPlan
from txmanager.core.lane_plan import WORKING, LanePlan
from txmanager.core.ledger import Landed, Ledger, Renewed, Settled, Settlement, Taken
from txmanager.core.models import Fence, Json, Lane, Record
from txmanager.core.positions import place
from txmanager.core.seal import Seals
from txmanager.core.signing_plan import SigningPlan
from txmanager.core.states import LaneState
from txmanager.core.stops import PauseCause, QuarantineCause, StopCause, held_words, words_of
from txmanager.core.trace import Tracer
from txmanager.runtime.lane.abreast import Abreast
from txmanager.runtime.lane.breaks import Breaks
from txmanager.runtime.lane.checks import Checks
from txmanager.runtime.lane.gaps import GapFiller
from txmanager.runtime.lane.guarded import GuardedChain
from txmanager.runtime.lane.metrics import Metrics
from txmanager.runtime.lane.requests import Requests
from txmanager.runtime.lane.signatures import Signatures
from txmanager.runtime.lane.traces import Traces
from txmanager.runtime.lane.wallet import Wallet

T = TypeVar("T")


class LeaseLapsed(TxManagerError):
    """Our own clock says that the lease may be over: stop before anybody else could have started."""

    code = "lease_lapsed"


class Unserved(TxManagerError):
    """The oldest intent needs a newer release than this worker."""

    code = "unserved"


@dataclass(slots=True)
class Context:
    """What every lane of a worker shares."""

    ledger: Ledger
    metrics: Metrics
    clock: Callable[[], int]
    """Wall time in milliseconds: for ages and time stamps, never for safety."""
    retire: Callable[[Record], None]
    point: Callable[[str], None] = lambda _: None
    """Called at named points of the loop; a test crashes the process there."""
    seals: Seals | None = None
    """What is signed only if it was accepted as it stands; None: everything in the ledger is believed."""
    tracer: Tracer | None = None
    read_ahead: Callable[[], int] = lambda: 1
    """How many entries of a lane's queue are worth reading at once."""
    abreast: defaultdict[int, Abreast] = field(default_factory=lambda: defaultdict(Abreast))
    """For each chain, by its identity."""


@dataclass(slots=True)
class OwnedLane:
    """The shared state of a lane's sender and tracker."""

    context: Context
    chain: Chain
    fence: Fence
    policy: Policy
    leased: InitVar[Lane]
    """The lane as it was when it was leased."""
    valid_until: float
    """Monotonic time after which this owner must not write or send."""
    plan: LanePlan = field(init=False)
    checks: Checks = field(init=False)
    requests: Requests = field(init=False)
    gaps: GapFiller = field(init=False)
    breaks: Breaks = field(init=False)
    wallet: Wallet = field(init=False)
    signatures: Signatures = field(init=False)
    abreast: Abreast = field(init=False)
    """Shared by all lanes of the chain: from the take until the batch is written ahead."""
    traces: Traces | None = field(init=False, default=None)
    depth: int = 0
    asks: int = 0
    sending: bool = False
    """Whether the sender is between a take and its last send."""
    work: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the sender may have something to do."""
    flying: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the tracker may have something to look at."""
    refresh: bool = False
    """Whether an operator, a canceller or a new server asks for attention."""
    log: Any = field(init=False, default=None)

    def __post_init__(self, leased: Lane) -> None:
        make = KeylessPlan if leased.keyless else SigningPlan
        self.plan = make(self.policy, self.chain.traits, leased)
        self.abreast = self.context.abreast[id(self.chain)]
        self.chain = GuardedChain(self.chain)
        self.checks = Checks(self)
        self.requests = Requests(self, leased.check)
        self.gaps = GapFiller(self)
        self.breaks = Breaks(self)
        self.wallet = Wallet(self)
        self.signatures = Signatures(self)
        if self.context.tracer is not None:
            self.traces = Traces(self.context.tracer, self.context.clock, self.fence.lane)
        self.log = structlog.get_logger("lane").bind(lane=self.fence.lane, epoch=self.fence.epoch)
        self.depth, self.asks = leased.depth, leased.asks

    @property
    def id(self) -> str:
        return self.fence.lane

    @property
    def keyless(self) -> bool:
        """The callers hold the key: numbers come by reservation, and what goes wrong is reported, not cured."""
        return self.plan.stored.keyless

    @property
    def settled(self) -> bool:
        """Nothing of this owner is on its way: the lane can be handed over without a wait for finality."""
        return not self.sending and all(flight.held for flight in self.plan.flights)

    @property
    def idle(self) -> bool:
        """Nothing is queued or in flight, as far as this owner knows."""
        return self.depth == 0 and not self.sending and not self.plan.flights

    # -- safety

    def check_lease(self) -> None:
        if asyncio.get_running_loop().time() >= self.valid_until:
            raise LeaseLapsed(f"the lease of lane {self.id} was not renewed in time")

    async def retry_while_leased(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a replay-safe call until it is answered; the lease decides when to give up."""
        pause_s, stalled = 0.05, False
        try:
            while True:
                self.check_lease()
                try:
                    return await call()
                except (Unavailable, Busy) as error:
                    stalled = True
                    self.context.metrics.stalled.labels(self.id).set(1)
                    unconfirmed = isinstance(error, Unconfirmed)
                    message = "the ledger does not confirm writes; nothing is sent" if unconfirmed else "retrying"
                    self.log.warning(message, error=str(error))
                    await asyncio.sleep(pause_s)
                    pause_s = min(1.0, pause_s * 2)
        finally:
            if stalled:  # answered, or no longer ours: whoever is next says how it is
                self.context.metrics.stalled.labels(self.id).set(0)

    async def quarantine(self, cause: QuarantineCause, evidence: Mapping[str, Json]) -> None:
        """Stop signing until an operator looked: a promise might not hold."""
        if self.plan.quarantined:
            return
        self.plan.quarantine(cause)
        fix = f"txmanager lanes rebaseline {self.id}, after finding out who else used the key or what was lost"
        if cause is QuarantineCause.BAD_SIGNATURE:
            fix = f"txmanager lanes resume {self.id}, once the signer is mended; a trial signature is verified first"
        evidence = {**evidence, "resolve": fix}
        await self._stop(LaneState.QUARANTINED, cause, cause.value, evidence)
        self.context.metrics.quarantines.labels(self.id, cause).inc()
        self.log.error("lane quarantined", reason=cause.value, evidence=evidence)

    async def settle(self, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        """Empty when the ledger may have forgotten attempts: an end that no chain shows cannot rest on it."""
        try:
            answers = await self.retry_while_leased(lambda: self.context.ledger.settle(self.fence, batch, landed))
        except RolledBack as change:
            self.log.error("ledger history changed", stored=change.stored, found=change.found)
            await self.requests.apply()
            return []
        for item, answer in zip(batch, answers, strict=True):
            if answer.retired:
                self.context.metrics.retired.inc()
            elif answer.word == "settled" and item.final is not None:
                self.context.retire(replace(item.final, updated_at=answer.at))
        return answers

    async def keep(self, landed: Sequence[Landed]) -> None:
        """A rollback past finality forgets them. A failure here stops nothing: an operator can then replay less."""
        if not landed or not self.policy.keep_final_ms:
            return
        try:
            await self.context.ledger.keep(self.fence, landed, self.policy.keep_final_ms, self.policy.keep_final_bytes)
        except Fenced:
            raise
        except TxManagerError as error:
            self.log.warning("final bytes not kept", error=str(error))

    async def forget_kept(self) -> None:
        """An operator answers for what the chain undid: nothing below the cursor is missing any more."""
        keep_ms = self.policy.keep_final_ms
        await self.retry_while_leased(lambda: self.context.ledger.keep(self.fence, (), keep_ms, 0))

    async def _stop(self, state: LaneState, cause: StopCause, reason: str, evidence: Mapping[str, Json]) -> Lane:
        try:
            return await self.retry_while_leased(
                lambda: self.context.ledger.set_lane(self.id, state, reason, evidence, cause=cause, fence=self.fence)
            )
        except NotAllowed:  # an operator closed it meanwhile: it was empty, and belongs to nobody now
            raise Fenced(self.id, "", 0) from None

    async def hold(self, record: Record, reason: str, evidence: Mapping[str, Json]) -> None:
        """An operator decides about this one; where the others have to wait for its nonce, the lane says so."""
        held = await self.retry_while_leased(
            lambda: self.context.ledger.hold(self.fence, record.id, record.life, reason, evidence)
        )
        if held:
            self.context.metrics.holds.labels(self.id, reason).inc()
            self.log.error("intent held", intent=str(record.id), reason=reason, evidence=evidence)
            if self.traces is not None:
                self.traces.held(record.intent, reason)
            await self.load()
            if await self.waits_for_held():
                await self.pause(PauseCause.HELD, evidence, held_words(record.id.key, reason))

    async def waits_for_held(self) -> bool:
        """Whether the others have to wait for an intent that is held. Once its number is used they do not."""
        held = [flight for flight in self.plan.flights if flight.held]
        if self.keyless or not any(map(self.plan.flights.blocks, held)):
            return False
        with contextlib.suppress(Unavailable, Busy, KeyMissing):
            self.plan.flights.saw_used((await self.chain.nonce(self.id)).next_nonce - 1)
        strict = self.policy.window == 1 or self.chain.traits.gaps_block
        return strict and any(map(self.plan.flights.blocks, held))

    async def pause(self, cause: PauseCause, evidence: Mapping[str, Json], reason: str = "") -> None:
        if self.plan.state not in WORKING:
            return
        reason = reason or words_of(cause)
        evidence = {**evidence, "was": self.plan.state.value}
        self.plan.is_in(LaneState.PAUSED)
        self.plan.read(await self._stop(LaneState.PAUSED, cause, reason, evidence))
        self.log.error("lane paused", reason=reason, evidence=evidence)

    async def resume(self, why: str) -> None:
        """Back to what it was before the pause: a lane that an operator drains stays draining. An operator's word that
        was not read yet comes first."""
        stored = self.plan.stored
        draining = stored.evidence.get("was") == LaneState.DRAINING.value
        state = LaneState.DRAINING if draining else LaneState.ACTIVE
        try:
            view = await self.retry_while_leased(
                lambda: self.context.ledger.set_lane(self.id, state, "", {}, fence=self.fence, asks=stored.asks)
            )
        except Outdated:
            self.refresh = True
            self.flying.set()
            return
        self.plan.read(view)
        self.plan.send_all_again()  # what is in flight goes out again before anything newer
        self.log.info("lane resumed", why=why)
        self.work.set()

    # -- what the worker tells the lane

    def renewed(self, answer: Renewed, valid_until: float) -> None:
        self.valid_until = valid_until
        self.depth = answer.depth
        if answer.asks != self.asks or answer.moved:
            self.asks, self.refresh = answer.asks, True
            self.flying.set()
        self.plan.is_in(answer.state)
        if self.plan.lacks_funds:
            self.flying.set()
        if answer.depth > len(self.plan.flights):
            self.wake()

    def wake(self, entry: Taken | None = None) -> None:
        """Something was appended, or may have been; `entry` is what a wake-up says it was."""
        if entry is None:
            self.plan.take_again()
        else:
            self.plan.offer(entry)
        self.work.set()

    # -- recovery

    async def recover(self) -> None:
        """Make sure that the ledger is the one we know, the chain is where it says, and load what is in flight."""
        plan, asked = self.plan, self.plan.command
        if asked is None:
            await self.checks.history(plan.stored, None)
        if plan.stored.cursor is None and not self.keyless:
            await self.checks.first_nonce()
        await self.load()
        if self.traces is not None:
            self.traces.recovered(plan.flights, self.fence.epoch)
        await self.gaps.load()
        if asked is not None:  # an operator spoke while nobody owned the lane
            await self.requests.carry_out(asked)
        elif not plan.quarantined and not self.keyless:
            await self.checks.take_over()

    async def load(self) -> None:
        """Read the records in flight again, keeping what was seen of them and what was written meanwhile."""
        before = {flight.record.id for flight in self.plan.flights}
        records = await self.retry_while_leased(lambda: self.context.ledger.unfinished(self.fence))
        flights = []
        self.plan.head.own(records)
        for record in sorted(records, key=lambda r: place(r.position)):
            # What is read back may have been sent or not: it gets the same patience as a fresh send.
            flight = self.plan.flights.get(record.id) or Flight(record, sent_at=self.context.clock())
            if len(record.attempts) >= len(flight.record.attempts):
                flight.record = record
            flights.append(flight)
        read = {flight.record.id for flight in flights}
        since = [f for f in self.plan.flights if f.record.id not in before and f.record.id not in read]
        self.plan.flights.replace_all([*flights, *since])
