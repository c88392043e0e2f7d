"""Seeded bugs of the mempool and of those who use it: each of them a line that somebody could have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch
from txmanager.core import after_send
from txmanager.core import mempool_rules as rules
from txmanager.core.admission import Admitted, Alive, Count, Done, End, Grant, Offer, State, Word
from txmanager.core.after_send import Fate
from txmanager.core.chain import SendReply
from txmanager.core.chain import Verdict as NodeVerdict
from txmanager.core.errors import Unavailable
from txmanager.core.mempool import Instance as Heard
from txmanager.core.mempool import Machine
from txmanager.core.mempool_book import Book, Hold, Sender, Tx
from txmanager.runtime.gateway import dispatch
from txmanager.runtime.gateway.dispatch import Dispatcher
from txmanager.runtime.gateway.follow import Follower
from txmanager.runtime.gateway.heart import Heart
from txmanager.runtime.gateway.heart import Hold as Held
from txmanager.runtime.gateway.intake import Intake
from txmanager.runtime.gateway.outcomes import Lost, Outcomes

MUTANTS = Bugs()
mutant, planted = MUTANTS.mutant, MUTANTS.planted


@mutant
def done_does_not_compare_the_fence() -> Sequence[Patch]:
    honest = Machine.done

    def done(self: Machine, sender: str, fence: str, verdict: Any, owner: str, *more: Any, **named: Any) -> Done:
        s = self.book.senders.get(sender)
        if s is not None and s.hold is not None:
            fence, owner = s.hold.fence, s.hold.owner
        return honest(self, sender, fence, verdict, owner, *more, **named)

    return [patch.object(Machine, "done", done)]


@mutant
def holder_is_taken_over_before_its_time() -> Sequence[Patch]:
    return [patch.object(Machine, "_lapsed", lambda self, hold, now: now - hold.at > 500)]


@mutant
def dead_holder_is_never_taken_over() -> Sequence[Patch]:
    return [patch.object(Machine, "_lapsed", lambda self, hold, now: False)]


@mutant
def take_over_says_it_is_the_first_send() -> Sequence[Patch]:
    honest = Machine._grant

    def grant(self: Machine, s: Sender, tx: Tx, *more: Any) -> Grant:
        honest(self, s, tx, *more)
        assert s.hold is not None
        s.hold.again = False
        return self._granted(s, s.hold, s.hold.at)

    return [patch.object(Machine, "_grant", grant)]


@mutant
def silence_is_forgiven_by_the_next_heartbeat() -> Sequence[Patch]:
    """A frozen instance wakes up, is heard again, and sends for what others took over."""
    honest = Machine.heartbeat

    def heartbeat(self: Machine, owner: str, now: int) -> Alive:
        heard = self.alive.get(owner)
        answer = honest(self, owner, now)
        if heard is not None:
            self.alive[owner] = Heard(heard.since, now)
            return Alive(False, answer.born)
        return answer

    return [
        patch.object(Machine, "heartbeat", heartbeat),
        patch.object(Heart, "left_s", lambda self, hold: 60.0),
    ]


@mutant
def instance_sends_after_its_deadline() -> Sequence[Patch]:
    return [patch.object(Heart, "left_s", lambda self, hold: 60.0)]


@mutant
def maybe_counts_as_sent() -> Sequence[Patch]:
    honest = Machine.done

    def done(self: Machine, sender: str, fence: str, verdict: Any, *more: Any, **named: Any) -> Done:
        return honest(self, sender, fence, "sent" if verdict == "maybe" else verdict, *more, **named)

    return [patch.object(Machine, "done", done)]


@mutant
def maybe_counts_as_surely_not_sent() -> Sequence[Patch]:
    honest = Machine.done

    def done(self: Machine, sender: str, fence: str, verdict: Any, *more: Any, **named: Any) -> Done:
        return honest(self, sender, fence, "retry" if verdict == "maybe" else verdict, *more, **named)

    return [patch.object(Machine, "done", done)]


@mutant
def maybe_is_given_up() -> Sequence[Patch]:
    """Seed 001's force release: the next one goes without it."""
    honest = Machine.done

    def done(self: Machine, sender: str, fence: str, verdict: Any, *more: Any, **named: Any) -> Done:
        return honest(self, sender, fence, "refuse" if verdict == "maybe" else verdict, *more, **named)

    return [patch.object(Machine, "done", done)]


@mutant
def gap_does_not_hold_back_what_follows() -> Sequence[Patch]:
    def head(self: Book, s: Sender) -> Tx | None:
        able = (self.newest(s, nonce) for nonce in s.from_nonce(s.count))
        return next((tx for tx in able if tx is not None and tx.state in (State.WAITING, State.UNSURE)), None)

    return [patch.object(Book, "head", head)]


