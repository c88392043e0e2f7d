"""The `Ledger` protocol: every durable step of an intent, each safe to repeat, each answering in words.

An operation lives in one place: the *home* of an idempotency key or a *lane*. Whoever needs both makes two awaits and
survives a crash between them; where one store holds both, `accept` does the two steps of a new key at once. Replays are
recognised by natural identities (key and life, fence token, nonce and hash, final state), so a caller that lost a reply
simply calls again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from txmanager.core.alerts import Alert
from txmanager.core.audit import Audits
from txmanager.core.budgets import Budgets
from txmanager.core.listing import Browsed, Mark
from txmanager.core.mailbox import Mailbox
from txmanager.core.models import (
    Attempt,
    Event,
    Fence,
    Intent,
    IntentId,
    Json,
    Lane,
    LaneSpec,
    Outcome,
    Record,
)
from txmanager.core.positions import START
from txmanager.core.quotas import Quotas, Room, Share
from txmanager.core.reservations import Numbers, Use
from txmanager.core.sessions import Sessions
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, StopCause
from txmanager.core.values import value

SCHEMA = 2
"""The newest formats of this release; a lane of a newer schema is not leased.

1: releases 0.1.0 and 0.2.0. 2: one entry for all events of a step, and no tombstone where an append finds the
home. A lane is raised by `upgrade` only, because older releases would read it wrongly."""

APPEND_WITHIN_MS = 60_000
"""An append must follow its claim within this time; a tombstone outlives three of them."""

TOMBSTONE_MS = 3 * APPEND_WITHIN_MS
ACCEPT_NEEDS_RETENTION_MS = 3 * APPEND_WITHIN_MS
"""Answers that are kept for less do not outlive every late `accept`: such a ledger claims first, and then appends."""
SHELVED_MS = 3_600_000
"""How long a final record that could not be processed is left alone: a newer release may know what to do."""
SWEEP_AFTER_MS = 24 * 3600 * 1000
"""A claim without a record is swept no sooner: far beyond any append that could still succeed."""


@value(frozen=True, slots=True)
class Claim:
    """A wish to own an idempotency key: `lane` and `life` count only for the first caller."""

    id: IntentId
    fingerprint: str
    lane: str
    life: str


@value(frozen=True, slots=True)
class Claimed:
    """`claimed` first caller · `renewed` open, same payload · `final` see record · `alias` ask the target ·
    `conflict` another payload was there first."""

    word: Literal["claimed", "renewed", "final", "alias", "conflict"]
    lane: str = ""
    life: str = ""
    born: int = 0
    record: Record | None = None
    alias_of: IntentId | None = None


@value(frozen=True, slots=True)
class Entry:
    """One append: the intent with the life and birth its claim gave it (with `accept`: a new life, and `born_now`)."""

    intent: Intent
    life: str
    born: int
    use: Use | None = None
    """On a keyless lane: the reservation that these bytes use up."""
    seal: str = ""
    share: Share | None = None
    """Whose room in the queue it takes."""


@value(frozen=True, slots=True)
class Appended:
    """`appended` new · `exists` a replay · `retired` final: read the home · `stale`/`ahead` claim again ·
    `closed` move the claim · `full` come back later · `other_life` claim again · `unreserved` the number is not the
    token's (or the lane is of the other sort) · `used` the chain used the number already ·
    `no_room` its owner has no room left in this lane · `known` (of `accept`) the key has a home: claim it."""

    word: Literal[
        "appended",
        "exists",
        "retired",
        "stale",
        "ahead",
        "closed",
        "full",
        "other_life",
        "unreserved",
        "used",
        "no_room",
        "known",
    ]
    position: str = ""
    status: str = ""
    depth: int = 0
    at: int = 0
    cursor: int | None = None
    """With `unreserved` and `used`: the lane's next number."""
    room: Room | None = None
    """With `no_room`: what its owner uses here."""


@value(frozen=True, slots=True)
class Lease:
    """`leased` with the fence · `held` by another for `left_ms` · `closed` · `unknown` · `schema` too new for us."""

    word: Literal["leased", "held", "closed", "unknown", "schema"]
    fence: Fence | None = None
    lane: Lane | None = None
    owner: str = ""
    left_ms: int = 0


@value(frozen=True, slots=True)
class Renewed:
    """`renewed`, or `fenced` by another owner. `moved` says that the history changed."""

    word: Literal["renewed", "fenced"]
    depth: int = 0
    state: LaneState = LaneState.ACTIVE
    asks: int = 0
    moved: bool = False
    owner: str = ""
    epoch: int = 0


@value(frozen=True, slots=True)
class Taken:
    """A queued intent handed to the lane's owner."""

    intent: Intent
    life: str
    position: str
    at: int
    seal: str = ""
    digest: str = ""
    """Of an entry that a wake-up brought: the write-ahead compares it with what is queued. Empty: it was taken."""


