"""The mempool as a pure state machine: admit, take, done, observe, reopen, end, expire. No I/O, no clock, no chance.

A sender is idle, queued (its head stands in line) or processing (one instance may send its head). Each method is one
atomic step at the time `now`, and answers as `core/admission.py` promises. `call` names the caller's call: a repeat
with the same name changes nothing and answers the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from txmanager.core import mempool_rules as rules
from txmanager.core.admission import (
    ALIVE_MS,
    ENDED_MS,
    Admitted,
    Alive,
    Count,
    Done,
    End,
    EndReason,
    Expired,
    Grant,
    Limits,
    Observed,
    Offer,
    State,
    Taken,
    Totals,
    Verdict,
)
from txmanager.core.mempool_book import Book, Hold, Sender, Tx

PAGE = 200
"""How much one `expire` does at most, of each kind; and how many senders one `take` rouses."""


@dataclass(slots=True)
class Instance:
    since: int
    """From here on it was heard without a pause; what it got before is lost."""
    last: int


class Machine:
    def __init__(self, limits: Limits, born: int) -> None:
        self.limits = limits
        self.book = Book(limits)
        self.alive: dict[str, Instance] = {}
        self.quiet_until = born + limits.quiet_ms
        self.born = str(born)
        self.seq = 0
        self.fences = 0
        self.rung = False
        """Something may be there to take since the last look."""

    # -- admitting

    def admit(
        self, offers: Sequence[Offer], counts: Mapping[str, Count], owner: str, call: str, now: int
    ) -> list[Admitted]:
        cold: set[str] = set()
        admitted: dict[int, str] = {}
        answers: list[Admitted] = []
        for index, offer in enumerate(offers):
            answer = self._offer(offer, counts.get(offer.sender), f"{call}.{index}", cold, now)
            answers.append(answer)
            if answer.word == "admitted":
                admitted[index] = offer.hash
        fresh = set(admitted.values())
        while self.book.ready and owner:
            s = self.book.senders[self.book.ready[0][2]]
            head = self.book.head(s)
            if head is None or head.hash not in fresh or self._grant_best(owner, call, "", now) is None:
                break
        self.rung = self.rung or bool(self.book.ready)
        for index, hash in admitted.items():
            s = self.book.senders[offers[index].sender]
            if s.hold is not None and s.hold.hash == hash and s.hold.call == call and s.hold.owner == owner:
                was = answers[index]
                answers[index] = Admitted("admitted", was.base, was.gapped, self._granted(s, s.hold, now), was.replaced)
        return answers

    def _offer(self, offer: Offer, read: Count | None, call: str, cold: set[str], now: int) -> Admitted:
        book = self.book
        known = book.txs.get(offer.hash)
        if known is not None:  # rule 1
            run = book.senders[known.sender].run
            if known.call == call:
                return Admitted("admitted", run, known.gapped)
            return Admitted("known", run, state=known.state)
        s = None if offer.sender in cold else self._counted(offer.sender, read, now)
        if s is None or (read is None and offer.nonce > s.run):
            cold.add(offer.sender)
            return Admitted("cold")
        word = rules.refusal(book, s, offer)
        if word is not None:
            return Admitted(word, s.run)
        old = book.newest(s, offer.nonce)
        replaced = rules.replaced(book, s, offer)
        for tx in rules.victims(book, s, offer) or ():  # rule 7
            self._end(tx, "purged", now)
        self.seq += 1
        tx = Tx(offer.hash, offer.sender, offer.nonce, offer.price, offer.raw, self.seq, now, now, call)
        book.add(s, tx)
        if replaced is not None:
            self._end(replaced, "replaced", now)
        if self.limits.order == "none":
            book.move(tx, State.SENT, now)
            book.walk(s, now)
        book.arrange(s)
        return Admitted("admitted", s.run, tx.gapped, None, "" if old is None else old.hash)

    def _counted(self, address: str, read: Count | None, now: int) -> Sender | None:
        """The sender, when its count is fresh or was just read. A new one is not kept before it has a transaction."""
        s = self.book.senders.get(address)
        if read is None:
            return s if s is not None and now - s.read_at < self.limits.count_fresh_ms else None
        if s is not None:
            self._observe(s, read, now)
            return s
        first = max(read.count, read.pending)
        return Sender(address, read.count, read.block, read.height, now, read.pending, first, first)

    # -- granting

    def take(self, owner: str, most: int, call: str, now: int) -> Taken:
        book = self.book
        mine = [s for s in book.holds.values() if s.hold is not None and s.hold.call == call and s.hold.owner == owner]
        if mine:
            granted = [self._granted(s, s.hold, now) for s in mine if s.hold is not None]
            return Taken(tuple(sorted(granted, key=_by_fence)), next_ms=self._next_ms(now))
        for _, address in sorted((at, address) for address, at in book.due.items() if at <= now)[:PAGE]:
            self._rouse(book.senders[address], now)
        grants: list[Grant] = []
        forced = 0
        if self._may_grant(owner, now):
            late = [s for s in book.holds.values() if s.hold is not None and self._lapsed(s.hold, now)]
            for s in sorted(late, key=lambda s: (s.hold.until if s.hold else 0, s.address))[:most]:
                assert s.hold is not None
                grants.append(self._grant(s, book.txs[s.hold.hash], owner, call, "", now))
                forced += 1
            while len(grants) < most:
                grant = self._grant_best(owner, call, "", now)
                if grant is None:
                    break
                grants.append(grant)
        return Taken(tuple(grants), forced, self._next_ms(now))

    def _rouse(self, s: Sender, now: int) -> None:
        """Its pause is over, or a node had its bytes for long enough: they go again, lowest nonce first."""
        book, resend_ms = self.book, self.limits.resend_ms
        book.due.pop(s.address, None)
        if s.paused_until <= now:
            s.paused_until = 0
        else:
            book.wake_at(s, s.paused_until)
        if resend_ms:
            for nonce in list(s.from_nonce(s.count)):
                tx = book.newest(s, nonce)
                if tx is not None and tx.state is State.SENT:
                    if tx.moved_at + resend_ms <= now:
                        book.move(tx, State.UNSURE, now)
                    else:
                        book.wake_at(s, tx.moved_at + resend_ms)
        book.walk(s, now)
        book.arrange(s)

    def _may_grant(self, owner: str, now: int) -> bool:
        heard = self.alive.get(owner)
        return heard is not None and now - heard.last < ALIVE_MS and now >= self.quiet_until

    def _lapsed(self, hold: Hold, now: int) -> bool:
        heard = self.alive.get(hold.owner)
        if heard is None or now - heard.last >= ALIVE_MS or heard.since > hold.at:
            return True
        return now >= hold.until

    def _grant_best(self, owner: str, call: str, after: str, now: int) -> Grant | None:
        book, limits = self.book, self.limits
        if not book.ready or len(book.holds) >= limits.executors or not self._may_grant(owner, now):
            return None
        s = book.senders[book.ready[0][2]]
        tx = book.head(s)
        assert tx is not None
        more = tx.size if tx.state is State.WAITING else 0
        if more and book.kept_bytes and book.kept_bytes + more > limits.kept_bytes:
            return None
        return self._grant(s, tx, owner, call, after, now)

    def _grant(self, s: Sender, tx: Tx, owner: str, call: str, after: str, now: int) -> Grant:
        again = tx.state is not State.WAITING or tx.seq <= self.book.doubt
        if tx.state is not State.PROCESSING:
            self.book.move(tx, State.PROCESSING, now)
        tx.tries += 1
        self.fences += 1
        s.hold = Hold(
            owner, f"{self.fences}.{call}", call, tx.nonce, tx.hash, now, now + self.limits.hold_ms, again, after
        )
        self.book.holds[s.address] = s
        self.book.arrange(s)
        return self._granted(s, s.hold, now)

    def _granted(self, s: Sender, hold: Hold, now: int) -> Grant:
        tx = self.book.txs[hold.hash]
        left = max(0, hold.until - now)
        waited_ms = max(0, hold.at - tx.at)
        return Grant(tx.hash, s.address, tx.nonce, tx.raw, hold.fence, left, hold.again, tx.tries, waited_ms, s.waiting)

    def _next_ms(self, now: int) -> int | None:
        book = self.book
        times = list(book.due.values())
        for s in book.holds.values():
            if s.hold is not None:
                heard = self.alive.get(s.hold.owner)
                times.append(min(s.hold.until, heard.last + ALIVE_MS) if heard is not None else now)
        if book.txs and self.quiet_until > now:
            times = [max(at, self.quiet_until) for at in [*times, self.quiet_until]]
        return max(0, min(times) - now) if times else None

    # -- what came of a send

    def done(
        self,
        sender: str,
        fence: str,
        verdict: Verdict,
        owner: str,
        call: str,
        now: int,
        *,
        message: str = "",
        code: str = "",
        wait_ms: int = 0,
        more: bool = True,
    ) -> Done:
        book = self.book
        s = book.senders.get(sender)
        if s is None:
            return Done("stale")
        hold = s.hold
        if hold is None or hold.fence != fence or hold.owner != owner:
            if s.done != fence:
                return Done("stale", None, 0, s.waiting)
            after = [h for h in book.holds.values() if h.hold is not None and h.hold.after == fence]
            granted = [self._granted(h, h.hold, now) for h in after if h.hold is not None and h.hold.owner == owner]
            return Done("done", granted[0] if granted else None, 0, s.waiting)
        tx = book.txs[hold.hash]
        self._release(s)
        s.done = fence
        if verdict == "sent":
            book.move(tx, State.SENT, now)
        elif verdict == "refuse":
            self._end(tx, "refused", now, message, code)
        elif verdict == "retry" and not hold.again and self._fits(tx):
            book.move(tx, State.WAITING, now)
        else:
            book.move(tx, State.UNSURE, now)
        if verdict in ("retry", "maybe") and wait_ms:
            s.paused_until = now + wait_ms
            book.wake_at(s, s.paused_until)
        book.walk(s, now)
        book.arrange(s)
        grant = self._grant_best(owner, call, fence, now) if more else None
        self.rung = self.rung or bool(book.ready)
        return Done("done", grant, now - hold.at, s.waiting)

    def _fits(self, tx: Tx) -> bool:
        """Whether it may wait again: what was accepted since has taken its place otherwise."""
        room = self.book.waiting_bytes + tx.size <= self.limits.kept_bytes
        return room and self.book.waiting < self.limits.capacity

    def _release(self, s: Sender) -> None:
        s.hold = None
        del self.book.holds[s.address]

    def _end(self, tx: Tx, reason: EndReason, now: int, message: str = "", code: str = "") -> None:
        s = self.book.senders[tx.sender]
        self.book.remove(tx, reason, now, message, code)
        self.book.arrange(s)

    # -- what the chain says

    def observe(self, counts: Mapping[str, Count], now: int) -> dict[str, Observed]:
        answers: dict[str, Observed] = {}
        for address, read in counts.items():
            s = self.book.senders.get(address)
            answers[address] = Observed("unknown") if s is None else self._observe(s, read, now)
        self.rung = self.rung or bool(self.book.ready)
        return answers

    def _observe(self, s: Sender, read: Count, now: int) -> Observed:
        book, before, floor = self.book, s.count, s.floor
        reorg = read.count < before and not self.limits.strict and bool(read.orphaned) and read.orphaned == s.block
        s.read_at = now
        if read.count < before and not reorg:
            return Observed("lower", book.base(s, now))
        if read.count != before or read.height >= s.height:
            s.block, s.height = read.block, read.height
        s.count, s.pending = read.count, read.pending
        landed: list[str] = []
        for nonce in list(s.from_nonce(min(before, read.count))):
            if nonce >= max(before, read.count):
                break
            for index, hash in enumerate(list(s.slots[nonce])):
                tx = book.txs[hash]
                if not reorg:
                    if s.hold is not None and s.hold.hash == hash:
                        self._release(s)
                    book.move(tx, State.LANDED, now)
                    landed.append(hash)
                elif tx.state is State.LANDED:
                    book.move(tx, State.SENT if index else State.UNSURE, now)
        if s.floor < floor:
            book.replan(s, now)
        else:
            book.walk(s, now)
        book.arrange(s)
        return Observed(
            "lowered" if reorg else "raised" if read.count > before else "same", book.base(s, now), tuple(landed)
        )

    def reopen(self, hashes: Sequence[str], now: int) -> list[str]:
        opened = []
        for hash in hashes:
            tx = self.book.txs.get(hash)
            if tx is None or tx.state is not State.SENT:
                continue
            s = self.book.senders[tx.sender]
            if s.slots[tx.nonce][0] == hash:
                self.book.move(tx, State.UNSURE, now)
                self.book.arrange(s)
                opened.append(hash)
        self.rung = self.rung or bool(self.book.ready)
        return opened

    # -- ends

    def end(self, ends: Sequence[End], now: int, *, unless: Sequence[State] = (State.PROCESSING,)) -> list[str]:
        ended = []
        for one in ends:
            tx = self.book.txs.get(one.hash)
            if tx is not None and tx.state not in unless:
                self._end(tx, one.reason, now, one.message, one.code)
                ended.append(one.hash)
        self.rung = self.rung or bool(self.book.ready)
        return ended

    def expire(self, now: int) -> Expired:
        book = self.book
        late = sorted((at, name) for name, at in book.aging.items() if at <= now)
        ended = []
        for _, name in late[:PAGE]:
            tx = book.txs.get(name)
            if tx is not None and book.given_up(tx):
                self._end(tx, "expired", now)
                ended.append(name)
            elif tx is not None:
                book.aging[name] = now + self.limits.idle_ms
            else:
                del book.aging[name]
                del book.senders[name]
        for hash in [h for h, e in list(book.ended.items())[:PAGE] if e.at + ENDED_MS <= now]:
            del book.ended[hash]
        for owner in [o for o, heard in self.alive.items() if heard.last + ENDED_MS <= now]:
            del self.alive[owner]
        self.rung = self.rung or bool(book.ready)
        return Expired(tuple(ended), len(late) > PAGE)

    # -- instances

    def heartbeat(self, owner: str, now: int) -> Alive:
        heard = self.alive.get(owner)
        lapsed = heard is None or now - heard.last >= ALIVE_MS
        self.alive[owner] = Instance(now if heard is None or lapsed else heard.since, now)
        return Alive(lapsed, self.born)

    def leave(self, owner: str) -> None:
        self.alive.pop(owner, None)
        self.rung = True

    def lost_data(self, now: int) -> None:
        """The store went back in time: grants may be forgotten, so everything here may have been sent. Whoever holds
        something learns from its next heartbeat that it does not any more."""
        self.quiet_until = now + self.limits.quiet_ms
        self.book.doubt = self.seq
        self.alive.clear()

    def totals(self, now: int) -> Totals:
        book = self.book
        states = [tx.state for tx in book.txs.values()]
        return Totals(
            waiting=book.waiting,
            gapped=len(book.gapped),
            processing=states.count(State.PROCESSING),
            unsure=states.count(State.UNSURE),
            sent=states.count(State.SENT),
            landed=states.count(State.LANDED),
            waiting_bytes=book.waiting_bytes,
            kept_bytes=book.kept_bytes,
            senders=len(book.senders),
            ready=len(book.ready),
            alive=sum(now - heard.last < ALIVE_MS for heard in self.alive.values()),
            quiet_ms=max(0, self.quiet_until - now),
        )


def _by_fence(grant: Grant) -> int:
    return int(grant.fence.partition(".")[0])