@mutant
def new_store_sends_at_once() -> Sequence[Patch]:
    def may_grant(self: Machine, owner: str, now: int) -> bool:
        return owner in self.alive and now - self.alive[owner].last < 5_000

    return [patch.object(Machine, "_may_grant", may_grant)]


@mutant
def roll_back_leaves_no_doubt() -> Sequence[Patch]:
    return [patch.object(Machine, "lost_data", lambda self, now: None)]


@mutant
def executors_are_not_counted() -> Sequence[Patch]:
    honest = Machine._grant_best

    def best(self: Machine, *more: Any) -> Grant | None:
        holds, self.book.holds = self.book.holds, {}
        try:
            return honest(self, *more)
        finally:
            self.book.holds = holds | self.book.holds

    return [patch.object(Machine, "_grant_best", best)]


@mutant
def admit_grants_past_a_better_head() -> Sequence[Patch]:
    honest = Book.arrange

    def arrange(self: Book, s: Sender) -> None:
        honest(self, s)
        self.ready.sort(key=lambda rank: -rank[1])

    return [patch.object(Book, "arrange", arrange)]


@mutant
def unsure_bytes_are_replaced_on_a_strict_node() -> Sequence[Patch]:
    honest = rules.refusal

    def refusal(book: Book, s: Sender, offer: Offer) -> Word | None:
        word = honest(book, s, offer)
        old = book.newest(s, offer.nonce)
        if word == "low" and old is not None and old.state in (State.UNSURE, State.SENT) and offer.price > old.price:
            return None
        return word

    return [patch.object(rules, "refusal", refusal)]


@mutant
def nonce_that_is_processing_is_replaced() -> Sequence[Patch]:
    honest = rules.refusal

    def refusal(book: Book, s: Sender, offer: Offer) -> Word | None:
        word = honest(book, s, offer)
        return None if word == "processing" else word

    return [patch.object(rules, "refusal", refusal)]


@mutant
def successors_of_an_end_stay_in_the_run() -> Sequence[Patch]:
    honest = Book.remove

    def remove(self: Book, tx: Tx, *more: Any, **named: Any) -> None:
        s = self.senders[tx.sender]
        run, following = s.run, s.next
        honest(self, tx, *more, **named)
        s.run, s.next = run, max(following, tx.nonce + 1)

    return [patch.object(Book, "remove", remove)]


@mutant
def capacity_is_off_by_one() -> Sequence[Patch]:
    honest = rules.victims

    def victims(book: Book, s: Sender, offer: Offer) -> list[Tx] | None:
        found = honest(book, s, offer)
        return found[:-1] if found else found

    return [patch.object(rules, "victims", victims)]


@mutant
def reorg_reopens_nothing() -> Sequence[Patch]:
    honest = Book.move

    def move(self: Book, tx: Tx, state: State, now: int) -> None:
        if tx.state is not State.LANDED:
            honest(self, tx, state, now)

    return [patch.object(Book, "move", move)]


@mutant
def sent_bytes_are_forgotten() -> Sequence[Patch]:
    """Released after the submission: a node that restarts has nobody to send them again."""
    return [patch.object(Machine, "_rouse", _rouse_pauses_only)]


def _rouse_pauses_only(self: Machine, s: Sender, now: int) -> None:
    self.book.due.pop(s.address, None)
    if s.paused_until <= now:
        s.paused_until = 0
    else:
        self.book.wake_at(s, s.paused_until)
    self.book.arrange(s)


@mutant
def pause_never_ends() -> Sequence[Patch]:
    return [patch.object(Machine, "_rouse", lambda self, s, now: self.book.due.pop(s.address))]


@mutant
def expiry_takes_what_could_be_sent() -> Sequence[Patch]:
    honest = Book._rank

    def rank(self: Book, tx: Tx, gapped: bool) -> None:
        honest(self, tx, gapped)
        self.aging.setdefault(tx.hash, tx.at + 2_000)

    return [patch.object(Book, "_rank", rank)]


@mutant
def repeat_of_admit_stores_it_twice() -> Sequence[Patch]:
    honest = Machine._offer

    def offered(self: Machine, offer: Offer, read: Count | None, call: str, *more: Any) -> Admitted:
        known = self.book.txs.get(offer.hash)
        if known is not None and known.call == call and known.state is State.WAITING:
            del self.book.txs[offer.hash]
        return honest(self, offer, read, call, *more)

    return [patch.object(Machine, "_offer", offered)]


@mutant
def next_nonce_passes_an_unsure_one() -> Sequence[Patch]:
    return [patch("txmanager.core.mempool_book.AT_THE_NODE", (State.SENT, State.LANDED, State.UNSURE))]


