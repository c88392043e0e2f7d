"""The watching half of a lane: look up, decide, prove, settle. It never signs and never hands out a nonce."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from txmanager.core.chain import Verdict
from txmanager.core.decide import (
    Hold,
    Kill,
    Pause,
    Probe,
    Prove,
    Quarantine,
    Resign,
    Settle,
    Step,
    Wait,
    decide,
)
from txmanager.core.errors import Busy, Unavailable
from txmanager.core.ledger import Settlement
from txmanager.core.models import Attempt, Purpose, Record
from txmanager.core.states import LaneState
from txmanager.runtime.flights import Flight
from txmanager.runtime.lane import FUNDS, OwnedLane

_QUICK_S = 0.001
PROVE_EVERY_MS = 1_000


class Tracker:
    def __init__(self, lane: OwnedLane, poll_s: float) -> None:
        self._lane = lane
        self._poll_s = poll_s
        self._pause_s = _QUICK_S

    async def run(self) -> None:
        lane = self._lane
        while True:
            if lane.refresh:
                await lane.obey()
            if not len(lane.flights):
                lane.flying.clear()
                self._pause_s = _QUICK_S
                await lane.flying.wait()
                continue
            try:
                changed = await self.look()
            except (Unavailable, Busy) as error:
                lane.log.warning("look-up failed", error=str(error))
                changed = False
            # look again at once while things move, less often while nothing does
            self._pause_s = _QUICK_S if changed else min(self._poll_s, self._pause_s * 2)
            lane.flying.clear()
            try:
                async with asyncio.timeout(self._pause_s):
                    await lane.flying.wait()
            except TimeoutError:
                pass

    async def look(self) -> bool:
        """One pass over everything in flight; True when anything changed."""
        changed = await self._look_up()
        steps = self._decide()
        changed |= await self._settle([(f, s) for f, s in steps if isinstance(s, Settle)])
        changed |= await self._prove([f for f, s in steps if isinstance(s, Prove)])
        for flight, step in steps:
            match step:
                case Probe(attempt=attempt):
                    await self._probe(flight, attempt)
                case Resign() | Kill():
                    flight.order = step
                    self._lane.work.set()
                case Hold():
                    await self._hold(flight, step)
                case Pause(reason=reason, evidence=evidence):
                    flight.reply, flight.sent_at = None, self._lane.context.clock()
                    await self._lane.pause(reason, evidence)
                case Quarantine(reason=reason, evidence=evidence):
                    flight.reply = None
                    await self._lane.quarantine(reason, evidence)
                case Wait() | Settle() | Prove():
                    pass
        if changed:
            self._lane.work.set()
        return changed

    async def _look_up(self) -> bool:
        lane = self._lane
        wanted = [
            (flight, attempt)
            for flight in lane.flights
            for attempt in flight.record.attempts
            if not attempt.dead and flight.where(attempt) != "final"
        ]
        if not wanted:
            return False
        pairs = [(flight.record.intent, attempt) for flight, attempt in wanted]
        changed = False
        for (flight, attempt), seen in zip(wanted, await lane.chain.look_up(lane.id, pairs), strict=True):
            if seen.where != flight.where(attempt):
                flight.sightings[attempt.name] = seen
                changed = True
        return changed

    def _decide(self) -> list[tuple[Flight, Step]]:
        lane = self._lane
        now, highest = lane.context.clock(), lane.flights.highest_on_chain()
        queue_empty = lane.depth <= len(lane.flights)
        oldest = min((f.record.created_at for f in lane.flights), default=now)
        lane.context.metrics.oldest.labels(lane.id).set(max(0, now - oldest) / 1000)
        lane.context.metrics.inflight.labels(lane.id).set(len(lane.flights))
        return [
            (
                flight,
                decide(
                    flight.record,
                    lane.flights.observe(flight, highest, queue_empty=queue_empty),
                    lane.policy,
                    lane.chain.traits,
                    now,
                ),
            )
            for flight in lane.flights
        ]

    # -- carrying steps out

    async def _settle(self, ends: Sequence[tuple[Flight, Settle]]) -> bool:
        if not ends:
            return False
        lane = self._lane
        batch = [
            Settlement(f.record.id, f.record.life, f.record.stream_id, step.outcome, step.deaths) for f, step in ends
        ]
        landed = max((_landed(f) for f, _ in ends), default=-1)
        lane.context.point("before_settle")
        answers = await lane.insist(
            lambda: lane.context.ledger.settle(lane.fence, batch, landed if landed >= 0 else None)
        )
        lane.context.point("after_settle")
        for (flight, step), answer in zip(ends, answers, strict=True):
            record = flight.record
            if answer.word in ("settled", "already", "gone"):
                lane.flights.remove(record.id)
            if answer.word == "settled":
                lane.context.metrics.settled.labels(lane.id, step.outcome.status).inc()
                lane.context.metrics.settle_s.observe(max(0, answer.at - record.created_at) / 1000)
                lane.context.retire(_final(flight, step, answer.at))
            elif answer.word in ("conflict", "refused"):
                evidence = {"intent": str(record.id), "stored": answer.status, "seen": step.outcome.status}
                await lane.quarantine("unexplained_outcome", evidence)
        return True

    async def _prove(self, flights: Sequence[Flight]) -> bool:
        lane = self._lane
        now = lane.context.clock()
        due = [f for f in flights if now - f.proved_at >= PROVE_EVERY_MS]
        pairs = [(f, a) for f in due for a in f.open]
        for flight in due:
            flight.proved_at = now
        if not pairs:
            return False
        proofs = await lane.chain.prove_dead(lane.id, [attempt for _, attempt in pairs])
        changed = False
        for (flight, attempt), proof in zip(pairs, proofs, strict=True):
            if proof is None:
                flight.reply = None  # a node's word was not confirmed: ask again later instead of believing it
                continue
            foreign = proof.evidence.get("final_nonce")
            if proof.cause == "overtaken" and foreign is not None and self._foreign(int(foreign)):
                evidence = {"final_nonce": str(foreign), "cursor": str(lane.cursor), "hash": attempt.hash}
                await lane.quarantine("foreign_nonce_use", evidence)
                continue
            flight.proofs[attempt.name] = proof
            lane.context.metrics.overtaken.labels(lane.id, proof.cause).inc()
            lane.log.warning("attempt proven dead", intent=str(flight.record.id), hash=attempt.hash, cause=proof.cause)
            changed = True
        return changed

    def _foreign(self, final_nonce: int) -> bool:
        """Whether the nonce that overtook us is none of ours."""
        lane = self._lane
        if final_nonce >= lane.cursor:
            return True
        for flight in lane.flights:
            for attempt in flight.record.attempts:
                if attempt.nonce == final_nonce and not attempt.dead and not flight.on_chain(attempt):
                    return True  # our own bytes of that nonce are not on chain, yet the nonce is used
        return False

    async def _probe(self, flight: Flight, attempt: Attempt) -> None:
        lane = self._lane
        flight.sent_at = lane.context.clock()
        reply = await lane.chain.probe(lane.id, attempt)
        flight.reply = reply
        lane.context.metrics.sends.labels(lane.id, reply.verdict).inc()
        if reply.verdict.sent and lane.state is LaneState.PAUSED and lane.lane.reason == FUNDS:
            await lane.resume("funded again")
        if reply.verdict is not Verdict.ACCEPTED:
            lane.log.info("asked why", hash=attempt.hash, verdict=reply.verdict, message=reply.message)
        lane.work.set()

    async def _hold(self, flight: Flight, step: Hold) -> None:
        lane, record = self._lane, flight.record
        held = await lane.insist(
            lambda: lane.context.ledger.hold(lane.fence, record.id, record.life, step.reason, step.evidence)
        )
        if held:
            lane.context.metrics.holds.labels(lane.id, step.reason).inc()
            lane.log.error("intent held", intent=str(record.id), reason=step.reason, evidence=step.evidence)
            await lane.load()
            if lane.policy.window == 1:
                await lane.pause(f"intent {record.id.key} is held: {step.reason}", step.evidence)


def _landed(flight: Flight) -> int:
    """The highest nonce of this record that is ours on chain, or (a no-op) may still be."""
    nonces = [
        a.nonce
        for a in flight.record.attempts
        if flight.where(a) == "final" or (a.purpose is Purpose.NOOP and not a.dead)
    ]
    return max(nonces, default=-1)


def _final(flight: Flight, step: Settle, at: int) -> Record:
    record = flight.record
    attempts = tuple(a.with_proof(step.deaths[a.name]) if a.name in step.deaths else a for a in record.attempts)
    return replace(
        record,
        intent=replace(record.intent, payload={}),
        status=step.outcome.status,
        outcome=step.outcome,
        attempts=attempts,
        updated_at=at,
        directive=None,
    )
