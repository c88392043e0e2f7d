"""First attempts: queued intents are taken in order, checked, signed with the next nonces, written ahead and sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from txmanager.core.chain import Impossible, Prepared
from txmanager.core.errors import NotSigned
from txmanager.core.flights import Flight
from txmanager.core.lane_plan import Batch
from txmanager.core.ledger import Taken, WriteAhead
from txmanager.core.models import Attempt, failure
from txmanager.core.states import Status
from txmanager.core.turns import Turns
from txmanager.runtime.accept.built import KIND as BUILT
from txmanager.runtime.lane.ahead import Ahead, Ready
from txmanager.runtime.lane.breaks import AGAIN_MS, Broken, is_break
from txmanager.runtime.lane.entries import Entries
from txmanager.runtime.lane.outbox import Outbox
from txmanager.runtime.lane.owner import OwnedLane, Unserved
from txmanager.runtime.lane.prepare import count_saved, fail_unsigned, prepare, record_of
from txmanager.runtime.lane.sealing import passes_seal, sealed
from txmanager.runtime.lane.shared_turns import share
from txmanager.runtime.lane.shortage import Shortage
from txmanager.runtime.lane.signatures import NotYet, Slot
from txmanager.runtime.lane.wallet import Wanted


class FirstAttempts:
    def __init__(self, lane: OwnedLane, outbox: Outbox, shortage: Shortage) -> None:
        self._lane = lane
        self._outbox = outbox
        self._shortage = shortage
        self._entries = Entries(lane)
        self._ahead = Ahead(lane, self._entries, self._signed)
        self._asked: tuple[tuple[str, str], ...] = ()
        """What the signer was asked for last, by position and life."""
        self._broken = False
        """Whether the first of the queue broke its owner and is not to be tried again yet, whoever wakes the lane."""

    async def take(self, room: int) -> bool:
        """Whether there may be more to do at once."""
        lane = self._lane
        if self._broken:
            return False
        if lane.plan.signed_ahead:
            await self._send_signed(*await self._ahead.get(room))
            return True
        if (entry := lane.plan.accept_offer()) is not None:
            await self._sign_offered(entry)
            return True
        # Neither a signer elsewhere nor the answer to a send may keep other lanes waiting.
        entered = lane.chain.instant(lane.id) and await lane.abreast.enter()
        try:
            more, batch = await self._take(room)
        finally:
            if entered:
                lane.abreast.leave()
        if batch:
            await self._outbox.send(batch)
        return more

    async def _take(self, room: int) -> tuple[bool, Batch]:
        """Whether there may be more to do at once, and what is written ahead and to be sent."""
        lane = self._lane
        lane.plan.take_begins()
        taken = await self._entries.take(room)
        lane.plan.took([t.position for t in taken], room)
        lane.context.point("after_take")
        if not taken:
            return False, ()
        taken = await sealed(lane, taken)  # before anything in it is believed
        if not taken:
            return True, ()
        taken = await self._drop_expired(self._served(taken))
        sifted = await lane.wallet.sift(await self._prepare(taken))
        await fail_unsigned(lane, sifted.failed)
        if sifted.short is not None:
            lane.plan.take_again()  # it stays queued, and is taken again
            if not sifted.ready:
                await self._shortage.stop_for(sifted.short)
                return False, ()
        return True, await self._sign_and_write(sifted.ready) if sifted.ready else ()

    async def _sign_and_write(self, ready: Ready) -> Batch:
        lane = self._lane
        try:
            with lane.context.metrics.sign_s.time():
                attempts = await self._sign(ready)
        except NotYet:
            lane.plan.take_again()  # what was taken is taken again, and checked again, when it is signed
            raise
        except NotSigned as nothing:
            await fail_unsigned(lane, [(t, nothing.error) for t, _ in ready if t.intent.id == nothing.id])
            count_saved(lane, nothing.saved)
            lane.plan.take_again()  # the others of the batch are taken again
            return ()
        lane.context.point("after_sign")
        if not attempts:
            return ()
        if len(attempts) < len(ready):
            lane.plan.take_again()  # what is not signed yet is taken again
        return await self._write(ready, attempts)

    async def _write(self, ready: Ready, attempts: Sequence[Attempt]) -> Batch:
        lane = self._lane
        signed = list(zip([entry for entry, _ in ready], attempts, strict=False))
        signed_at = lane.traces.now() if lane.traces is not None else 0
        writes = [WriteAhead(t.intent.id, t.life, t.position, attempt, digest=t.digest) for t, attempt in signed]
        if not await self._outbox.write_ahead(writes, allowed=lane.plan.may_take()):
            return ()
        lane.plan.head.signed(writes[-1].position)
        if lane.traces is not None:
            lane.traces.written(signed, signed_at)
        lane.context.point("after_write_ahead")
        batch = []
        for entry, attempt in signed:
            flight = Flight(record_of(lane.id, entry, Status.INFLIGHT, attempt))
            lane.plan.flights.add(flight)
            batch.append((flight, attempt))
        self._ahead.start(len(batch))
        return batch

    # -- without a take: what a wake-up brought, or what was signed ahead

    async def _sign_offered(self, entry: Taken) -> None:
        """Nobody vouches for it before the write-ahead does, so nothing else is done with it: whatever is not usual
        about it shows once it is taken."""
        lane = self._lane
        try:
            if lane.chain.instant(lane.id):
                await self._send_signed(*await self._signed([entry], lane.plan.head.cursor))
        finally:
            if lane.plan.head.signed_upto != entry.position:
                lane.plan.take_again()

    async def _send_signed(self, ready: Ready, attempts: Sequence[Attempt]) -> None:
        """Unless something about one of them has to be decided by now: then all are taken again."""
        lane = self._lane
        if not attempts:
            return
        lane.context.point("after_sign")
        try:
            late = any(self._late(entry) for entry, _ in ready)
            if not late and len((await lane.wallet.sift(ready)).ready) == len(ready):
                batch = await self._write(ready, attempts)  # what breaks here breaks the lane: bytes may be recorded
                if batch:
                    await self._outbox.send(batch)
        finally:
            if lane.plan.head.signed_upto != ready[-1][0].position:
                lane.plan.take_again()

    async def _signed(self, entries: Sequence[Taken], first: int) -> tuple[Ready, Sequence[Attempt]]:
        """Nothing, if one is not usual or breaks somebody: then it is taken, and breaks again where that is counted."""
        try:
            if ready := await self._usual(entries):
                with self._lane.context.metrics.sign_s.time():
                    return ready, await self._signatures(ready, first)
        except NotSigned:
            pass
        except Exception as error:
            if not is_break(error):
                raise
        return [], []

    async def _usual(self, entries: Sequence[Taken]) -> Ready:
        """Ready to be signed, if nothing about any of them has to be decided."""
        lane = self._lane
        if not all(map(self._is_usual, entries)):
            return []
        prepared = await prepare(lane, [entry.intent for entry in entries])
        ready = [(entry, one) for entry, one in zip(entries, prepared, strict=True) if isinstance(one, Prepared)]
        return ready if len(ready) == len(entries) else []

    def _is_usual(self, entry: Taken) -> bool:
        lane, intent = self._lane, entry.intent
        if not lane.chain.serves(intent) or intent.kind in lane.chain.traits.turns:
            return False
        if intent.kind == BUILT:  # what comes of asking its callback is an end or bytes: it is asked once
            return False
        return not self._late(entry) and passes_seal(lane, entry)

    def close(self) -> None:
        self._ahead.close()

    # -- before signing

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
        late = [t for t in taken if self._late(t)]
        error = failure("max_age", "not signed within max_age_s; nothing was spent", new_key_helps=True)
        await fail_unsigned(self._lane, [(t, error) for t in late])
        return [t for t in taken if t not in late]

    def _late(self, entry: Taken) -> bool:
        most_s = entry.intent.max_age_s
        return most_s is not None and self._lane.context.clock() - entry.at > most_s * 1000

    async def _prepare(self, taken: list[Taken]) -> list[Wanted]:
        lane = self._lane
        prepared = await prepare(lane, [t.intent for t in taken]) if taken else []
        readers = lane.chain.traits.turns
        turns = (
            Turns(readers, [f.record.intent for f in lane.plan.flights])
            if readers and not readers.keys().isdisjoint([t.intent.kind for t in taken])
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
                count_saved(lane, result.saved)
            elif turns is not None and (used := turns.take(entry.intent)) is not None:
                failed.append((entry, used))
                count_saved(lane, "nonce_in_use")
            else:
                ready.append((entry, result))
        if turns is not None:
            shared = await share(lane, turns, ready)
            ready, failed = shared.ready, [*failed, *shared.failed]
        await fail_unsigned(lane, failed)
        if failed:
            lane.log.info("intents refused before signing", count=len(failed))
        return ready

    async def _broke(self, entry: Taken, error: Exception) -> None:
        """Before anything of it is signed: tried again before everything behind it, until the third time ends it."""
        lane = self._lane
        if (failed := await lane.breaks.of_entry(entry, error)) is not None:
            await fail_unsigned(lane, [(entry, failed)])
            lane.plan.take_again()  # what was taken behind it is taken again
        else:
            self._broken = True
            asyncio.get_running_loop().call_later(AGAIN_MS / 1000, self._try_again)

    def _try_again(self) -> None:
        self._broken = False
        self._lane.wake()

    # -- signing

    async def _sign(self, ready: Ready) -> list[Attempt]:
        """The signed prefix: an intent that breaks the signer stops those behind it, until it ended or was signed."""
        lane = self._lane
        first = lane.plan.head.cursor
        if not lane.chain.instant(lane.id):
            ready = self._as_asked(ready)
        try:
            return await self._signatures(ready, first)
        except NotYet:
            raise
        except Exception as error:
            if not is_break(error):
                raise
        attempts: list[Attempt] = []
        for one in ready:
            try:
                attempts += await self._signatures([one], first + len(attempts), wait=True)
            except NotYet:
                break
            except Exception as error:
                if not is_break(error):
                    raise
                await self._broke(one[0], error)
                break
        return attempts

    async def _signatures(self, ready: Ready, first: int, *, wait: bool = False) -> list[Attempt]:
        lane = self._lane
        bodies, now = [prepared for _, prepared in ready], lane.context.clock()
        return await lane.signatures.get(
            Slot.FIRST,
            (first, self._asked),
            lambda: lane.chain.sign(lane.id, bodies, first, lane.plan.purpose, now),
            wait=wait,
        )

    def _as_asked(self, ready: Ready) -> Ready:
        """More may be queued than when the signer was asked: what it signed goes out first."""
        entries = tuple((entry.position, entry.life) for entry, _ in ready)
        count = len(self._asked)
        if not count or entries[:count] != self._asked:
            self._asked = entries
        return ready[: len(self._asked)]
