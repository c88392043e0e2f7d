"""What a mempool remembers, and the order in it: who is next, who waits for a gap, who is purged first.

`run` and `next` of a sender are kept up to date step by step, because a sender may have a thousand transactions:

- `run`: the first nonce, not below the floor, that has no transaction here. Waiting ones above it are gapped.
- `next`: the first nonce, not below the count, whose transaction a node does not have yet, or that is missing.
- the floor is the chain's count, or the node's own pending count where that is higher.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from txmanager.core.admission import (
    ENDED_LIMIT,
    Base,
    Ended,
    EndReason,
    Limits,
    State,
    kept_text,
)

Rank = tuple[int, int, str]
AT_THE_NODE = (State.SENT, State.LANDED)
SENDABLE = (State.WAITING, State.UNSURE)


@dataclass(slots=True)
class Tx:
    hash: str
    sender: str
    nonce: int
    price: int
    raw: bytes
    seq: int
    """Arrival."""
    at: int
    moved_at: int
    call: str
    """Which offer of which call admitted it."""
    state: State = State.WAITING
    gapped: bool = False
    tries: int = 0
    sent_at: int = 0
    """When a node first took it; 0 before."""

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def cheapness(self) -> Rank:
        """Purge order: the cheapest first, the newest of equals."""
        return (self.price, -self.seq, self.hash)


@dataclass(slots=True)
class Hold:
    owner: str
    fence: str
    call: str
    nonce: int
    hash: str
    at: int
    until: int
    again: bool
    after: str = ""
    """The fence whose `done` granted this one."""


@dataclass(slots=True)
class Sender:
    address: str
    count: int
    block: str
    height: int
    read_at: int
    pending: int
    run: int
    next: int
    hold: Hold | None = None
    paused_until: int = 0
    done: str = ""
    """The last fence that was done: a repeat is told so."""
    waiting: int = 0
    waiting_bytes: int = 0
    kept_bytes: int = 0
    queued: Rank | None = None
    """Its place among the ready ones."""
    slots: dict[int, list[str]] = field(default_factory=dict)
    """Hashes by nonce, the newest first: any of them may land."""
    nonces: list[int] = field(default_factory=list)

    @property
    def floor(self) -> int:
        return max(self.count, self.pending)

    def from_nonce(self, nonce: int) -> Iterator[int]:
        return iter(self.nonces[bisect_left(self.nonces, nonce) :])


class Book:
    """Everything a mempool remembers. Its methods keep the orders right; they decide nothing."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.txs: dict[str, Tx] = {}
        self.senders: dict[str, Sender] = {}
        self.holds: dict[str, Sender] = {}
        """Senders that are processing."""
        self.ready: list[Rank] = []
        """(-price, arrival, sender) of each sender's head: the best first."""
        self.gapped: list[Rank] = []
        self.pending: list[Rank] = []
        """Waiting ones below and above their sender's run, in purge order."""
        self.due: dict[str, int] = {}
        """When a sender wants to be looked at: its pause is over, or something is to be sent again."""
        self.aging: dict[str, int] = {}
        """When a gapped, sent or unsure transaction expires, and when a sender without any is forgotten."""
        self.ended: OrderedDict[str, Ended] = OrderedDict()
        self.doubt = 0
        """Transactions up to this arrival may have been sent by somebody the store forgot."""
        self.waiting_bytes = 0
        self.kept_bytes = 0
        self.words: list[str] = []
        """Hashes that were decided since the last look: a node has them, or they ended."""

    @property
    def waiting(self) -> int:
        return len(self.gapped) + len(self.pending)

    def given_up(self, tx: Tx) -> bool:
        """Whether it ends when its time is over. Unsure bytes end only behind a nonce that nobody offers: others go
        again until the chain decides."""
        if tx.state is not State.UNSURE:
            return True
        return self.limits.order == "nonce" and tx.nonce > self.senders[tx.sender].run

    def base(self, s: Sender, now: int) -> Base:
        return Base(s.count, s.block, s.height, s.run, now - s.read_at < self.limits.count_fresh_ms)

    def newest(self, s: Sender, nonce: int) -> Tx | None:
        hashes = s.slots.get(nonce)
        return self.txs[hashes[0]] if hashes else None

    # -- one transaction

    def add(self, s: Sender, tx: Tx) -> None:
        self.senders[s.address] = s
        self.aging.pop(s.address, None)
        self.ended.pop(tx.hash, None)
        self.txs[tx.hash] = tx
        if tx.nonce not in s.slots:
            insort(s.nonces, tx.nonce)
        s.slots.setdefault(tx.nonce, []).insert(0, tx.hash)
        self._count(s, tx, 1)
        self._rank(tx, tx.nonce > s.run)
        s.next = min(s.next, tx.nonce)
        self.walk(s, tx.at)

    def move(self, tx: Tx, state: State, now: int) -> None:
        """Into another state; the orders follow."""
        s = self.senders[tx.sender]
        self._count(s, tx, -1)
        self._unrank(tx)
        tx.state, tx.moved_at = state, now
        self._count(s, tx, 1)
        if state is State.WAITING:
            self._rank(tx, tx.nonce > s.run)
        elif state is State.SENT:
            tx.sent_at = tx.sent_at or now
            self.aging[tx.hash] = tx.sent_at + self.limits.idle_ms
            if self.limits.resend_ms:
                self.wake_at(s, now + self.limits.resend_ms)
        elif state is State.UNSURE:
            self.aging[tx.hash] = now + self.limits.idle_ms
        if state in SENDABLE:
            s.next = min(s.next, max(tx.nonce, s.count))
        if state in AT_THE_NODE:
            self.words.append(tx.hash)

    def remove(self, tx: Tx, reason: EndReason, now: int, message: str = "", code: str = "") -> None:
        s = self.senders[tx.sender]
        self._count(s, tx, -1)
        self._unrank(tx)
        del self.txs[tx.hash]
        hashes = s.slots[tx.nonce]
        hashes.remove(tx.hash)
        if not hashes:
            del s.slots[tx.nonce]
            s.nonces.remove(tx.nonce)
            if s.floor <= tx.nonce < s.run:
                s.run = tx.nonce
                self._regap(s, now)
            if s.floor <= tx.nonce < s.next:
                s.next = tx.nonce
        elif self.limits.resend_ms:
            self.wake_at(s, now + self.limits.resend_ms)  # what it was to replace is the newest again
        self.walk(s, now)
        if not s.slots:
            self.aging[s.address] = now + self.limits.count_fresh_ms
            self.due.pop(s.address, None)
            s.paused_until = 0
        self.ended[tx.hash] = Ended(tx.hash, tx.sender, tx.nonce, reason, kept_text(message), code, now)
        self.ended.move_to_end(tx.hash)
        while len(self.ended) > ENDED_LIMIT:
            self.ended.popitem(last=False)
        self.words.append(tx.hash)

    # -- one sender

    def walk(self, s: Sender, now: int) -> None:
        """Both marks go up as far as they may."""
        s.next = max(s.next, s.count)
        for nonce in s.from_nonce(s.run):
            if nonce > max(s.run, s.floor):
                break
            tx = self.newest(s, nonce)
            if tx is not None and tx.gapped:
                self._unrank(tx)
                tx.moved_at = now
                self._rank(tx, False)
            s.run = nonce + 1
        s.run = max(s.run, s.floor)
        while True:
            tx = self.newest(s, s.next)
            if tx is not None and tx.state in AT_THE_NODE:
                s.next += 1
            elif tx is None and s.next < s.floor:  # the node has it from somebody else
                s.next = min(next(s.from_nonce(s.next), s.floor), s.floor)
            else:
                return

    def replan(self, s: Sender, now: int) -> None:
        """Both marks from the start: the floor went down."""
        s.run, s.next = s.floor, s.count
        while s.run in s.slots:
            s.run += 1
        self._regap(s, now)
        self.walk(s, now)

    def _regap(self, s: Sender, now: int) -> None:
        for nonce in s.from_nonce(s.floor):
            tx = self.newest(s, nonce)
            if tx is not None and tx.state is State.WAITING and tx.gapped != (nonce > s.run):
                self._unrank(tx)
                tx.moved_at = now
                self._rank(tx, nonce > s.run)

    def head(self, s: Sender) -> Tx | None:
        """What the sender would send next."""
        if self.limits.order != "nonce":
            heads = (self.newest(s, nonce) for nonce in s.from_nonce(s.count))
            return min((t for t in heads if t and t.state in SENDABLE), key=lambda t: t.seq, default=None)
        tx = self.newest(s, s.next)
        if tx is None or tx.state not in SENDABLE:
            return None
        if self.limits.next_after == "count" and s.next > s.floor:
            return None
        return tx

    def arrange(self, s: Sender) -> None:
        """Its head stands in line, or nothing does."""
        tx = self.head(s) if s.hold is None and not s.paused_until else None
        if tx is not None and tx.state is State.WAITING and s.kept_bytes:
            tx = tx if s.kept_bytes + tx.size <= self.limits.sender_bytes else None
        rank = None if tx is None else (-tx.price, tx.seq, s.address)
        if rank != s.queued:
            if s.queued is not None:
                del self.ready[bisect_left(self.ready, s.queued)]
            if rank is not None:
                insort(self.ready, rank)
            s.queued = rank

    def wake_at(self, s: Sender, at: int) -> None:
        self.due[s.address] = min(at, self.due.get(s.address, at))

    # -- orders and sums

    def _rank(self, tx: Tx, gapped: bool) -> None:
        if tx.state is not State.WAITING:
            return
        tx.gapped = gapped
        insort(self.gapped if gapped else self.pending, tx.cheapness)
        if gapped:
            self.aging[tx.hash] = tx.moved_at + self.limits.idle_ms

    def _unrank(self, tx: Tx) -> None:
        self.aging.pop(tx.hash, None)
        if tx.state is State.WAITING:
            order = self.gapped if tx.gapped else self.pending
            del order[bisect_left(order, tx.cheapness)]
            tx.gapped = False

    def _count(self, s: Sender, tx: Tx, sign: int) -> None:
        if tx.state is State.WAITING:
            s.waiting += sign
            s.waiting_bytes += sign * tx.size
            self.waiting_bytes += sign * tx.size
        else:
            s.kept_bytes += sign * tx.size
            self.kept_bytes += sign * tx.size
