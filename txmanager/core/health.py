"""How an EVM lane stands against its chain: a pure function from what was read to one `Health`.

Read the lane first, then its records, then the chain, then the lane again: every number below the first cursor then has
a record, is settled, or belongs to nobody; and a chain beyond the second cursor was moved by somebody else. A node that
lags may hide what happened; it never makes a number look used that is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from txmanager.core.alerts import Alert
from txmanager.core.models import Attempt, Json, Lane, Record
from txmanager.core.reservations import Book
from txmanager.core.states import LaneState


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is an alert. Times are milliseconds."""

    stuck_after_ms: int = 300_000
    overdue_after_ms: int = 1_800_000
    dropped_after_ms: int = 10_000
    """Bytes younger than this may be on their way to the node that was asked."""
    drift: int = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """What the nodes of a network say of one address, the newest of each."""

    latest: int
    """The next nonce after the newest block."""
    balance: int
    height: int
    pool: int | None = None
    """The next nonce after what the pools would mine; None where nodes do not tell."""
    known: frozenset[str] = frozenset()
    """Which of the hashes that were asked for some node has, in a block or in its pool."""
    asked: frozenset[str] | None = None
    """Which hashes were asked for; None: all of them. Of others nothing is known."""


class Reader(Protocol):
    """A chain for somebody without keys."""

    async def read(self, lane: str, hashes: Sequence[str]) -> Reading:
        """Raises `Unavailable` when no node answers."""
        ...


@dataclass(frozen=True, slots=True)
class Tracked:
    """One nonce in flight: its newest transaction."""

    nonce: int
    hash: str
    fee: str
    submitted_at: int
    """When the first transaction at this nonce was signed."""
    newest_at: int
    hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Health:
    lane: str
    tracked_nonce: int
    """The next number that the lane hands out."""
    chain_nonce: int
    pool_nonce: int | None
    pending: tuple[Tracked, ...]
    """Not in a block yet, by nonce."""
    gaps: tuple[int, ...]
    balance: int
    oldest_pending_ms: int
    alerts: Mapping[Alert, Mapping[str, Json]] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        return not self.alerts

    @property
    def waits_for(self) -> int | None:
        """The lowest nonce in flight."""
        return self.pending[0].nonce if self.pending else None


def hashes_of(records: Sequence[Record], latest: int = 0) -> list[str]:
    """What to ask nodes about: every attempt that may land, from a nonce on."""
    return [attempt.hash for record in records for attempt in record.live if attempt.nonce >= latest]


def health(
    lane: Lane,
    records: Sequence[Record],
    reading: Reading,
    limits: Limits,
    now: int,
    *,
    cursor: int | None = None,
    since: int = 0,
    book: Book | None = None,
) -> Health:
    """`cursor` is the lane's as read after the chain; `since` is when the lowest nonce in flight became the lowest, as
    far as the caller knows; `book` belongs to a keyless lane."""
    known = lane.cursor if book is None else book.next_nonce
    if known is None:  # never used here: whatever the address did before is its own business
        before, after = reading.latest, max(reading.latest, reading.pool or 0)
    else:
        before, after = known, max(known, cursor or 0)
    tracked = _tracked(records)
    pending = tuple(t for t in tracked if t.nonce >= reading.latest)
    gaps = _gaps(lane, before, tracked, reading) if book is None else _to_reuse(book, reading)
    alerts: dict[Alert, Mapping[str, Json]] = {}
    if pending:
        alerts |= _late(pending[0], max(pending[0].submitted_at, since), limits, now)
        if lost := [t for t in pending if _unknown(t, reading) and now - t.newest_at >= limits.dropped_after_ms]:
            alerts[Alert.DROPPED] = {"nonces": [str(t.nonce) for t in lost], "hash": lost[0].hash}
    if gaps:
        alerts[Alert.GAP] = {"nonces": [str(n) for n in gaps[:16]], "count": len(gaps)}
    if drift := _drift(lane, before, reading, limits):
        alerts[Alert.DRIFT] = drift
    if foreign := _foreign(after, tracked, reading, limits, now):
        alerts[Alert.FOREIGN] = foreign
    if lane.state in (LaneState.PAUSED, LaneState.QUARANTINED):
        alerts[Alert.STOPPED] = {"state": lane.state.value, "reason": lane.reason}
    if lane.depth and not lane.lease_ms and lane.state is not LaneState.CLOSED:
        alerts[Alert.UNOWNED] = {"waiting": lane.depth}
    return Health(
        lane=lane.id,
        tracked_nonce=after,
        chain_nonce=reading.latest,
        pool_nonce=reading.pool,
        pending=pending,
        gaps=gaps,
        balance=reading.balance,
        oldest_pending_ms=max((now - t.submitted_at for t in pending), default=0),
        alerts=alerts,
    )


