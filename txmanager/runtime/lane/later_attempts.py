"""Later attempts of an intent: a better price or a no-op at its nonce, or new bytes at a nonce of their own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from txmanager.core.chain import Impossible, Prepared
from txmanager.core.decide import Kill, Resign
from txmanager.core.errors import NotOurs, NotSigned
from txmanager.core.flights import Flight, Order
from txmanager.core.kills import KillCause, doom_of
from txmanager.core.lane_plan import Bid
from txmanager.core.ledger import Settlement, Taken, WriteAhead
from txmanager.core.models import Attempt, Json, Purpose, Record
from txmanager.core.states import Status
from txmanager.runtime.lane.breaks import Broken
from txmanager.runtime.lane.outbox import Outbox
from txmanager.runtime.lane.owner import OwnedLane
from txmanager.runtime.lane.prepare import count_saved, failed_outcome, prepare
from txmanager.runtime.lane.sealing import still_sealed
from txmanager.runtime.lane.shortage import Shortage
from txmanager.runtime.lane.signatures import Slot


class LaterAttempts:
    def __init__(self, lane: OwnedLane, outbox: Outbox, shortage: Shortage) -> None:
        self._lane = lane
        self._outbox = outbox
        self._shortage = shortage

    # -- at the nonce that it has

    async def outbid(self, flight: Flight) -> bool:
        """The same nonce at a better price, the intent's own bytes or a no-op: written ahead, then sent."""
        lane, order, record = self._lane, flight.order, flight.record
        flight.order = None
        if (bid := lane.plan.bid(flight, order)) is None:
            return True
        now = lane.context.clock()
        if bid.noop is not None or isinstance(order, Kill):
            attempt = await self._noop_over(bid, order, now)
        else:
            if not await still_sealed(lane, record):
                return True
            try:
                attempt = await self._dearer(record, bid, now)
            except NotOurs as damage:
                await lane.hold(record, damage.code, damage.evidence)
                return True
        if attempt is None:
            flight.priced_out_until = now + lane.policy.replace_after_ms
            lane.context.metrics.priced_out.labels(lane.id).inc()
            lane.log.error("no better price below the cap", intent=str(record.id), nonce=bid.nonce)
            return True
        if attempt.purpose is Purpose.NOOP and not await self._shortage.pays(flight, attempt):
            return True
        write = WriteAhead(record.id, record.life, record.position, attempt)
        if not await self._outbox.write_ahead([write], allowed=lane.plan.bid(flight, order) == bid):
            return True
        lane.context.point("after_replace_ahead")
        known = flight.record  # read again meanwhile, perhaps: a cancel must not be forgotten
        if all(a.name != attempt.name for a in known.attempts):
            flight.record = replace(known, attempts=(*known.attempts, attempt))
        flight.reply = None
        lane.context.metrics.replacements.labels(lane.id).inc()
        if isinstance(order, Kill) and order.doom.cause is KillCause.OVERDUE:
            lane.context.metrics.cancels.labels(lane.id).inc()
            lane.log.warning("given up", intent=str(record.id), nonce=bid.nonce, why=order.doom.why)
        lane.log.info("replaced", intent=str(record.id), nonce=bid.nonce, hash=attempt.hash, terms=attempt.terms)
        await self._outbox.send([(flight, attempt)])
        return True

    async def _noop_over(self, bid: Bid, order: Order | None, now: int) -> Attempt | None:
        """A no-op at that nonce; it remembers why the intent has to end."""
        lane = self._lane
        attempt = await lane.signatures.get(
            Slot.OUTBID,
            ("noop", *(a.name for a in bid.rivals)),
            lambda: lane.chain.noop(lane.id, bid.nonce, bid.rivals, now),
        )
        doom = order.doom if isinstance(order, Kill) else doom_of(bid.noop.terms) if bid.noop is not None else None
        if attempt is None or doom is None:
            return attempt
        return replace(attempt, terms={**attempt.terms, **doom.terms})

    async def _dearer(self, record: Record, bid: Bid, now: int) -> Attempt | None:
        lane, bare = self._lane, Prepared(record.intent, None)
        return await lane.signatures.get(
            Slot.OUTBID,
            ("replace", *(a.name for a in bid.rivals)),
            lambda: lane.chain.replace(lane.id, bare, bid.rivals, now),
        )

    # -- at a nonce of its own

    async def sign_alone(self, flight: Flight) -> bool:
        """Sign again, or sign a no-op: alone on the lane, written ahead, then nothing newer until it is seen."""
        lane, order, record = self._lane, flight.order, flight.record
        flight.order = None
        if not lane.plan.may_sign_alone(flight, order):
            return False
        attempt: Attempt | None
        if isinstance(order, Resign):
            signed = await self._sign_again(flight, order)
            if isinstance(signed, bool):
                return signed
            attempt = signed
        else:
            attempt = await self._noop(record, order)
        if attempt is None:
            flight.killable = False
            lane.log.warning("the key can sign no no-op", intent=str(record.id))
            return False
        if attempt.purpose is Purpose.NOOP and not await self._shortage.pays(flight, attempt):
            return False
        deaths = dict(order.deaths) if isinstance(order, Resign) else {}
        if isinstance(order, Kill):
            attempt = replace(attempt, terms={**attempt.terms, **order.doom.terms})
        counted = isinstance(order, Resign) and order.counted
        write = WriteAhead(record.id, record.life, record.position, attempt, deaths, counted)
        flight.noop_at = attempt.nonce if attempt.purpose is Purpose.NOOP else None
        try:
            if not await self._outbox.write_ahead([write], allowed=lane.plan.may_sign_alone(flight, order)):
                return True
        finally:
            flight.noop_at = None
        known = flight.record  # read again meanwhile, perhaps: a cancel must not be forgotten
        if all(a.name != attempt.name for a in known.attempts):
            attempts = [a.with_proof(deaths[a.name]) if a.name in deaths else a for a in known.attempts]
            status = Status.INFLIGHT if isinstance(order, Resign) else known.status
            resigns = record.resigns + counted
            flight.record = replace(known, attempts=(*attempts, attempt), status=status, resigns=resigns, hold=None)
        if isinstance(order, Resign):
            lane.context.metrics.resigns.labels(lane.id).inc()
            lane.log.warning("signed again", intent=str(record.id), hash=attempt.hash, deaths=deaths)
        flight.reply = None
        lane.plan.went_alone(flight)
        await self._outbox.send([(flight, attempt)])
        return True

    async def _noop(self, record: Record, order: Order | None) -> Attempt | None:
        lane, now = self._lane, self._lane.context.clock()
        return await lane.signatures.get(
            Slot.ORDER,
            _question(lane, order, record),
            lambda: lane.chain.noop(lane.id, lane.plan.head.cursor, record.attempts, now),
        )

    async def _sign_again(self, flight: Flight, order: Resign) -> Attempt | bool:
        """The intent's new bytes; or, when it ended or has to wait, whether there may be more to do at once."""
        lane, record = self._lane, flight.record
        if not await still_sealed(lane, record):
            return await self._refuse_directive(record)
        [prepared] = await prepare(lane, [record.intent])
        if isinstance(prepared, Broken):
            raise prepared.error
        if isinstance(prepared, Impossible):
            count_saved(lane, prepared.saved)
            await self._fail_dead(flight, order, prepared.error)
            return True
        sifted = await lane.wallet.sift([(_taken(record), prepared)])
        for _, error in sifted.failed:
            await self._fail_dead(flight, order, error)
            return True
        if sifted.short is not None:
            await self._shortage.stop_for(sifted.short)
            return False
        [(_, payable)] = sifted.ready
        try:
            [signed] = await lane.signatures.get(
                Slot.ORDER,
                _question(lane, order, record),
                lambda: lane.chain.sign(
                    lane.id, [payable], lane.plan.head.cursor, Purpose.RESIGN, lane.context.clock()
                ),
            )
        except NotSigned as nothing:
            count_saved(lane, nothing.saved)
            await self._fail_dead(flight, order, nothing.error)
            return True
        return signed

    async def _refuse_directive(self, record: Record) -> bool:
        """An operator's wish to sign again must not come back with every look at a record that may not be signed."""
        lane = self._lane
        if record.directive is not None:
            await lane.retry_while_leased(lambda: lane.context.ledger.answer(lane.fence, record.id, record.life))
            await lane.load()
        return True

    async def _fail_dead(self, flight: Flight, order: Resign, error: Mapping[str, Json]) -> None:
        """The intent cannot be signed again (a delegate that expired): dead for ever, and proven so."""
        lane, record = self._lane, flight.record
        if await lane.settle([Settlement.of(record, failed_outcome(lane, error), order.deaths)]):
            lane.plan.flights.remove(record.id)
            lane.context.metrics.settled.labels(lane.id, Status.FAILED).inc()


def _question(lane: OwnedLane, order: Order | None, record: Record) -> Hashable:
    """What a signature answers: another order, another nonce or one more attempt is another question."""
    return (type(order), record.id, record.life, lane.plan.head.cursor, len(record.attempts))


def _taken(record: Record) -> Taken:
    return Taken(record.intent, record.life, record.position, record.created_at)
