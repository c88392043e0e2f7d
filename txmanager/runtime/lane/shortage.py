"""What a lane cannot pay for: it stops for that intent by name, and asks again whether that is over."""

from __future__ import annotations

from txmanager.core.chain import Prepared, Unpriced
from txmanager.core.flights import Flight
from txmanager.core.funds import Word
from txmanager.core.models import Attempt, Intent, Json
from txmanager.core.states import Status
from txmanager.core.stops import PauseCause
from txmanager.runtime.lane.owner import OwnedLane
from txmanager.runtime.lane.prepare import prepare
from txmanager.runtime.lane.wallet import Short


class Shortage:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self._of: Intent | None = None
        """What the lane cannot pay for, as far as this owner stopped for it."""

    async def stop_for(self, short: Short) -> None:
        """The head of the queue cannot be paid now: wait for what is in flight, or for funds. Nothing was signed."""
        lane, intent = self._lane, short.entry.intent
        if short.word is Word.WAIT:
            lane.log.info("waits for what is in flight", intent=str(intent.id), message=short.message)
            return
        self._of = intent
        evidence: dict[str, Json] = {"message": short.message, "intent": str(intent.id), "unsigned": True}
        if (found := short.finding) is not None:
            evidence |= {"needs": str(found.needs), "balance": str(found.purse.balance), "purse": found.purse.name}
        await lane.pause(PauseCause.FUNDS, evidence)

    async def over(self) -> bool:
        """Whether what the lane stopped for can be paid now, or is over. Who does not know it judges it anew."""
        lane, stopped = self._lane, self._of
        named = str(lane.plan.stored.evidence["intent"])
        if stopped is None or str(stopped.id) != named:
            return True
        record = await lane.retry_while_leased(lambda: lane.context.ledger.read(stopped.id))
        flight = lane.plan.flights.get(stopped.id)
        queued = record is not None and record.status is Status.QUEUED
        if not queued and (flight is None or not flight.dead or flight.record.cancel_requested):
            return True
        [checked] = await prepare(lane, [stopped])
        found = await lane.wallet.weigh(checked) if isinstance(checked, Prepared | Unpriced) else None
        return found is None or found.word is not Word.PAUSE

    async def pays(self, flight: Flight, noop: Attempt) -> bool:
        """Whether the lane can pay for a no-op. If it cannot, it waits for funds with all that it has in flight."""
        lane = self._lane
        missing = await lane.wallet.pays(noop)
        if missing is None:
            return True
        flight.priced_out_until = lane.context.clock() + lane.policy.include_within_ms
        purse = missing.purse
        evidence = {"needs": str(missing.needs), "balance": str(purse.balance), "purse": purse.name}
        await lane.pause(PauseCause.FUNDS, {"message": "a no-op cannot be paid", **evidence})
        return False