@value(frozen=True, slots=True)
class WriteAhead:
    """One attempt to record. `deaths` proves, attempt name by attempt name, why a re-sign cannot pay twice."""

    id: IntentId
    life: str
    position: str
    attempt: Attempt
    deaths: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    counted: bool = False
    """Whether this re-sign counts against the limit (deaths by a neighbour or by expiry do not)."""
    digest: str = ""
    """Of an entry that nobody took, and that is recorded alone: refused unless the queued one is the same."""


@value(frozen=True, slots=True)
class Settlement:
    """One outcome to store. `deaths` is the evidence of a `failed` or `cancelled` after write-ahead."""

    id: IntentId
    life: str
    position: str
    outcome: Outcome
    deaths: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    final: Record | None = None
    """The record as it ends, but for its time: a store that holds home and lane retires it in the same step."""

    @classmethod
    def of(cls, record: Record, outcome: Outcome, deaths: Mapping[str, Mapping[str, Json]]) -> Settlement:
        """The end of a record, as its owner knows it."""
        return cls(record.id, record.life, record.position, outcome, deaths, record.ended(outcome, deaths))


@value(frozen=True, slots=True)
class Settled:
    """`settled` · `already` the same final state · `conflict` another final state stands · `refused` illegal from
    `status` · `gone` retired: by an earlier call of the same step, too."""

    word: Literal["settled", "already", "conflict", "refused", "gone"]
    status: str = ""
    at: int = 0
    """When it was settled, so that the owner knows the record exactly as it is stored."""
    retired: bool = False
    """Its home has the answer already, and the lane a tombstone."""


@value(frozen=True, slots=True)
class Landed:
    """Signed bytes that were seen in a final block."""

    nonce: int
    hash: str
    raw: bytes
    intent: str = ""
    """The intent they belong to; "" for a no-op that filled a gap."""


@value(frozen=True, slots=True)
class Route:
    """What a producer needs to know of a lane to route a new intent."""

    lane: str
    pool: str
    weight: int
    state: LaneState


@value(frozen=True, slots=True)
class Member:
    """A live worker and the lanes it is able to serve."""

    name: str
    lanes: frozenset[str]


@value(frozen=True, slots=True)
class Gone:
    """A final record that was retired before an archive had it: its home has the outcome, for the retention time."""

    id: IntentId
    life: str
    at: int
    """When it was retired."""


@value(frozen=True, slots=True)
class Backlog:
    """What an archive has to catch up with, the oldest first."""

    gone: tuple[Gone, ...] = ()
    lost: int = 0
    """How many were dropped since the archive began, because their homes had forgotten them, too."""