def _tracked(records: Sequence[Record]) -> list[Tracked]:
    by_nonce: dict[int, list[Attempt]] = {}
    for record in records:
        for attempt in record.live:
            by_nonce.setdefault(attempt.nonce, []).append(attempt)
    found = []
    for nonce, attempts in sorted(by_nonce.items()):
        first, newest = (pick(attempts, key=lambda a: a.signed_at) for pick in (min, max))
        fee = str(newest.terms.get("max_fee_per_gas", ""))
        hashes = tuple(a.hash for a in attempts)
        found.append(Tracked(nonce, newest.hash, fee, first.signed_at, newest.signed_at, hashes))
    return found


def _gaps(lane: Lane, cursor: int, tracked: Sequence[Tracked], reading: Reading) -> tuple[int, ...]:
    """Signing lanes: below the cursor, above what was settled and what the chain has, and of no record."""
    owned = {t.nonce for t in tracked}
    first = max(reading.latest, (lane.landed if lane.landed is not None else -1) + 1)
    return tuple(n for n in range(first, cursor) if n not in owned)


def _to_reuse(book: Book, reading: Reading) -> tuple[int, ...]:
    return tuple(n for n in book.gaps if n >= reading.latest)


def _unknown(one: Tracked, reading: Reading) -> bool:
    if reading.asked is not None and not reading.asked.issuperset(one.hashes):
        return False
    return not any(hash in reading.known for hash in one.hashes)


def _late(lowest: Tracked, since: int, limits: Limits, now: int) -> dict[Alert, Mapping[str, Json]]:
    age = now - since
    evidence: dict[str, Json] = {"nonce": str(lowest.nonce), "hash": lowest.hash, "age_s": age // 1000}
    evidence["max_fee_per_gas"] = lowest.fee
    if age >= limits.overdue_after_ms:
        return {Alert.STUCK: evidence, Alert.OVERDUE: evidence}
    return {Alert.STUCK: evidence} if age >= limits.stuck_after_ms else {}


def _drift(lane: Lane, cursor: int, reading: Reading, limits: Limits) -> dict[str, Json] | None:
    back = lane.landed is not None and reading.latest <= lane.landed
    if not back and cursor - reading.latest <= limits.drift:
        return None
    return {"cursor": str(cursor), "chain_nonce": str(reading.latest), "landed": str(lane.landed)}


def _foreign(
    cursor: int, tracked: Sequence[Tracked], reading: Reading, limits: Limits, now: int
) -> dict[str, Json] | None:
    top = max(reading.latest, reading.pool or 0)
    if top > cursor:
        return {"chain_nonce": str(reading.latest), "pool_nonce": str(reading.pool), "cursor": str(cursor)}
    for one in tracked:
        used = one.nonce < reading.latest and now - one.newest_at >= limits.dropped_after_ms
        if used and _unknown(one, reading):
            return {"nonce": str(one.nonce), "hash": one.hash, "chain_nonce": str(reading.latest)}
    return None
