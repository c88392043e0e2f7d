"""The mempool of one chain as its users see it: what is offered, what is answered, and the `Mempool` protocol.

A mempool keeps signed transactions of addresses whose key others hold, and decides which of them may be sent now: one
at a time for each sender, in nonce order, the dearest sender first. Many gateway instances share one mempool.

Every call is one atomic step and may be repeated: whoever lost a reply calls again with the same arguments and learns
what the first call did. Only `admit` waits for durability. Everything else can be derived again from the chain, so a
store that forgets it costs a look-up and perhaps the same bytes sent once more, never other bytes or another order.
No call raises for what somebody offered, except `InvalidInput` for values no transaction can have. `Unavailable` and
`Unconfirmed` mean the store could not be asked or did not confirm, as everywhere.

A transaction is in one of five states (`State`). `waiting` ones count against capacity, watermark and `per_sender`.
The bytes of all others ("kept") are bounded by `kept_bytes`: while they are full, nothing is granted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Literal, Protocol

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.core.values import value

ALIVE_MS = 5_000
"""An instance that was not heard for this long holds nothing any more."""
ENDED_MS = 600_000
"""How long the end of a transaction can be asked for."""
ENDED_LIMIT = 20_000
"""Ends that are remembered at most; beyond it the oldest go."""
MESSAGE_LIMIT = 500
"""Characters of a node's message that are kept with an end."""
NONCE_LIMIT = 2**64 - 2
"""The highest nonce of a transaction is one less (EIP-2681)."""
PRICE_LIMIT = 10**78
SENDER_SHARE = 16
"""One sender uses at most this part of the bytes, or a single transaction, waiting and kept each."""


class State(StrEnum):
    """Where a live transaction is, and who moves it on."""

    WAITING = "waiting"
    """Stored, never sent. `take`, `admit` and `done` grant it; a dearer one may replace or purge it. After a crash it
    is still here."""
    PROCESSING = "processing"
    """One instance may send it now. `done` moves it on; when the holder dies, `take` grants it again."""
    UNSURE = "unsure"
    """It was perhaps sent and must be looked up. Never purged or dropped; `take` grants it again. It expires only
    behind a missing nonce, where nothing can be sent."""
    SENT = "sent"
    """A node took it. `observe` moves it on when its nonce is used; `reopen` makes it unsure; it expires."""
    LANDED = "landed"
    """Its nonce is used on chain, by these bytes or by others. `end` removes it at finality; a reorg makes it sent."""


Verdict = Literal["sent", "retry", "maybe", "refuse"]
"""What came of a send: a node took it · it surely took nothing, try later · unknown · refused for ever."""

Word = Literal[
    "admitted", "known", "cold", "processing", "low", "replace_underpriced", "sender_full", "gap", "underpriced", "full"
]

EndReason = Literal["final", "overtaken", "replaced", "refused", "purged", "expired", "dropped"]
"""`final` these bytes are on chain for good · `overtaken` other bytes used the nonce · `replaced` by a dearer one ·
`refused` by the node · `purged` for lack of room · `expired` waited too long · `dropped` by an operator."""


