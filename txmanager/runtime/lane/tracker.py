"""The watching half of a lane: look up, decide, prove, settle. It never signs and never hands out a nonce."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from prometheus_client import Gauge

from txmanager.core.bounds import bounded
from txmanager.core.chain import UNSEEN, Doubt, Proof, Verdict
from txmanager.core.decide import (
    Hold,
    Kill,
    Pause,
    Probe,
    Prove,
    Quarantine,
    Replace,
    Resign,
    Settle,
    Step,
    Wait,
    decide,
)
from txmanager.core.errors import Busy, InvalidInput, Unavailable
from txmanager.core.flights import ON_CHAIN, Flight
from txmanager.core.ledger import Settlement
from txmanager.core.models import Attempt, Purpose
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.runtime.lane.breaks import is_break
from txmanager.runtime.lane.owner import OwnedLane

_QUICK_S = 0.001
_NOTHING_LEFT = (Wait, Settle)
"""Steps that ask for nothing once the ends are stored."""
PROVE_EVERY_MS = 1_000
FUNDS_EVERY_MS = 5_000
"""A lane without funds looks at its balance at least so often."""


class Tracker:
    def __init__(self, lane: OwnedLane, poll_s: float) -> None:
        self._lane = lane
        self._poll_s = poll_s
        self._pause_s = _QUICK_S
        self._probing: asyncio.Task[None] | None = None
        self._funds_at = 0
        self._held_at = 0
        self._gauges: tuple[Gauge, Gauge] | None = None
        """Age of the oldest and how many are in flight, from the first look that decides."""
        self._doubted = 0
        """How many attempts the last look found too few nodes for, or nodes that contradict each other."""

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._probing is not None:
                self._probing.cancel()

    async def _run(self) -> None:
        lane = self._lane
        while True:
            if lane.refresh:
                await lane.requests.apply()
            await self._resume_by_itself()
            if not len(lane.plan.flights) and not lane.plan.gaps:
                lane.flying.clear()
                self._pause_s = _QUICK_S
                await lane.flying.wait()
                continue
            lane.flying.clear()  # before the look: what is sent during it asks for another one
            try:
                changed = await self.look()
            except (Unavailable, Busy) as error:
                lane.context.metrics.rpc_errors.labels(lane.id, type(error).__name__).inc()
                lane.log.warning("look-up failed", error=str(error))
                changed = False
            if changed and not lane.plan.flights:
                continue  # there is nothing left to look at
            # look again at once while things move, less often while nothing does
            self._pause_s = _QUICK_S if changed else min(self._poll_s, self._pause_s * 2)
            try:
                async with asyncio.timeout(self._pause_s):
                    await lane.flying.wait()
            except TimeoutError:
                pass

    async def look(self) -> bool:
        """One pass over everything in flight; True when anything changed."""
        changed = await self._look_up()
        if self._lane.plan.gaps:
            changed |= await self._lane.gaps.tend()
        await self._answer()
        await self._doubt()
        steps = await self._decide()
        ends = [(f, s) for f, s in steps if isinstance(s, Settle)]
        changed |= await self._settle([(f, s) for f, s in ends if s.outcome.tx_hash])
        if not self._lane.plan.forgets:
            changed |= await self._settle([(f, s) for f, s in ends if not s.outcome.tx_hash])
        others = [(f, s) for f, s in steps if type(s) not in _NOTHING_LEFT]
        changed |= await self._prove([f for f, s in others if isinstance(s, Prove)])
        for flight, step in others:
            try:
                await self._carry_out(flight, step)
            except Exception as error:
                if not is_break(error):
                    raise
                await self._lane.breaks.of_flight(flight, error)
        self._probe([(f, s.attempt) for f, s in others if isinstance(s, Probe)])
        if changed:
            self._lane.work.set()
        return changed

    async def _carry_out(self, flight: Flight, step: Step) -> None:
        match step:
            case Resign() | Kill() | Replace():
                flight.order = step
                if self._lane.plan.may_sign(step):  # else it waits for the lane; a wake-up would send all again at once
                    self._lane.work.set()
            case Hold():
                await self._hold(flight, step)
            case Pause(cause=cause, evidence=evidence):
                flight.reply, flight.sent_at = None, self._lane.context.clock()
                await self._lane.pause(cause, evidence)
            case Quarantine(cause=grave, evidence=evidence):
                flight.reply = None
                await self._lane.quarantine(grave, evidence)
            case _:
                pass

    async def _look_up(self) -> bool:
        lane = self._lane
        wanted = [
            (flight, attempt)
            for flight in lane.plan.flights
            for attempt in flight.record.attempts
            if attempt.proof is None and (not flight.sightings or flight.where(attempt) != "final")
        ]
        if not wanted:
            return False
        pairs = [(flight.record.intent, attempt) for flight, attempt in wanted]
        changed, doubted = False, 0
        for (flight, attempt), seen in zip(wanted, await lane.chain.look_up(lane.id, pairs), strict=True):
            before = flight.sightings.get(attempt.name, UNSEEN)
            if seen.where != before.where:
                changed = True
                if lane.traces is not None and before.where not in ON_CHAIN and seen.where in ON_CHAIN:
                    lane.traces.included(flight.record.intent, attempt)
            elif seen.doubt is before.doubt:
                continue
            flight.sightings[attempt.name] = seen
            if seen.doubt is not None:
                doubted += 1
                self._note_doubt(flight, attempt, before.doubt, seen.doubt)
        if doubted or self._doubted:  # the usual look has none
            self._doubted = doubted
            lane.context.metrics.unconfirmed.labels(lane.id).set(doubted)
        return changed

    def _note_doubt(self, flight: Flight, attempt: Attempt, before: Doubt | None, now: Doubt) -> None:
        """Waiting for another node shows: always in the metric, and in the log once for each thing that nodes say."""
        if before is not None and (before.about, before.conflict) == (now.about, now.conflict):
            return
        details = {"intent": str(flight.record.id), "hash": attempt.hash, "about": now.about, "nodes": now.answers}
        if now.conflict:
            self._lane.context.metrics.disagreements.labels(self._lane.id, now.about).inc()
            self._lane.log.error("nodes disagree", **details)
        else:
            self._lane.log.warning("waiting for another node to say the same", **details)

    async def _decide(self) -> list[tuple[Flight, Step]]:
        lane = self._lane
        now = lane.context.clock()
        oldest = min([f.record.created_at for f in lane.plan.flights], default=now)
        if self._gauges is None:
            self._gauges = lane.context.metrics.oldest.labels(lane.id), lane.context.metrics.inflight.labels(lane.id)
        self._gauges[0].set(max(0, now - oldest) / 1000)
        self._gauges[1].set(len(lane.plan.flights))
        # Nothing new goes out while the lane has no funds for it, or waits for what is in flight.
        empty = lane.depth <= len(lane.plan.flights) or lane.plan.lacks_funds or lane.wallet.waits
        seen = lane.plan.flights.observe_all(queue_empty=empty, now=now, floor=lane.plan.gaps.floor)
        try:
            if not [flight for flight, _ in seen if flight.retry_at]:
                return [(flight, decide(flight.record, o, lane.policy, lane.chain.traits, now)) for flight, o in seen]
        except Exception as error:
            if not is_break(error):
                raise
        # One of them breaks: each by itself.
        steps: list[tuple[Flight, Step]] = []
        for flight, observed in seen:
            if now < flight.retry_at:
                continue
            try:
                steps.append((flight, decide(flight.record, observed, lane.policy, lane.chain.traits, now)))
            except Exception as error:
                if not is_break(error):
                    raise
                await lane.breaks.of_flight(flight, error)
        return steps

    async def _doubt(self) -> None:
        """A refusal for want of funds says nothing by itself: compare it with the balance, once for each answer."""
        poor = [
            f
            for f in self._lane.plan.flights
            if f.reply is not None and f.reply.verdict is Verdict.INSUFFICIENT_FUNDS
            if f.doubt is None or f.doubt[0] is not f.reply
        ]
        if poor and not self._lane.keyless:
            await self._lane.wallet.doubt(poor)

    # -- carrying steps out

    async def _settle(self, ends: Sequence[tuple[Flight, Settle]]) -> bool:
        if not ends:
            return False
        lane = self._lane
        # What a contract or a node said is cut to size: it must not keep a final transaction from ending its intent.
        most = lane.policy.max_result_bytes
        ends = [(f, replace(step, outcome=bounded(step.outcome, most))) for f, step in ends]
        batch = [Settlement.of(f.record, step.outcome, step.deaths) for f, step in ends]
        landed, deepest = _landed([f for f, _ in ends])
        lane.plan.gaps.settled(landed)
        lane.checks.settled(deepest)
        if lane.chain.traits.gaps_block:
            await lane.keep([one for flight, _ in ends for one in flight.final])
        began = lane.traces.now() if lane.traces is not None else 0
        lane.context.point("before_settle")
        try:
            with _ending(ends):
                answers = await lane.settle(batch, landed if landed >= 0 else None)
        except Exception as error:
            if not (is_break(error) or isinstance(error, InvalidInput)):
                raise
            if len(ends) > 1:  # one of them cannot be stored: each by itself
                return any([await self._settle([one]) for one in ends])
            await lane.breaks.of_flight(ends[0][0], error)
            return False
        lane.context.point("after_settle")
        if not answers:
            return False
        ended: Counter[Status] = Counter()
        for (flight, step), answer in zip(ends, answers, strict=True):
            record = flight.record
            if answer.word in ("settled", "already", "gone"):
                lane.plan.flights.remove(record.intent.id)
            if answer.word == "settled":
                ended[step.outcome.status] += 1
                if lane.traces is not None:
                    lane.traces.settled(record.intent, step.outcome, began)
                lane.context.metrics.settle_s.observe(max(0, answer.at - record.created_at) / 1000)
            elif answer.word in ("conflict", "refused"):
                evidence = {"intent": str(record.id), "stored": answer.status, "seen": step.outcome.status}
                await lane.quarantine(QuarantineCause.UNEXPLAINED_OUTCOME, evidence)
        for status, count in ended.items():
            lane.context.metrics.settled.labels(lane.id, status).inc(count)
        return True

    async def _prove(self, flights: Sequence[Flight]) -> bool:
        lane = self._lane
        now = lane.context.clock()
        due = [f for f in flights if not 0 <= now - f.proved_at < PROVE_EVERY_MS]  # a clock may be set back
        pairs = [(f, a) for f in due for a in f.undecided]
        for flight in due:
            flight.proved_at = now
        if not pairs:
            return False
        proofs = await lane.chain.prove_dead(lane.id, [attempt for _, attempt in pairs])
        changed = False
        for (flight, attempt), proof in zip(pairs, proofs, strict=True):
            if proof is None:
                flight.unproven = True
                if flight.reply is not None and flight.reply.verdict in (Verdict.NONCE_TOO_LOW, Verdict.EXPIRED):
                    flight.reply = None  # a node's word was not confirmed: ask again later instead of believing it
                continue
            by = proof.evidence.get("final_nonce") if proof.cause == "overtaken" else None
            whose = "ours" if by is None or lane.keyless else await self._whose(int(by))
            if whose == "foreign":
                evidence = {"final_nonce": str(by), "cursor": str(lane.plan.head.cursor), "hash": attempt.hash}
                await lane.quarantine(QuarantineCause.FOREIGN_NONCE_USE, evidence)
            if whose != "ours":
                continue
            flight.proofs[attempt.name] = self._explained(attempt, proof) if lane.keyless else proof
            lane.context.metrics.overtaken.labels(lane.id, proof.cause).inc()
            lane.log.warning("attempt proven dead", intent=str(flight.record.id), hash=attempt.hash, cause=proof.cause)
            changed = True
        return changed

    def _explained(self, attempt: Attempt, proof: Proof) -> Proof:
        """Keyless: which of the caller's own bytes used the number, where that is known; else the key is used
        elsewhere, which is the caller's to know."""
        rivals = [
            a for f in self._lane.plan.flights for a in f.record.attempts if a.nonce == attempt.nonce and f.on_chain(a)
        ]
        if rivals:
            return replace(proof, evidence={**proof.evidence, "landed": rivals[0].hash})
        if "landed" not in proof.evidence:
            self._lane.log.error("nonce used elsewhere", nonce=str(attempt.nonce), hash=attempt.hash)
        return proof

    async def _whose(self, final_nonce: int) -> Literal["ours", "foreign", "unclear"]:
        """Who used the nonce that overtook us. Ours of that nonce may have landed since the last look."""
        lane = self._lane
        if final_nonce < (lane.plan.stored.baseline or 0):
            return "ours"  # or vouched for by an operator
        if final_nonce >= lane.plan.head.cursor:
            return "foreign"
        rivals = [(f, a) for f in lane.plan.flights for a in f.record.attempts if a.nonce == final_nonce]
        if not rivals or any(flight.on_chain(attempt) for flight, attempt in rivals):
            return "ours"
        living = [a for f, a in rivals if not a.dead and a.name not in f.proofs]
        proofs = await lane.chain.prove_dead(lane.id, living) if living else []
        # None of our own bytes of that nonce can land any more, yet the nonce is used.
        return "foreign" if all(proof is not None for proof in proofs) else "unclear"

    def _probe(self, due: Sequence[tuple[Flight, Attempt]]) -> None:
        """Ask why the lowest nonce is not included, beside the look-ups: a node may take its time to answer."""
        if self._probing is not None and self._probing.done():
            self._probing.result()
            self._probing = None
        due = [(flight, attempt) for flight, attempt in due if not self._lane.plan.flights.unsent_below(attempt.nonce)]
        if due and self._probing is None:
            self._probing = asyncio.create_task(self._probe_lowest(sorted(due, key=lambda pair: pair[1].nonce)))
            self._probing.add_done_callback(lambda _: self._lane.flying.set())

    async def _probe_lowest(self, due: Sequence[tuple[Flight, Attempt]]) -> None:
        lane, (flight, attempt) = self._lane, due[0]
        lane.check_lease()
        known = len(flight.record.attempts)
        reply = await lane.chain.probe(lane.id, attempt)
        if len(flight.record.attempts) == known:
            flight.reply, flight.sent_at = reply, lane.context.clock()
        # Signed again meanwhile: what a node says of the old bytes is no word about the new ones.
        lane.context.metrics.sends.labels(lane.id, reply.verdict).inc()
        if reply.verdict.sent and lane.plan.lacks_funds:
            await lane.resume("funded again")
        if reply.verdict is Verdict.NONCE_GAP:
            lane.plan.send_all_again()  # a pool lost a lower nonce
        if lane.chain.traits.gaps_block:
            await lane.checks.look()
        if reply.verdict.sent and len(due) > 1:
            # The others follow in order, after the one they must not overtake.
            for other, _ in due:
                other.sent_at = lane.context.clock()
            lane.plan.send_all_again()
        if reply.verdict is not Verdict.ACCEPTED:
            lane.log.info("asked why", hash=attempt.hash, verdict=reply.verdict, message=reply.message)
        lane.work.set()

    # -- what ends by itself

    async def _resume_by_itself(self) -> None:
        """A lane without funds goes on when its balance grew; one that waits for a held intent, when that ended."""
        lane, now = self._lane, self._lane.context.clock()
        paused = lane.plan.state is LaneState.PAUSED and lane.plan.stored.cause is PauseCause.HELD
        if paused or [flight for flight in lane.plan.flights if flight.held]:
            due = not 0 <= now - self._held_at < lane.policy.include_within_ms
            if due or not any(flight.held for flight in lane.plan.flights):
                self._held_at = now
                if not await lane.waits_for_held() and paused:
                    await lane.resume("nothing waits for a held intent any more")
        if paused:
            return
        if lane.plan.lacks_funds and not 0 <= lane.context.clock() - self._funds_at < self._ask_funds_every_ms:
            self._funds_at = lane.context.clock()
            if lane.plan.stored.evidence.get("intent"):
                lane.plan.ask_about_funds()
                lane.work.set()
                return
            # Something in flight lacks them, or an older release stopped the lane.
            purse = str(lane.plan.stored.evidence.get("purse", ""))
            found, then = await lane.checks.balance(purse), str(lane.plan.stored.evidence.get("balance", ""))
            if found and then and int(found) > int(then):
                await lane.resume("the balance grew")
            elif found and not then:
                await lane.resume("the balance is known again")
            elif found and not any(flight.open for flight in lane.plan.flights) and not self._unsigned_waits():
                # The dead ones among them wait to be signed again, which a lane without funds does not do.
                await lane.resume("nothing waits for funds any more")

    @property
    def _ask_funds_every_ms(self) -> int:
        return min(self._lane.policy.include_within_ms, FUNDS_EVERY_MS)

    def _unsigned_waits(self) -> bool:
        """What the chain would not even try for want of funds is still queued."""
        return bool(self._lane.plan.stored.evidence.get("unsigned")) and self._lane.depth > 0

    async def _answer(self) -> None:
        """Clear an operator's word that was carried out: looked again, or no longer held."""
        lane = self._lane
        for flight in lane.plan.flights:
            record = flight.record
            if record.directive is None or (flight.held and record.directive.get("verb") not in ("track", "settle")):
                continue
            flight.proved_at, flight.unproven = 0, False
            await lane.retry_while_leased(lambda r=record: lane.context.ledger.answer(lane.fence, r.id, r.life))  # type: ignore[misc]
            flight.record = replace(record, directive=None)

    async def _hold(self, flight: Flight, step: Hold) -> None:
        await self._lane.hold(flight.record, step.reason, step.evidence)


@contextmanager
def _ending(ends: Sequence[tuple[Flight, Settle]]) -> Iterator[None]:
    """No no-op is begun for these meanwhile: it could land after their records are gone."""
    for flight, _ in ends:
        flight.ending = True
    try:
        yield
    finally:
        for flight, _ in ends:
            flight.ending = False


def _landed(flights: Sequence[Flight]) -> tuple[int, tuple[int, int]]:
    """The highest nonce of these that is ours on chain, or (a no-op) may still be; and the highest that was seen final,
    with its height."""
    highest, deepest = -1, (-1, -1)
    for flight in flights:
        for attempt in flight.record.attempts:
            sighting = flight.sightings.get(attempt.name)
            if sighting is not None and sighting.where == "final":
                highest = max(highest, attempt.nonce)
                if sighting.height is not None:
                    deepest = max(deepest, (attempt.nonce, sighting.height))
            elif attempt.purpose is Purpose.NOOP and not attempt.dead:
                highest = max(highest, attempt.nonce)
        if flight.noop_at is not None:
            highest = max(highest, flight.noop_at)
    return highest, deepest