class Homes(Protocol):
    """One key, one intent: accepting, answering, and keeping what is final."""

    # -- home, then lane

    async def claim(self, claims: Sequence[Claim]) -> list[Claimed]: ...

    async def append(self, lane: str, entries: Sequence[Entry]) -> list[Appended]: ...

    def born_now(self) -> int | None:
        """The birth of what is asked of `accept` now: the store's clock, as far as it was heard. None where `accept` is
        not to be used: homes and lanes are apart, or the clock was not heard yet."""
        ...

    async def accept(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        """Claim new keys and append their intents, each in one step; nothing is written unless it was `appended`. A
        request that is older than an append may be is `stale`: an answer is kept for longer than that, so a late one
        never begins a second life."""
        ...

    async def move(self, id: IntentId, life: str, old_lane: str, new_lane: str) -> Claimed:
        """Give an open claim of a closed lane a new lane; only if life and lane are still the ones that were read."""
        ...

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> Claimed:
        """Let a caller's own key stand for another; `alias` with the target, `conflict`, or what was there."""
        ...

    async def read(self, id: IntentId) -> Record | None:
        """The newest answer there is, following an alias; None when the key was never accepted or is forgotten.

        An end that no chain shows (cancelled, refused) is told once it is durable: no failover may revoke it."""
        ...

    async def cancel(self, id: IntentId) -> Record:
        """A queued intent ends `cancelled`; an inflight one is marked, and its owner acts."""
        ...

    async def resolve(self, id: IntentId, directive: Mapping[str, Json]) -> Record:
        """Leave an operator's word on a held intent for the lane's owner to carry out."""
        ...

    async def reseal(self, record: Record, seal: str) -> bool:
        """Give a record that is held for its seal another one, and let it go on: to the end of the queue if it was
        set aside, in flight if something of it was signed. False when it is not held for that (any more)."""
        ...

    # -- final records: home, then lane

    async def unretired(self, lane: str, count: int) -> list[Record]:
        """Final records that may be retired. Where an archive is waited for, those that it has; and all of them once
        more wait than it allows."""
        ...

    async def retire(self, records: Sequence[Record]) -> int:
        """Copy final records to their homes for the retention time, durably; then correct their charges, durably; then
        leave tombstones in the lane, and answer how many. Where an archive is waited for, a record that it has not
        acknowledged stays; unless more of them wait than it allows: then it goes, and stands in the backlog."""
        ...

    async def shelve(self, record: IntentId, lane: str, error: str) -> None:
        """Leave a final record that nobody can process alone for an hour: it stays final, and others are retired."""
        ...

    async def shelved(self, lane: str) -> dict[str, str]:
        """What was shelved, with the exceptions."""
        ...

    async def sweep(self, home: int, older_than_ms: int = SWEEP_AFTER_MS) -> int:
        """Delete claims of one home that never got a record and retire what was left; answers how many went."""
        ...


class Archiving(Protocol):
    """What an archive needs: ended records that wait for it, and those that could not."""

    async def archive(self, lane: str, max_lag: int | None) -> None:
        """From now on final records of the lane keep their payload and are retired after they were acknowledged; at
        most `max_lag` wait. None: nothing waits any more, and the backlog is dropped."""
        ...

    async def unarchived(self, lane: str, count: int) -> list[Record]:
        """Final records that were not acknowledged, with their payload where it was kept."""
        ...

    async def acknowledge(self, lane: str, records: Sequence[tuple[IntentId, str]]) -> int:
        """An archive has these (id and life), durably. They need no payload any more, and may be retired."""
        ...

    async def backlog(self, lane: str, count: int) -> Backlog: ...


class LaneOwner(Protocol):
    """What the owner of a lane does. Every call with a fence raises `Fenced` once another owner has the lane."""

    @property
    def vouches(self) -> bool:
        """Whether acknowledged writes outlive whatever changes the history."""
        ...

    async def lease(self, lane: str, owner: str, token: str, lease_ms: int) -> Lease: ...

    async def renew(self, fences: Sequence[Fence], lease_ms: int) -> list[Renewed]: ...

    async def release(self, fence: Fence) -> bool: ...

    async def baseline(self, fence: Fence, cursor: int, *, operator: bool = False) -> int:
        """Set the cursor of a new lane (or, by an operator, raise it); answers the cursor that stands."""
        ...

    async def vouch(self, fence: Fence, stored: str, found: str) -> bool:
        """Accept a changed history after the worker decided that nothing was lost."""
        ...

    async def take(self, fence: Fence, count: int) -> list[Taken]: ...

    async def unfinished(self, fence: Fence) -> list[Record]: ...

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        """Write ahead, all or nothing, and move the cursor to just above the highest nonce; answers the cursor."""
        ...

    async def settle(self, fence: Fence, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        """Store outcomes, each once. Where one store holds home and lane, an end that brings its `final` record is
        retired in the same step, unless an archive waits for it or a budget has to be corrected first."""
        ...

    async def hold(self, fence: Fence, id: IntentId, life: str, reason: str, evidence: Mapping[str, Json]) -> bool: ...

    async def set_aside(self, fence: Fence, entry: Taken, reason: str, evidence: Mapping[str, Json]) -> bool:
        """Hold a queued intent of which nothing was signed, as the entry has it, and take the entry out of the queue.
        An entry that is not the record's own is taken out, and nothing else: False."""
        ...

    async def broke(self, fence: Fence, what: str, mark: str, error: str, forget_ms: int) -> int:
        """Count that an intent broke its owner (`what` names it), or the lane itself did (empty); answers how often.
        The same mark counts once, a take-over goes on counting, and `forget_ms` without a break starts anew."""
        ...

    async def answer(self, fence: Fence, id: IntentId, life: str) -> bool:
        """Clear the operator's directive on a record once it was carried out."""
        ...

    async def fill(
        self,
        fence: Fence,
        attempts: Sequence[Attempt] = (),
        done: Sequence[str] = (),
        landed: Sequence[Record] = (),
    ) -> list[Attempt]:
        """Write no-ops ahead for nonces below the cursor that belong to no intent, and forget those that are over (by
        attempt name); answers what stands, by nonce. It never moves the cursor. Where an archive is waited for, those
        of them that `landed` become final records in the same step, once, by the store's clock."""
        ...

    async def keep(self, fence: Fence, landed: Sequence[Landed], keep_ms: int, most_bytes: int) -> None:
        """Keep what is final for `keep_ms`, so that it can be sent again after a rollback past finality. The oldest go
        first when there are more than `most_bytes`, and all of them when the store is nearly full."""
        ...

    async def kept(self, lane: str, since: int = 0) -> list[Landed]:
        """What is kept at or above a nonce, by nonce; each transaction once."""
        ...


class LaneRegistry(Protocol):
    """Lanes and workers as everybody sees them, and what happened when."""

    async def now_ms(self) -> int:
        """By the store's clock."""
        ...

    async def register(self, spec: LaneSpec) -> Lane:
        """Publish a lane, or refresh what is published; one that was parked goes on where it stood. Raises `LaneClosed`
        for one that was closed."""
        ...

    async def schema(self) -> int:
        """Which formats this installation may write. A new one may write the newest."""
        ...

    async def check_upgrade(self) -> None:
        """Raise `NotAllowed` while a worker is alive that could not read the newest formats."""
        ...

    async def upgrade(self) -> list[str]:
        """An operator says that no older release runs beside this one: newer formats may be written. Answers the lanes
        that were raised by this call; raises as `check_upgrade` does."""
        ...

    async def admit_lane(self, owner: str, lane: str, most: int) -> bool:
        """Whether a caller may bring this lane into being, of which it may have `most`. Asked before `register`; a lane
        that was deleted since, or never came to be, is let go."""
        ...

    async def forget_lane(self, lane: str) -> None:
        """Delete a keyless lane that has no record, no number that may have been sent and none that is reserved; else
        `NotAllowed`. Its next number comes from the chain again."""
        ...

    async def park(self, fence: Fence, idle_ms: int) -> int:
        """Hand back a keyless lane that nobody used for so long, and take it out of the registry; its numbers stand.
        Answers 0, or after how many milliseconds it is worth asking again. A parked lane is `unknown` to `lease`, and
        hands out nothing until it is registered again."""
        ...

    async def set_lane(
        self,
        lane: str,
        state: LaneState,
        reason: str = "",
        evidence: Mapping[str, Json] | None = None,
        *,
        cause: StopCause | None = None,
        command: LaneCommand | None = None,
        fence: Fence | None = None,
        asks: int | None = None,
    ) -> Lane:
        """Move a lane to another state; with a fence only while that owner holds it. `reason` is shown and never acted
        on; a pause without a cause is an operator's. With `asks`, as the lane was read, only if nothing was asked of it
        since, or it stands so already; else `Outdated`."""
        ...

    async def routes(self, *, fresh: bool = False) -> list[Route]:
        """The registry: every lane that was ever registered, as producers see it: briefly stale at worst, unless
        `fresh`. Not to be changed: a ledger may answer the same list for as long as nothing changed in it."""
        ...

    async def parked(self) -> list[Route]:
        """Lanes that left the registry because nobody uses them. Not to be changed, as `routes`."""
        ...

    async def lanes(self, pool: str | None = None) -> list[Lane]:
        """Those of the registry: without the parked ones."""
        ...

    async def lane(self, lane: str) -> Lane | None:
        """Parked ones, too."""
        ...

    async def heartbeat(self, member: Member, ttl_ms: int) -> None: ...

    async def leave(self, name: str) -> None: ...

    async def members(self) -> list[Member]: ...

    async def events(self, lane: str, after: str = START, count: int = 100) -> list[Event]: ...

    # -- watchers: no fence, nothing of an intent is ever changed

    async def pending(self, lane: str) -> list[Record]:
        """Records that have attempts and no end, by nonce, as anybody may read them."""
        ...

    async def browse(self, lane: str, before: Mark | None, count: int) -> Browsed:
        """The newest records of a lane that are older than the mark: live ones, and those that ended and are not
        retired yet. Nothing that stays in the lane during the call is left out."""
        ...

    async def check(self, lane: str, name: str, alerts: Collection[Alert] = ()) -> bool:
        """Ask the lane's owner to compare with the chain; once for each `name`. False when there is no such lane."""
        ...


class Hints(Protocol):
    """Wake-ups. A hint may be lost and is never a promise: read again either way."""

    async def wait_wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        """Return the lanes that were appended to (or asked), or nothing when the time is over."""
        ...

    def heard(self, lane: str) -> Taken | None:
        """The entry that the lane's last wake-up carried, if it did: told once, right after `wait_wake`. Nothing
        vouches for it; only a write-ahead shows whether it is the oldest of the queue. Otherwise `take`."""
        ...

    async def wait_news(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        """Return the lanes in which intents were appended or ended since it was last asked, and those that it listens
        to only now; one listener for each client of the store. It takes no wake-up from `wait_wake`."""
        ...

    async def wait_final(self, lane: str, id: IntentId, timeout_s: float) -> Record | None:
        """Return when the intent may have become final, or when the time is over. The answer is the final record, if
        the hint carried one and a chain shows that end; it counts only for the life that the caller waits for.
        Otherwise read again."""
        ...


class Ledger(Homes, Archiving, LaneOwner, LaneRegistry, Hints, Numbers, Audits, Quotas, Sessions, Budgets, Protocol):
    """All parts, which every backend has. A store that is away raises `Unavailable`."""

    @property
    def mailbox(self) -> Mailbox:
        """Where webhook delivery keeps its places and dead letters."""
        ...

    async def close(self) -> None: ...