@value(frozen=True, slots=True)
class Limits:
    """The settings that a mempool enforces. All instances of a chain use the same; each call uses its caller's."""

    capacity: int = 4_096
    high_watermark: float = 0.9
    per_sender: int = 1_000
    kept_bytes: int = 64 * 1024 * 1024
    """Bounds the bytes of waiting transactions, and again those of all others."""
    bump_percent: int = 0
    executors: int = 64
    """Senders that may be processing at once, on all instances together."""
    hold_ms: int = 30_000
    idle_ms: int = 3_600_000
    """A gapped transaction, and a sent one that does not land, expires after this time."""
    count_fresh_ms: int = 5_000
    """For this long after it was read, a sender's count serves `admit`."""
    quiet_ms: int = 0
    """For this long after the store was new, or lost data, nothing is granted. On a strict backend: until a holder that
    was forgotten has stopped, and the chain's count shows what it sent."""
    resend_ms: int = 0
    """A sent transaction that has not landed is sent again after this time; 0: never by itself."""
    strict: bool = False
    """The node charges for what it refuses: no replacement of a sent nonce, and a count never goes down."""
    order: Literal["nonce", "arrival", "none"] = "nonce"
    """`nonce`: gaps wait · `arrival`: each sender's transactions in the order they came, gaps are sent, too · `none`:
    admitted as sent at once; the caller sends it, and calls `end` when it is refused."""
    next_after: Literal["answer", "count"] = "answer"
    """When n+1 may be sent: after the node took n, or after the chain counted n."""
    memory_senders: int = 1_000
    """Memory only: idle senders that are remembered."""

    @property
    def watermark(self) -> int:
        """Above this many waiting transactions a gapped one must beat another gapped one."""
        return int(self.capacity * Fraction(str(self.high_watermark)))

    @property
    def sender_bytes(self) -> int:
        return self.kept_bytes // SENDER_SHARE

    def outbid(self, price: int) -> int:
        """The highest price that `price` may replace."""
        return min(price - 1, price * 100 // (100 + self.bump_percent))

    def check(self) -> Limits:
        """Refuse settings that make no sense, by name."""
        for name in ("capacity", "per_sender", "kept_bytes", "executors", "hold_ms", "idle_ms", "memory_senders"):
            if getattr(self, name) < 1:
                raise InvalidSettings(f"gateway.{name}", "must be at least 1")
        for name in ("bump_percent", "count_fresh_ms", "quiet_ms", "resend_ms"):
            if getattr(self, name) < 0:
                raise InvalidSettings(f"gateway.{name}", "must not be negative")
        if not 0 < self.high_watermark <= 1:
            raise InvalidSettings("gateway.high_watermark", "must be above 0 and at most 1")
        return self


@value(frozen=True, slots=True)
class Offer:
    """A transaction as its bytes tell: everything here was decoded and checked by the caller."""

    hash: str
    """0x and 64 lower-case digits."""
    sender: str
    """0x and 40 lower-case digits, recovered from the signature."""
    nonce: int
    """Below `NONCE_LIMIT`."""
    price: int
    """Wei: maxFeePerGas, or gasPrice. Below `PRICE_LIMIT`."""
    raw: bytes


@value(frozen=True, slots=True)
class Count:
    """How many transactions of a sender the chain has, and at which block an endpoint said so."""

    count: int
    block: str
    height: int
    pending: int = 0
    """On a `pool` backend: the node's own pending count. 0 where there is none."""
    orphaned: str = ""
    """The hash of the stored block (`Base.block`), when the endpoint says that it is not canonical any more. Only
    then a lower count is believed, and only if that block is still the stored one; never when `strict`."""


@value(frozen=True, slots=True)
class Base:
    """What is known of one sender."""

    count: int
    block: str
    height: int
    run: int
    """The first nonce that is missing here, not below `count` nor the node's pending: what `pending` answers."""
    fresh: bool
    """The count was read within `count_fresh_ms`."""


@value(frozen=True, slots=True)
class Grant:
    """The right to send these bytes, alone for this sender, until the time is over.

    The holder stops writing to its socket at the earlier of: the moment *before it called* + `left_ms`, and the sending
    time of its last acknowledged heartbeat + `ALIVE_MS`; less 1 s. After that somebody else may send the same bytes.
    """

    hash: str
    sender: str
    nonce: int
    raw: bytes
    fence: str
    """Names this grant in `done`. Never used twice."""
    left_ms: int
    again: bool = False
    """Somebody may have sent these bytes before. Where repeats are charged, look hash and count up first."""
    tries: int = 1
    """How often it was granted, this time included."""
    waited_ms: int = 0
    """Since it was admitted."""
    waiting: int = 0
    """How many transactions of the sender wait behind it."""


@value(frozen=True, slots=True)
class Admitted:
    """`admitted`: stored durably · `known`: rule 1, see `state` · `cold`: nothing stored, call again with the sender's
    count · `processing`: rule 3 · `low`: rule 4, or a sent nonce when `strict` · `replace_underpriced`: rule 5 ·
    `sender_full`: `per_sender`, or its share of the bytes · `gap`: rule 6, above the watermark with no gapped entry to
    beat · `underpriced`: rules 6 and 7 · `full`: no room for the bytes."""

    word: Word
    base: int = 0
    """The sender's run after this offer; with `low` and `processing` the next nonce it can use. 0 with `cold`."""
    gapped: bool = False
    """Waits for lower nonces. With `admitted`."""
    grant: Grant | None = None
    """With `admitted`: this transaction may be sent now, by this caller."""
    replaced: str = ""
    """The hash that it replaced; ended if it was waiting, still followed if it was sent."""
    state: State | None = None
    """With `known`."""


@value(frozen=True, slots=True)
class Done:
    """`done` · `stale`: the grant is not the caller's any more, nothing changed."""

    word: Literal["done", "stale"]
    grant: Grant | None = None
    """The best head that waits now, granted to the caller: usually the same sender's next nonce."""
    held_ms: int = 0
    """From the grant to this call."""
    waiting: int = 0
    """How many transactions of the sender still wait."""


@value(frozen=True, slots=True)
class Taken:
    grants: tuple[Grant, ...]
    forced: int = 0
    """How many of them were taken from a holder whose time was over."""
    next_ms: int | None = None
    """When to call again if nobody rings: the next deadline of any kind. None: nothing waits for a time."""


@value(frozen=True, slots=True)
class Observed:
    """`raised` · `same` · `lowered` after a reorg · `lower`: not believed, the stored count stands; check whether
    `base.block` is canonical and call again with `orphaned` · `unknown`: no such sender, nothing stored."""

    word: Literal["raised", "same", "lowered", "lower", "unknown"]
    base: Base | None = None
    landed: tuple[str, ...] = ()
    """Hashes whose nonce is used now and was not before."""


@value(frozen=True, slots=True)
class End:
    """The end of one transaction, told by a follower or an operator."""

    hash: str
    reason: EndReason
    message: str = ""
    """For people; the first `MESSAGE_LIMIT` characters are kept."""
    code: str = ""
    """A machine-readable class of the refusal; the gateway's own words."""


@value(frozen=True, slots=True)
class Ended:
    hash: str
    sender: str
    nonce: int
    reason: EndReason
    message: str
    code: str
    at: int
    """Milliseconds since the epoch, by the store's clock."""


@value(frozen=True, slots=True)
class Entry:
    """A live transaction."""

    hash: str
    sender: str
    nonce: int
    price: int
    raw: bytes
    state: State
    gapped: bool
    """Waiting above the sender's run."""
    at: int
    """When it was admitted, in milliseconds by the store's clock."""
    moved_at: int
    """When its state last changed."""
    tries: int = 0


@value(frozen=True, slots=True)
class Followed:
    """A sender that has live transactions: its count is worth reading at each block."""

    sender: str
    base: Base
    gaps: bool
    """Some of its transactions wait above the run."""
    out: tuple[tuple[int, str, State], ...]
    """Nonce, hash and state of what is processing, unsure, sent or landed; lowest nonce first."""


@value(frozen=True, slots=True)
class Totals:
    """What a mempool holds. Rates and gauges come from here."""

    waiting: int = 0
    gapped: int = 0
    processing: int = 0
    unsure: int = 0
    sent: int = 0
    landed: int = 0
    waiting_bytes: int = 0
    kept_bytes: int = 0
    senders: int = 0
    ready: int = 0
    """Senders whose head could be sent if an executor were free."""
    alive: int = 0
    """Instances heard within `ALIVE_MS`."""
    quiet_ms: int = 0
    """How long nothing is granted, because the store is new or lost data."""


@value(frozen=True, slots=True)
class Alive:
    """The answer of a heartbeat."""

    lapsed: bool
    """More than `ALIVE_MS` went by since the last one (or this is the first): the caller holds no grant any more. It
    must send nothing for grants it got before this answer."""
    born: str
    """Which store this is. When it changes, the store lost everything: callers who wait are told `unknown`."""


@value(frozen=True, slots=True)
class Expired:
    ended: tuple[str, ...]
    """Hashes that ended `expired` now."""
    more: bool
    """Call again: there is more to do than one call does."""


class Mempool(Protocol):
    """One chain's mempool. `owner` names an instance: random, new at each start of the process."""

    async def admit(
        self, offers: Sequence[Offer], counts: Mapping[str, Count] | None = None, *, owner: str = ""
    ) -> list[Admitted]:
        """Store transactions durably, in array order, in one step; one answer each.

        - `counts` are what the caller just read, by sender. An offer whose sender has no fresh count, or that would be
          called gapped on a count that was not read for this call, answers `cold`; so do all later offers of that
          sender. Read the counts, then call again with the offers that were `cold`, in the same order.
        - A refused offer leaves nothing behind; what is admitted may end others (`purged`, `replaced`).
        - With `owner`, an admitted head is granted at once when its sender is idle, an executor is free and no better
          head waits. The owner must be alive (see `heartbeat`), else nothing is granted.
        - Repeated after a lost reply, it answers `admitted` again, with the same grant while that is still held.
        - `Unconfirmed`: perhaps stored. The caller is told to send the same bytes again; nothing may be sent for it.
        """
        ...

    async def take(self, owner: str, most: int = 1) -> Taken:
        """Grant up to `most` heads to a living instance: first what a dead or late holder left, then the best heads
        (highest price, then earliest arrival) while executors and `kept_bytes` allow it.

        A grant from a dead or late holder is of the same bytes and says `again`. Repeated after a lost reply, it
        answers the same grants."""
        ...

    async def done(
        self,
        grant: Grant,
        verdict: Verdict,
        *,
        owner: str,
        message: str = "",
        code: str = "",
        wait_ms: int = 0,
        more: bool = True,
    ) -> Done:
        """Say what came of a send. With an old fence nothing changes.

        - `sent`: n+1 may follow (with `next_after` "count" once the chain counts n).
        - `retry`: surely not taken. It waits again, and so does its sender for `wait_ms`. Also to give a grant back
          that was not used; what was `again` before stays unsure.
        - `maybe`: unsure; granted `again` after `wait_ms`. The sender's next nonces wait for it.
        - `refuse`: ended with `message` and `code`; higher nonces become gapped. If it was to replace sent bytes, those
          are followed again.
        - With `more` the best head that waits is granted to the caller in the same step. False: a stopping instance.
        """
        ...

    async def observe(self, counts: Mapping[str, Count]) -> dict[str, Observed]:
        """Tell counts that were read from the chain. A higher one always counts: what is below it is landed, a hold on
        it is over. A lower one counts only with `orphaned`: landed bytes above it are sent again (`unsure`). Senders
        the mempool does not know are `unknown` and cost nothing."""
        ...

    async def reopen(self, hashes: Sequence[str]) -> list[str]:
        """Sent transactions that the chain does not know become unsure, to be granted `again`; answers which did."""
        ...

    async def end(self, ends: Sequence[End]) -> list[str]:
        """Transactions that are over; answers which ended now. What is processing stays (its holder is sending it);
        unknown hashes are no error. Higher nonces of the sender become gapped if the nonce is not used on chain."""
        ...

    async def drop(self, *, hash: str = "", sender: str = "", all: bool = False) -> list[str]:
        """An operator's word: end (`dropped`) one transaction, a sender's, or all, of those that wait. A node may have
        the others, and they stay. Answers what ended. `all` touches this mempool only."""
        ...

    async def expire(self) -> Expired:
        """End what waited behind a missing nonce, or was sent and did not land, for `idle_ms`; forget old ends, dead
        instances and senders without transactions. A bounded piece of work at each call."""
        ...

    async def heartbeat(self, owner: str) -> Alive:
        """Say that an instance lives: before its first grant, then about every second."""
        ...

    async def leave(self, owner: str) -> None:
        """An instance stops. What it still holds is free at once, to be granted `again`."""
        ...

    # -- reading: one step each, no promise beyond the moment

    async def base(self, sender: str) -> Base | None:
        """What `pending` is answered from; None when nothing is known of the sender."""
        ...

    async def find(self, hash: str) -> Entry | Ended | None: ...

    async def content(self, sender: str = "", after: tuple[str, int] | None = None, most: int = 1_000) -> list[Entry]:
        """Waiting, processing and unsure transactions by sender, then nonce: of one sender or of all, those above the
        sender and nonce `after` (the last ones of the page before). Fewer than `most` means the end."""
        ...

    async def followed(self, after: str = "", most: int = 1_000) -> list[Followed]:
        """Senders with live transactions, by address; those above `after`."""
        ...

    async def totals(self) -> Totals: ...

    # -- hints between instances: they may be lost or late; whoever waits reads before and after

    async def wait_ready(self, timeout_s: float) -> bool:
        """Until something may be there to `take`: rung by `admit`, `done`, `observe`, `reopen`, `end`, `leave`."""
        ...

    async def wait_word(self, hash: str, timeout_s: float) -> None:
        """Until a transaction that was admitted may be decided: sent, landed or ended. Returns at once when the
        subscription is new: `find`, then wait again."""
        ...

    async def close(self) -> None: ...


_HASH = re.compile(r"0x[0-9a-f]{64}\Z")
_ADDRESS = re.compile(r"0x[0-9a-f]{40}\Z")


def check_offers(offers: Sequence[Offer], counts: Mapping[str, Count]) -> None:
    """What a caller of any mempool can get wrong by itself."""
    for offer in offers:
        if not _HASH.match(offer.hash):
            raise InvalidInput("hash", "must be 0x and 64 lower-case hexadecimal digits")
        if not _ADDRESS.match(offer.sender):
            raise InvalidInput("sender", "must be 0x and 40 lower-case hexadecimal digits")
        if not 0 <= offer.nonce < NONCE_LIMIT:
            raise InvalidInput("nonce", f"must be from 0 to {NONCE_LIMIT - 1}")
        if not 0 <= offer.price < PRICE_LIMIT:
            raise InvalidInput("price", "must be from 0 to 10**78 - 1")
        if not offer.raw:
            raise InvalidInput("raw", "must not be empty")
    check_counts(counts)


def check_counts(counts: Mapping[str, Count]) -> None:
    for address, read in counts.items():
        if not _ADDRESS.match(address):
            raise InvalidInput("sender", "must be 0x and 40 lower-case hexadecimal digits")
        if not (0 <= read.count <= NONCE_LIMIT and 0 <= read.pending <= NONCE_LIMIT and 0 <= read.height < 2**63):
            raise InvalidInput("count", f"count and pending must be from 0 to {NONCE_LIMIT}, height below 2**63")
        if re.search(r"[^0-9a-zA-Z]", read.block + read.orphaned):
            raise InvalidInput("block", "must be a block hash")


def check_owner(owner: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", owner):
        raise InvalidInput("owner", "must be 1 to 64 of A-Z a-z 0-9 _ . : -")


def kept_text(message: str) -> str:
    """A node's words as they are stored: bounded, and text that any store can write."""
    return message[:MESSAGE_LIMIT].encode("utf-8", "replace").decode()
