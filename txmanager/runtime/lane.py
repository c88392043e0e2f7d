"""One owned lane: recover, then send and track side by side until the lease, the worker or the lane ends.

The sender is the only one who signs, writes ahead and broadcasts; the tracker is the only one who looks up, proves
and settles. Both stop for good at the first fenced answer. A crash anywhere leaves records the next owner recovers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, TypeVar

import structlog

from txmanager.core.alerts import Alert, Check
from txmanager.core.chain import Chain, NonceView
from txmanager.core.decide import Policy
from txmanager.core.errors import (
    Busy,
    Fenced,
    KeyMissing,
    NotAllowed,
    RolledBack,
    TxManagerError,
    Unavailable,
    Unconfirmed,
)
from txmanager.core.flights import Flight
from txmanager.core.keyless_plan import KeylessPlan
from txmanager.core.lane_plan import WORKING, LanePlan
from txmanager.core.ledger import Landed, Ledger, Renewed, Settled, Settlement
from txmanager.core.models import Fence, Json, Lane, Record
from txmanager.core.positions import place
from txmanager.core.seal import Seals
from txmanager.core.signing_plan import SigningPlan
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause, StopCause, held_words, words_of
from txmanager.core.write_head import WriteHead
from txmanager.runtime.breaks import Breaks
from txmanager.runtime.gaps import GapFiller
from txmanager.runtime.guarded import GuardedChain
from txmanager.runtime.metrics import Metrics
from txmanager.runtime.wallet import Wallet

T = TypeVar("T")

_SHOWN = 20
"""How many intents a quarantine names."""


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
    gaps: GapFiller = field(init=False)
    breaks: Breaks = field(init=False)
    wallet: Wallet = field(init=False)
    depth: int = 0
    asks: int = 0
    checked: Check = field(default_factory=Check)
    """The monitor's request that was answered last."""
    deepest: tuple[int, int] = (-1, -1)
    """The highest nonce of ours that was settled by this owner, and the height it was included at."""
    sending: bool = False
    """Whether the sender is between a take and its last send."""
    work: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the sender may have something to do."""
    flying: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the tracker may have something to look at."""
    refresh: bool = False
    """Whether an operator, a canceller or a new server asks for attention."""
    blind: bool = False
    """Whether it was leased after a roll-back that nobody vouched for: what it read then proves nothing."""
    log: Any = field(init=False, default=None)

    def __post_init__(self, leased: Lane) -> None:
        make = KeylessPlan if leased.keyless else SigningPlan
        self.plan = make(self.policy, self.chain.traits, leased)
        self.chain = GuardedChain(self.chain)
        self.gaps = GapFiller(self)
        self.breaks = Breaks(self)
        self.wallet = Wallet(self)
        self.log = structlog.get_logger("lane").bind(lane=self.fence.lane, epoch=self.fence.epoch)
        self.depth, self.asks, self.checked = leased.depth, leased.asks, leased.check

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
        if self.plan.state is LaneState.QUARANTINED:
            return
        self.plan.quarantined(cause)
        fix = f"txmanager lanes rebaseline {self.id}, after finding out who else used the key or what was lost"
        evidence = {**evidence, "resolve": fix}
        await self._stop(LaneState.QUARANTINED, cause, cause.value, evidence)
        self.context.metrics.quarantines.labels(self.id, cause).inc()
        self.log.error("lane quarantined", reason=cause.value, evidence=evidence)

    async def settle(self, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        """Empty when the ledger may have forgotten attempts: an end that no chain shows cannot rest on it."""
        try:
            return await self.retry_while_leased(lambda: self.context.ledger.settle(self.fence, batch, landed))
        except RolledBack as change:
            self.log.error("ledger history changed", stored=change.stored, found=change.found)
            await self.apply_requests()
            return []

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
            await self.load()
            if await self.waits_for_held():
                await self.pause(PauseCause.HELD, evidence, held_words(record.id.key, reason))

    async def waits_for_held(self) -> bool:
        """Whether the others have to wait for an intent that is held. Once its number is used they do not."""
        held = [flight for flight in self.plan.flights if flight.held]
        if self.keyless or not any(map(self.plan.flights.blocks, held)):
            return False
        with contextlib.suppress(Unavailable, Busy, KeyMissing):
            self.plan.flights.used = (await self.chain.nonce(self.id)).next_nonce - 1
        strict = self.policy.window == 1 or self.chain.traits.gaps_block
        return strict and any(map(self.plan.flights.blocks, held))

    async def pause(self, cause: PauseCause, evidence: Mapping[str, Json], reason: str = "") -> None:
        if self.plan.state not in WORKING:
            return
        reason = reason or words_of(cause)
        evidence = {**evidence, "was": self.plan.state.value}
        self.plan.state = LaneState.PAUSED
        self.plan.stored = await self._stop(LaneState.PAUSED, cause, reason, evidence)
        self.log.error("lane paused", reason=reason, evidence=evidence)

    async def resume(self, why: str) -> None:
        """Back to what it was before the pause: a lane that an operator drains stays draining."""
        draining = self.plan.stored.evidence.get("was") == LaneState.DRAINING.value
        state = LaneState.DRAINING if draining else LaneState.ACTIVE
        self.plan.stored = await self.retry_while_leased(
            lambda: self.context.ledger.set_lane(self.id, state, "", {}, fence=self.fence)
        )
        self.plan.state = self.plan.stored.state
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
        if answer.state is not self.plan.state:
            self.plan.state = answer.state
        if self.plan.lacks_funds:
            self.flying.set()
        if answer.depth > len(self.plan.flights):
            self.wake()

    def wake(self) -> None:
        """Something was appended, or may have been."""
        self.plan.take_again()
        self.work.set()

    # -- recovery

    async def recover(self) -> None:
        """Make sure that the ledger is the one we know, the chain is where it says, and load what is in flight."""
        plan, asked = self.plan, self.plan.command
        if asked is None:
            await self._check_history(plan.stored, None)
        if plan.stored.cursor is None and not self.keyless:
            await self._first_baseline()
        await self.load()
        await self.gaps.load()
        if asked is not None:  # an operator spoke while nobody owned the lane
            await self._rebaseline(asked)
        elif plan.state is not LaneState.QUARANTINED and not self.keyless:
            await self._check_chain()

    async def _check_history(self, lane: Lane, known: WriteHead | None) -> None:
        """Another history: go on only if nothing of ours can be missing in it."""
        if not lane.moved:
            return
        # An owner of a keyless lane knows nothing of its reservations, so its memory proves nothing.
        whole = known is not None and not self.keyless and known.stands_in(lane)
        evidence = {"stored": lane.history_id, "found": lane.found_history_id}
        if self.context.ledger.vouches or whole:
            await self.retry_while_leased(
                lambda: self.context.ledger.vouch(self.fence, lane.history_id, lane.found_history_id)
            )
            self.log.info("ledger history accepted", **evidence)
        else:
            self.blind = self.blind or known is None
            await self.quarantine(QuarantineCause.ROLLED_BACK, evidence)

    async def _first_baseline(self) -> None:
        view = await self._nonce()
        if view is not None:
            first = await self._confirmed(view)
            cursor = await self.retry_while_leased(lambda: self.context.ledger.baseline(self.fence, first))
            self.plan.adopt(replace(self.plan.stored, cursor=cursor, baseline=cursor))
            self.depth, self.asks = self.plan.stored.depth, self.plan.stored.asks  # what was asked since is read again

    async def _confirmed(self, view: NonceView) -> int:
        """The next nonce as several nodes see it, however long that takes: a number that one invents would leave the
        lane out of order for ever."""
        pause_s = 0.5
        while True:
            readings = await self.retry_while_leased(lambda: self.chain.readings(self.id, view))
            if readings.next_nonce is not None:
                return readings.next_nonce
            self.context.metrics.disagreements.labels(self.id, "first_nonce").inc()
            self.log.error("nodes disagree about the lane's nonce; nothing is signed", nodes=readings.answers)
            await asyncio.sleep(pause_s)
            pause_s = min(5.0, pause_s * 2)

    async def _check_chain(self) -> None:
        """A nonce on chain that none of our attempts explains is foreign use or lost data."""
        view = await self._nonce()
        if view is None or self.plan.stored.cursor is None:
            return
        used = view.next_nonce - 1
        cursor, landed = self.plan.head.cursor, self.plan.stored.landed
        evidence = {"chain_nonce": str(used), "cursor": str(cursor), "landed": str(landed)}
        self.gaps.see(view)
        wrong, cause = self.plan.unexplained, QuarantineCause.FOREIGN_NONCE_USE
        await self.retry_while_leased(lambda: self._quarantine_if(wrong, view, cause, evidence))

    async def _quarantine_if(
        self, wrong: Callable[[NonceView], bool], view: NonceView, cause: QuarantineCause, evidence: Mapping[str, Json]
    ) -> None:
        """One node alone stops no lane: as many as must agree have to see it."""
        if not wrong(view):
            return
        readings = await self.chain.readings(self.id, view)
        if readings.needed > 1:
            evidence = {**evidence, "nodes": readings.answers}
        if readings.say(wrong):
            await self.quarantine(cause, evidence)
        else:
            self.context.metrics.disagreements.labels(self.id, cause.value).inc()
            self.log.error("nodes disagree; the lane goes on", cause=cause.value, evidence=evidence)

    async def _nonce(self) -> NonceView | None:
        try:
            view = await self.retry_while_leased(lambda: self.chain.nonce(self.id))
        except KeyMissing as error:
            await self.quarantine(QuarantineCause.KEY_MISSING, {"message": str(error)})
            return None
        if view.balance is not None:
            self.context.metrics.balance.labels(self.id).set(view.balance)
        self.wallet.see(view.funds)
        return view

    async def balance(self, purse: str = "") -> str:
        """What the lane, or one purse of it, can spend, as decimal digits; empty when nobody says."""
        try:
            view = await self.chain.nonce(self.id)
        except (Unavailable, Busy, KeyMissing):
            return ""
        self.wallet.see(view.funds)
        balance = view.balance
        for one in view.funds.purses if view.funds is not None else ():
            if one.name == purse:
                return str(one.balance)
        if balance is None:
            return ""
        self.context.metrics.balance.labels(self.id).set(balance)
        return str(balance)

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

    async def apply_requests(self) -> None:
        """Something was asked of this lane: read what, and carry out what concerns the whole lane."""
        self.refresh = False
        view = await self.retry_while_leased(lambda: self.context.ledger.lane(self.id))
        if view is None:
            raise Fenced(self.id, "", 0)
        checked, self.checked = view.check != self.checked, view.check
        self.plan.state, self.plan.stored = view.state, replace(view, cursor=self.plan.stored.cursor)
        if self.plan.command is not None:
            await self._rebaseline(view)
        else:
            await self._check_history(view, None if self.blind else self.plan.head)
        await self.load()
        self.plan.ask_about_funds()  # a cancelled intent may be what the lane waits for
        if checked:
            await self._compare(view.check)
        self.flying.set()  # what was read back may be in flight again, as after a roll-back of its end
        self.wake()

    async def _compare(self, check: Check) -> None:
        """A monitor saw something: compare with the chain now, send again what it says was dropped."""
        self.context.metrics.checks.labels(self.id).inc()
        self.log.info("checked", check=str(check))
        if Alert.DROPPED in check.alerts and len(self.plan.flights):
            self.plan.send_all_again()
        if self.plan.gaps.block and self.plan.state is not LaneState.QUARANTINED:
            await self.look_at_chain()

    async def look_at_chain(self) -> None:
        """Where gaps block: what belongs to nobody, what somebody else used, whether what was final is still there."""
        nonce, height = self.deepest
        try:
            view = await self.chain.nonce(self.id)
        except (Unavailable, Busy, KeyMissing):
            return
        self.gaps.see(view)

        def undone(seen: NonceView) -> bool:
            """A settled nonce that the chain would take again. A node that lags says so, too: its height tells."""
            return nonce >= 0 and seen.height >= height and seen.next_nonce <= nonce

        used = str(view.next_nonce - 1)
        try:
            evidence = {"chain_nonce": used, "cursor": str(self.plan.head.cursor)}
            await self._quarantine_if(self.plan.foreign, view, QuarantineCause.FOREIGN_NONCE_USE, evidence)
            evidence = {"settled_nonce": str(nonce), "at_height": str(height), "chain_nonce": used}
            if undone(view):
                evidence |= await self._undone(view.next_nonce)
            await self._quarantine_if(undone, view, QuarantineCause.REORG_BEYOND_FINALITY, evidence)
        except (Unavailable, Busy) as error:  # too few nodes say so: the next look asks again
            self.log.warning("not confirmed", error=str(error))

    async def _undone(self, since: int) -> dict[str, str]:
        """The intents whose end the chain took back, as far as their bytes are kept."""
        try:
            kept = await self.context.ledger.kept(self.id, since)
        except TxManagerError:
            return {}
        keys = [one.intent for one in kept if one.intent]
        shown = ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
        return {"undone": shown, "replay": f"txmanager lanes replay {self.id}, before rebaseline"} if keys else {}

    async def _reclaim(self, chain_nonce: int) -> None:
        """Keyless: numbers that a reorg took back from somebody else go to the next caller."""
        ledger = self.context.ledger
        unowned = (await self.retry_while_leased(lambda: ledger.book(self.id))).unowned(chain_nonce)
        count = await self.retry_while_leased(lambda: ledger.reclaim(self.fence, chain_nonce, unowned))
        self.log.warning("numbers reclaimed", count=count, chain_nonce=str(chain_nonce))

    async def _rebaseline(self, view: Lane) -> None:
        """An operator vouches for what happened: go on from the chain's nonce, never below the cursor."""
        if view.moved:
            await self.retry_while_leased(
                lambda: self.context.ledger.vouch(self.fence, view.history_id, view.found_history_id)
            )
        self.blind = False
        chain = await self._nonce()
        if chain is not None:
            # Above all that was signed, where gaps are harmless: what used those nonces is vouched for. Where they
            # block, what the chain has used is, and the cursor stays where it is.
            baseline = await self._confirmed(chain)
            if not self.chain.traits.gaps_block:
                baseline = max(baseline, self.plan.head.cursor + 1)
            self.plan.head.cursor = await self.retry_while_leased(
                lambda: self.context.ledger.baseline(self.fence, baseline, operator=True)
            )
            self.plan.stored = replace(view, cursor=self.plan.head.cursor)
            self.deepest = (-1, -1)
            await self.load()
            await self.gaps.vouched(chain)
            if self.keyless:
                await self._reclaim(chain.next_nonce)
            if view.command is LaneCommand.REBASELINE:
                await self.resume("rebaselined by an operator")
            else:
                self.plan.state = LaneState.ACTIVE  # for a moment: only what works can be paused
                await self.pause(PauseCause.REBASELINED, {})