@mutant
def take_over_sends_the_newest_bytes_instead() -> Sequence[Patch]:
    """A dead holder's nonce goes back into the line as if it had never been granted."""

    def take_over(self: Machine, hold: Hold, now: int) -> bool:
        s = next((s for s in self.book.holds.values() if s.hold is hold), None)
        late = _lapsed(self, hold, now)
        if late and s is not None:
            tx = self.book.txs[hold.hash]
            self._release(s)
            self.book.move(tx, State.WAITING, now)
            self.book.arrange(s)
            return False
        return late

    _lapsed = Machine._lapsed
    return [patch.object(Machine, "_lapsed", take_over)]


# -- of the gateway's own parts


@mutant
def silent_gateway_keeps_its_grants() -> Sequence[Patch]:
    """The heart does not notice that others may have taken over."""

    def left_s(self: Heart, hold: Held) -> float:
        return hold.until - 1.0 - self._now()

    return [patch.object(Heart, "left_s", left_s)]


@mutant
def bytes_go_again_without_a_look_up() -> Sequence[Patch]:
    async def look_up(self: Dispatcher, hold: Held, for_s: float) -> SendReply | None:
        return None

    return [patch.object(Dispatcher, "_look_up", look_up)]


@mutant
def look_up_ends_before_the_node_shows_it() -> Sequence[Patch]:
    honest = Dispatcher._look_up

    async def look_up(self: Dispatcher, hold: Held, for_s: float) -> SendReply | None:
        return await honest(self, hold, 0.0)

    return [patch.object(Dispatcher, "_look_up", look_up)]


@mutant
def nonce_too_low_is_always_a_refusal() -> Sequence[Patch]:
    honest = dispatch._verdict

    def verdict(fate: Fate, reply: SendReply, again: bool) -> tuple[Any, str]:
        if reply.verdict is NodeVerdict.NONCE_TOO_LOW:
            return "refuse", "nonce too low"
        return honest(fate, reply, again)

    async def was_it_ours(self: Dispatcher, hold: Held, said: SendReply) -> SendReply:
        return said

    return [patch.object(dispatch, "_verdict", verdict), patch.object(Dispatcher, "_was_it_ours", was_it_ours)]


@mutant
def node_that_is_away_counts_as_taken() -> Sequence[Patch]:
    return [patch.dict(after_send.FATES, {NodeVerdict.UNAVAILABLE: Fate.SENT})]


@mutant
def node_that_is_away_counts_as_a_refusal() -> Sequence[Patch]:
    return [patch.dict(after_send.FATES, {NodeVerdict.UNAVAILABLE: Fate.REFUSE})]


@mutant
def dispatcher_waits_for_a_ring_only() -> Sequence[Patch]:
    honest = Dispatcher._until_rung

    async def until_rung(self: Dispatcher, timeout_s: float) -> None:
        await honest(self, 10_000.0)

    return [patch.object(Dispatcher, "_until_rung", until_rung)]


@mutant
def lost_bytes_are_answered_with_their_hash() -> Sequence[Patch]:
    honest = Outcomes._look

    async def look(self: Outcomes, hash: str) -> tuple[bool, str | None]:
        try:
            return await honest(self, hash)
        except Lost:
            return True, None

    return [patch.object(Outcomes, "_look", look), patch.object(Outcomes, "lost", lambda self: None)]


@mutant
def store_that_is_away_is_taken_for_a_yes() -> Sequence[Patch]:
    honest = Intake.admit

    async def admit(self: Intake, offers: Sequence[Offer], counts: Any = None) -> list[Admitted]:
        try:
            return await honest(self, offers, counts)
        except Unavailable:
            return [Admitted("admitted", 0, True) for _ in offers]

    return [patch.object(Intake, "admit", admit)]


@mutant
def follower_never_looks() -> Sequence[Patch]:
    async def walk(self: Follower) -> None:
        pass

    return [patch.object(Follower, "walk", walk)]


@mutant
def follower_ends_what_is_not_final() -> Sequence[Patch]:
    honest = Follower._ends

    async def ends(self: Follower, landed: Sequence[tuple[str, int, str]]) -> list[End]:
        await honest(self, landed)
        return [End(hash, "final") for _, _, hash in landed]

    return [patch.object(Follower, "_ends", ends)]


@mutant
def reorganisation_is_not_believed() -> Sequence[Patch]:
    async def lower(self: Follower, *_: Any) -> None:
        pass

    return [patch.object(Follower, "_lower", lower)]


@mutant
def null_of_the_node_ends_a_transaction() -> Sequence[Patch]:
    honest = Follower._judge

    async def judge(self: Follower, page: Any, seen: Any) -> None:
        out = [hash for one in page for _, hash, state in one.out if state in (State.SENT, State.UNSURE)]
        found = await self._upstream.find(out)
        ends = [End(h, "overtaken") for h, told in zip(out, found, strict=True) if told is not None and not told.known]
        await self._mempool.end(ends)
        await honest(self, page, seen)

    return [patch.object(Follower, "_judge", judge)]
