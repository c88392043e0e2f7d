"""The sending half of a lane: take, sign, write ahead, broadcast, strictly in order.

What comes next is the plan's to say (`core/lane_plan`). This carries it out, and tells the plan what came of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from txmanager.core.bounds import bounded
from txmanager.core.chain import Impossible, Prepared, SendReply, Unpriced, Verdict
from txmanager.core.decide import Kill, Resign
from txmanager.core.errors import NotOurs, NotSigned, Refused, RolledBack, TxManagerError
from txmanager.core.flights import Flight
from txmanager.core.funds import Finding, Word
from txmanager.core.kills import KillCause, doom_of
from txmanager.core.lane_plan import (
    Action,
    AskFunds,
    Batch,
    FillGaps,
    Outbid,
    SendAgain,
    SendFills,
    SignAlone,
    Take,
)
from txmanager.core.ledger import Settlement, Taken, WriteAhead
from txmanager.core.models import Attempt, Intent, Json, Outcome, Purpose, Record, failure
from txmanager.core.states import Status
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.core.turns import Turns
from txmanager.runtime.breaks import AGAIN_MS, Broken, is_break
from txmanager.runtime.lane import OwnedLane, Unserved
from txmanager.runtime.sealing import sealed, still_sealed
from txmanager.runtime.wallet import Short, Wanted

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_LOOK_BESIDE_S = 0.05


class Sender:
    def __init__(self, lane: OwnedLane, rng: random.Random) -> None:
        self._lane = lane
        self._rng = rng
        self._pause_s = 0.0
        self._again_at = 0.0
        """When the pause after the last send is over."""
        self._short_of: Intent | None = None
        """What the lane cannot pay for, as far as this owner stopped for it."""

    async def run(self) -> None:
        lane = self._lane
        while True:
            lane.work.clear()
            lane.check_lease()
            lane.sending = True
            try:
                busy = await self._turn()
            finally:
                lane.sending = False
            if busy:
                self._pause_s = 0.0 if not lane.plan.unsent else self._pause_s
                continue
            try:
                async with asyncio.timeout(self._pause_s if lane.plan.unsent else None):
                    await lane.work.wait()
            except TimeoutError:
                pass

    async def _turn(self) -> bool:
        """One piece of work; False when there is nothing to do now."""
        lane = self._lane
        pausing = asyncio.get_running_loop().time() < self._again_at
        for action in lane.plan.turn(lane.context.clock(), pausing=pausing):
            if await self._carry_out(action):
                return True
        return False

    async def _carry_out(self, action: Action) -> bool:
        """Whether it did something, so that the plan is asked anew."""
        lane = self._lane
        match action:
            case FillGaps(nonces=nonces):
                await lane.gaps.fill(nonces)
                return False
            case SendFills(noops=noops):
                await lane.gaps.send(noops)
                return True
            case Outbid(flight=flight):
                return await self._alone(flight, self._outbid)
            case AskFunds():
                if not await self._funded():
                    return False
                await lane.resume("what it waited for can be paid, or is over")
                return True
            case SendAgain(batch=batch):
                taken = await self._send(batch)
                lane.context.metrics.rebroadcasts.labels(lane.id).inc(taken)
                return taken == len(batch)
            case SignAlone(flight=flight):
                return await self._alone(flight, self._sign_alone)
            case Take(room=room):
                return await self._take(room)

    async def _alone(self, flight: Flight, work: Callable[[Flight], Awaitable[bool]]) -> bool:
        """What breaks on one intent is counted against it, and stops nobody else."""
        try:
            return await work(flight)
        except Exception as error:
            if not is_break(error):
                raise
            await self._lane.breaks.of_flight(flight, error)
            return False

    # -- sending

    async def _send(self, batch: Batch) -> int:
        """Lowest nonce first; answers how many were taken."""
        taken = 0
        rest: Batch = sorted(batch, key=lambda pair: pair[1].nonce)
        while rest:
            took = await self._broadcast(rest)
            taken += took
            rest = self._lane.plan.go_on(rest, took) if took < len(rest) else ()
        self._again_at = asyncio.get_running_loop().time() + self._pause_s
        return taken

    async def _broadcast(self, batch: Batch) -> int:
        """Send in order; answers how many were taken. The rest stays unsent and stops everything higher."""
        lane = self._lane
        lane.check_lease()
        now = lane.context.clock()
        lane.plan.sending(batch, now)
        # The tracker looks when the batch is sent, or beside it when that takes long.
        beside = asyncio.get_running_loop().call_later(_LOOK_BESIDE_S, lane.flying.set)
        with lane.context.metrics.broadcast_s.time():
            try:
                replies = await lane.chain.broadcast(lane.id, [attempt for _, attempt in batch])
            except TxManagerError as error:
                lane.context.metrics.rpc_errors.labels(lane.id, type(error).__name__).inc()
                replies = [SendReply(Verdict.UNAVAILABLE, str(error))]
            finally:
                beside.cancel()
        taken = 0
        verdicts: Counter[Verdict] = Counter()
        for (flight, attempt), reply in zip(batch, replies, strict=False):
            verdicts[reply.verdict] += 1
            single = lane.plan.flights.single
            if lane.plan.answered(flight, attempt, reply):
                taken += 1
                continue
            lane.log.warning("send not taken", hash=attempt.hash, verdict=reply.verdict, message=reply.message)
            if lane.plan.flights.single and not single:
                lane.log.warning("one at a time from now on", message=reply.message)
        for verdict, count in verdicts.items():
            lane.context.metrics.sends.labels(lane.id, verdict).inc(count)
        lane.flying.set()  # what was sent may be on chain already
        if taken < len(batch):
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2 or _FIRST_PAUSE_S) * self._rng.uniform(0.8, 1.2)
        lane.context.point("after_broadcast")
        return taken

    async def _record(self, writes: Sequence[WriteAhead], *, allowed: bool) -> bool:
        """Write ahead what the plan still allows; False when it does not, or when the ledger refused. Either leaves
        the nonces unused."""
        lane = self._lane
        if not allowed:
            lane.log.info("signed, and not to be sent any more", intents=[str(w.id) for w in writes])
            lane.plan.take_again()
            return False
        try:
            with lane.context.metrics.record_s.time():
                lane.plan.head.cursor = await lane.retry_while_leased(
                    lambda: lane.context.ledger.record_attempts(lane.fence, lane.plan.head.cursor, writes)
                )
        except Refused as refusal:
            lane.log.warning("write-ahead refused", entry=refusal.entry, why=refusal.why)
            lane.plan.head.gave_up({w.attempt.name: w.position for w in writes})
            if refusal.entry == "cursor" and not await self._moved_it_ourselves():
                # Nobody but the owner moves it: data was lost, or somebody writes past the fence.
                await lane.quarantine(
                    QuarantineCause.CURSOR_MOVED, {"cursor": str(lane.plan.head.cursor), "message": refusal.why}
                )
            await lane.apply_requests()
            return False
        except RolledBack as change:
            lane.log.error("ledger history changed", stored=change.stored, found=change.found)
            lane.plan.head.gave_up({w.attempt.name: w.position for w in writes})
            await lane.apply_requests()
            return False
        return True

    async def _moved_it_ourselves(self) -> bool:
        lane = self._lane
        await lane.load()
        view = await lane.retry_while_leased(lambda: lane.context.ledger.lane(lane.id))
        return view is not None and lane.plan.head.follow(view)

    # -- first attempts

    async def _take(self, room: int) -> bool:
        lane = self._lane
        lane.plan.take_begins()
        taken = await lane.retry_while_leased(lambda: lane.context.ledger.take(lane.fence, room))
        lane.plan.took([t.position for t in taken], room)
        lane.context.point("after_take")
        if not taken:
            return False
        taken = await sealed(lane, taken)  # before anything in it is believed
        if not taken:
            return True
        taken = await self._drop_expired(self._served(taken))
        sifted = await lane.wallet.sift(await self._prepare(taken))
        await self._fail_unsigned(sifted.failed)
        ready = sifted.ready
        if sifted.short is not None:
            lane.plan.take_again()  # it stays queued, and is taken again
            if not ready:
                await self._short(sifted.short)
                return False
        if not ready:
            return True
        try:
            with lane.context.metrics.sign_s.time():
                attempts = await self._sign(ready)
        except NotSigned as nothing:
            await self._fail_unsigned([(t, nothing.error) for t, _ in ready if t.intent.id == nothing.id])
            self._count_saved(nothing.saved)
            lane.plan.take_again()  # the others of the batch are taken again
            return True
        lane.context.point("after_sign")
        if not attempts:
            return True
        ready = ready[: len(attempts)]
        writes = [
            WriteAhead(t.intent.id, t.life, t.position, attempt)
            for (t, _), attempt in zip(ready, attempts, strict=True)
        ]
        if not await self._record(writes, allowed=lane.plan.may_take()):
            return True
        lane.plan.head.signed_upto = writes[-1].position
        lane.context.point("after_write_ahead")
        batch = []
        for (entry, _), attempt in zip(ready, attempts, strict=True):
            flight = Flight(_record(lane.id, entry, Status.INFLIGHT, attempt))
            lane.plan.flights.add(flight)
            batch.append((flight, attempt))
        await self._send(batch)
        return True

    async def _sign(self, ready: Sequence[tuple[Taken, Prepared]]) -> list[Attempt]:
        """The signed prefix: an intent that breaks the signer stops those behind it, until it ended or was signed."""
        lane = self._lane

        async def sign(some: Sequence[tuple[Taken, Prepared]], first: int) -> list[Attempt]:
            bodies, now = [prepared for _, prepared in some], lane.context.clock()
            return await lane.retry_while_leased(
                lambda: lane.chain.sign(lane.id, bodies, first, lane.plan.purpose, now)
            )

        try:
            return await sign(ready, lane.plan.head.cursor)
        except Exception as error:
            if not is_break(error):
                raise
        attempts: list[Attempt] = []
        for one in ready:
            try:
                attempts += await sign([one], lane.plan.head.cursor + len(attempts))
            except Exception as error:
                if not is_break(error):
                    raise
                await self._broke(one[0], error)
                break
        return attempts

    async def _broke(self, entry: Taken, error: Exception) -> None:
        """Before anything of it is signed: tried again before everything behind it, until the third time ends it."""
        lane = self._lane
        if (failed := await lane.breaks.of_entry(entry, error)) is not None:
            await self._fail_unsigned([(entry, failed)])
            lane.plan.take_again()  # what was taken behind it is taken again
        else:
            asyncio.get_running_loop().call_later(AGAIN_MS / 1000, lane.wake)

    def _served(self, taken: list[Taken]) -> list[Taken]:
        """The prefix this release understands; never skip ahead of what it does not."""
        served: list[Taken] = []
        for entry in taken:
            if not self._lane.chain.serves(entry.intent):
                break
            served.append(entry)
        if not served:
            raise Unserved(f"intent {taken[0].intent.id} of kind {taken[0].intent.kind} needs another release")
        return served

    async def _drop_expired(self, taken: list[Taken]) -> list[Taken]:
        now = self._lane.context.clock()
        late = [t for t in taken if t.intent.max_age_s is not None and now - t.at > t.intent.max_age_s * 1000]
        error = failure("max_age", "not signed within max_age_s; nothing was spent", new_key_helps=True)
        await self._fail_unsigned([(t, error) for t in late])
        return [t for t in taken if t not in late]

    async def _prepare(self, taken: list[Taken]) -> list[Wanted]:
        lane = self._lane
        prepared = await self._check([t.intent for t in taken]) if taken else []
        readers = lane.chain.traits.turns
        turns = (
            Turns(readers, [f.record.intent for f in lane.plan.flights])
            if readers and any(t.intent.kind in readers for t in taken)
            else None
        )
        ready: list[Wanted] = []
        failed = []
        for entry, result in zip(taken, prepared, strict=True):
            if isinstance(result, Broken):
                await self._broke(entry, result.error)
                break
            if isinstance(result, Impossible):
                failed.append((entry, dict(result.error)))
                self._count_saved(result.saved)
            elif turns is not None and (used := turns.take(entry.intent)) is not None:
                failed.append((entry, used))
                self._count_saved("nonce_in_use")
            else:
                ready.append((entry, result))
        await self._fail_unsigned(failed)
        if failed:
            lane.log.info("intents refused before signing", count=len(failed))
        return ready

    def _count_saved(self, why: str) -> None:
        if why:
            self._lane.context.metrics.saved.labels(self._lane.id, why).inc()

    async def _short(self, short: Short) -> None:
        """The head of the queue cannot be paid now: wait for what is in flight, or for funds. Nothing was signed."""
        lane, intent = self._lane, short.entry.intent
        if short.word is Word.WAIT:
            lane.log.info("waits for what is in flight", intent=str(intent.id), message=short.message)
        else:
            await self._pause_for(intent, short.message, short.finding)

    async def _pause_for(self, intent: Intent, message: str, found: Finding | None) -> None:
        self._short_of = intent
        evidence: dict[str, Json] = {"message": message, "intent": str(intent.id), "unsigned": True}
        if found is not None:
            evidence |= {"needs": str(found.needs), "balance": str(found.purse.balance), "purse": found.purse.name}
        await self._lane.pause(PauseCause.FUNDS, evidence)

    async def _funded(self) -> bool:
        """Whether what the lane stopped for can be paid now, or is over. Who does not know it judges it anew."""
        lane, stopped = self._lane, self._short_of
        named = str(lane.plan.stored.evidence["intent"])
        if stopped is None or str(stopped.id) != named:
            return True
        record = await lane.retry_while_leased(lambda: lane.context.ledger.read(stopped.id))
        flight = lane.plan.flights.get(stopped.id)
        queued = record is not None and record.status is Status.QUEUED
        if not queued and (flight is None or not flight.dead or flight.record.cancel_requested):
            return True
        [checked] = await self._check([stopped])
        found = await lane.wallet.weigh(checked) if isinstance(checked, Prepared | Unpriced) else None
        return found is None or found.word is not Word.PAUSE

    async def _check(self, intents: list[Intent]) -> list[Prepared | Impossible | Unpriced | Broken]:
        """Poison must not stop a lane: what breaks the adapter is found among the others, before anything is signed."""
        lane = self._lane
        try:
            return [*await lane.retry_while_leased(lambda: lane.chain.prepare(lane.id, intents))]
        except TxManagerError:
            raise
        except Exception as error:
            if len(intents) > 1:
                return [result for intent in intents for result in await self._check([intent])]
            return [Broken(error)]

    async def _fail_unsigned(self, failed: Sequence[tuple[Taken, dict[str, Json]]]) -> None:
        if not failed:
            return
        lane = self._lane
        batch = [Settlement(t.intent.id, t.life, t.position, self._failed(error)) for t, error in failed]
        for (entry, _), item, answer in zip(failed, batch, await lane.settle(batch), strict=False):
            if answer.word == "settled":
                lane.context.metrics.settled.labels(lane.id, Status.FAILED).inc()
                lane.context.retire(_record(lane.id, entry, Status.QUEUED).ended(item.outcome, (), answer.at))

    def _failed(self, error: dict[str, Json]) -> Outcome:
        return bounded(Outcome(Status.FAILED, error=error), self._lane.policy.max_result_bytes)

    # -- later attempts

    async def _outbid(self, flight: Flight) -> bool:
        """The same nonce at a better price, the intent's own bytes or a no-op: written ahead, then sent."""
        lane, order, record = self._lane, flight.order, flight.record
        flight.order = None
        if (bid := lane.plan.bid(flight, order)) is None:
            return True
        nonce, rivals, noop, now = bid.nonce, bid.rivals, bid.noop, lane.context.clock()
        if noop is not None or isinstance(order, Kill):
            attempt = await lane.retry_while_leased(lambda: lane.chain.noop(lane.id, nonce, rivals, now))
            doom = order.doom if isinstance(order, Kill) else doom_of(noop.terms) if noop is not None else None
            if attempt is not None and doom is not None:
                attempt = replace(attempt, terms={**attempt.terms, **doom.terms})
        else:
            if not await still_sealed(lane, record):
                return True
            bare = Prepared(record.intent, None)
            try:
                attempt = await lane.retry_while_leased(lambda: lane.chain.replace(lane.id, bare, rivals, now))
            except NotOurs as damage:
                await lane.hold(record, damage.code, damage.evidence)
                return True
        if attempt is None:
            flight.priced_out_until = now + lane.policy.replace_after_ms
            lane.context.metrics.priced_out.labels(lane.id).inc()
            lane.log.error("no better price below the cap", intent=str(record.id), nonce=nonce)
            return True
        if attempt.purpose is Purpose.NOOP and not await self._pays(flight, attempt):
            return True
        write = WriteAhead(record.id, record.life, record.position, attempt)
        if not await self._record([write], allowed=lane.plan.bid(flight, order) == bid):
            return True
        lane.context.point("after_replace_ahead")
        known = flight.record  # read again meanwhile, perhaps: a cancel must not be forgotten
        if all(a.name != attempt.name for a in known.attempts):
            flight.record = replace(known, attempts=(*known.attempts, attempt))
        flight.reply = None
        lane.context.metrics.replacements.labels(lane.id).inc()
        if isinstance(order, Kill) and order.doom.cause is KillCause.OVERDUE:
            lane.context.metrics.cancels.labels(lane.id).inc()
            lane.log.warning("given up", intent=str(record.id), nonce=nonce, why=order.doom.why)
        lane.log.info("replaced", intent=str(record.id), nonce=nonce, hash=attempt.hash, terms=attempt.terms)
        await self._send([(flight, attempt)])
        return True

    async def _sign_alone(self, flight: Flight) -> bool:
        """Sign again, or sign a no-op: alone on the lane, written ahead, then nothing newer until it is seen."""
        lane, order, record = self._lane, flight.order, flight.record
        flight.order = None
        if not lane.plan.may_sign_alone(flight, order):
            return False
        now = lane.context.clock()
        attempt: Attempt | None
        if isinstance(order, Resign):
            signed = await self._sign_again(flight, order)
            if isinstance(signed, bool):
                return signed
            attempt = signed
        else:
            attempt = await lane.retry_while_leased(
                lambda: lane.chain.noop(lane.id, lane.plan.head.cursor, record.attempts, now)
            )
        if attempt is None:
            flight.killable = False
            lane.log.warning("the key can sign no no-op", intent=str(record.id))
            return False
        if attempt.purpose is Purpose.NOOP and not await self._pays(flight, attempt):
            return False
        deaths = dict(order.deaths) if isinstance(order, Resign) else {}
        if isinstance(order, Kill):
            attempt = replace(attempt, terms={**attempt.terms, **order.doom.terms})
        counted = isinstance(order, Resign) and order.counted
        write = WriteAhead(record.id, record.life, record.position, attempt, deaths, counted)
        if not await self._record([write], allowed=lane.plan.may_sign_alone(flight, order)):
            return True
        known = tuple(a.with_proof(deaths[a.name]) if a.name in deaths else a for a in record.attempts)
        status = Status.INFLIGHT if isinstance(order, Resign) else record.status
        flight.record = replace(
            record, attempts=(*known, attempt), status=status, resigns=record.resigns + counted, hold=None
        )
        if isinstance(order, Resign):
            lane.context.metrics.resigns.labels(lane.id).inc()
            lane.log.warning("signed again", intent=str(record.id), hash=attempt.hash, deaths=deaths)
        flight.reply = None
        lane.plan.solo = flight
        await self._send([(flight, attempt)])
        return True

    async def _sign_again(self, flight: Flight, order: Resign) -> Attempt | bool:
        """The intent's new bytes; or, when it ended or has to wait, whether there may be more to do at once."""
        lane, record = self._lane, flight.record
        if not await still_sealed(lane, record):
            return await self._refuse_directive(record)
        [prepared] = await self._check([record.intent])
        if isinstance(prepared, Broken):
            raise prepared.error
        if isinstance(prepared, Impossible):
            self._count_saved(prepared.saved)
            await self._fail_dead(flight, order, dict(prepared.error))
            return True
        sifted = await lane.wallet.sift([(_taken(record), prepared)])
        for _, error in sifted.failed:
            await self._fail_dead(flight, order, error)
            return True
        if sifted.short is not None:
            await self._short(sifted.short)
            return False
        [(_, payable)] = sifted.ready
        try:
            [signed] = await lane.retry_while_leased(
                lambda: lane.chain.sign(lane.id, [payable], lane.plan.head.cursor, Purpose.RESIGN, lane.context.clock())
            )
        except NotSigned as nothing:
            self._count_saved(nothing.saved)
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

    async def _pays(self, flight: Flight, noop: Attempt) -> bool:
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

    async def _fail_dead(self, flight: Flight, order: Resign, error: dict[str, Json]) -> None:
        """The intent cannot be signed again (a delegate that expired): dead for ever, and proven so."""
        lane, record = self._lane, flight.record
        item = Settlement(record.id, record.life, record.position, self._failed(error), order.deaths)
        if await lane.settle([item]):
            lane.plan.flights.remove(record.id)
            lane.context.metrics.settled.labels(lane.id, Status.FAILED).inc()


def _taken(record: Record) -> Taken:
    return Taken(record.intent, record.life, record.position, record.created_at)


def _record(lane: str, entry: Taken, status: Status, *attempts: Attempt) -> Record:
    return Record(
        intent=entry.intent,
        lane=lane,
        life=entry.life,
        status=status,
        position=entry.position,
        created_at=entry.at,
        updated_at=entry.at,
        attempts=attempts,
        seal=entry.seal,
    )
