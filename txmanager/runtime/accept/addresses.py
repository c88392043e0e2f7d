"""What was sent at which number, and how an address stands: the nonce service's view of records, book and chain.

Nothing here is stored twice: a tracking record is read from the intent's own record, so it cannot disagree with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from txmanager.core.errors import Busy, NotFound, Unavailable
from txmanager.core.health import Limits, Reading, health
from txmanager.core.ledger import Ledger
from txmanager.core.models import Record
from txmanager.core.reservations import Book
from txmanager.runtime.accept.nonces import NonceDesk, Nonces

TrackStatus = Literal["pending", "confirmed", "dropped"]


@dataclass(frozen=True, slots=True)
class TrackingRecord:
    """One transaction. `dropped` can never land: other bytes used its number, or nothing of it was ever sent."""

    hash: str
    sender: str
    network: str
    nonce: int
    gas_price: int
    submitted_at: int
    status: TrackStatus
    checked_at: int
    """When its lane was last compared with the chain, or its end was stored; 0 before that."""


@dataclass(frozen=True, slots=True)
class AddressHealth:
    address: str
    tracked_nonce: int | None
    """The next number; None before the first one."""
    chain_nonce: int | None
    """None while no node answers."""
    pending: tuple[TrackingRecord, ...]
    reserved: int
    """Numbers that are out and not sent yet."""
    gaps: tuple[int, ...]
    """Numbers below the next one that belong to nobody, as a monitor sees them."""
    oldest_pending_ms: int
    lane_state: str
    keyless: bool


def tracking_record(record: Record, desk: NonceDesk, checked_at: int = 0) -> TrackingRecord:
    """The tracking record of an `evm.raw` intent."""
    sender = record.lane.rpartition(":")[2]
    if record.attempts:
        attempt = record.attempts[-1]
        hash, nonce, price = attempt.hash, attempt.nonce, int(str(attempt.terms.get("max_fee_per_gas", "0")))
    else:
        hash, nonce, price = record.id.key.partition(":")[2], 0, 0
        if "raw" in record.intent.payload:
            given = desk.chain.read(record.intent.payload["raw"])
            hash, nonce, price = given.hash, given.nonce, given.max_fee
    status: TrackStatus = "pending"
    if record.status.final:
        landed = record.outcome is not None and record.outcome.tx_hash is not None
        status, checked_at = "confirmed" if landed else "dropped", record.updated_at
    return TrackingRecord(hash, sender, desk.network, nonce, price, record.created_at, status, checked_at)


class Addresses:
    def __init__(self, ledger: Ledger, nonces: Nonces) -> None:
        self._ledger = ledger
        self._nonces = nonces

    async def tracking_records(
        self, desk: NonceDesk, lane: str, book: Book | None = None, sees: Callable[[str], bool] = lambda _: True
    ) -> list[TrackingRecord]:
        """Every transaction of a keyless lane that is pending, or ended a few minutes ago; by number, then age."""
        book = book or await self._ledger.book(lane)
        ids = [(r.nonce, sent.id) for r in book.reserved for sent in r.sent if sees(sent.id.tenant)]
        records = await asyncio.gather(*(self._ledger.read(id) for _, id in ids))
        return [tracking_record(record, desk, book.checked_at) for record in records if record is not None]

    async def health(
        self, network: object, address: object, sees: Callable[[str], bool] = lambda _: True
    ) -> AddressHealth:
        """Of any address that has a lane; `NotFound` where there is none yet. Transactions and reservations are
        those of the tenants that the caller `sees`; numbers are of the address."""
        desk = self._nonces.desk(network)
        named = desk.chain.address("address", address)
        lane = await self._ledger.lane(desk.chain.lane(named))
        if lane is None:
            raise NotFound(f"{named} has no lane on {desk.network} yet: nothing was reserved or signed")
        book, records, reserved = None, list[Record](), 0
        if lane.keyless:
            book = await self._ledger.book(lane.id)
            found = await self.tracking_records(desk, lane.id, book, sees)
            pending = tuple(one for one in found if one.status == "pending")
            reserved = sum(r.state == "reserved" and r.until > book.at and sees(r.tenant) for r in book.reserved)
            now = book.at
        else:
            records = await self._ledger.pending(lane.id)
            pending = tuple(tracking_record(record, desk) for record in records if sees(record.id.tenant))
            now = await self._ledger.now_ms()
        chain = await self._chain(desk, named)  # after the records: see `core.health` for why in this order
        remembered = book.chain_nonce if book is not None else None
        gaps: tuple[int, ...] = ()
        if (used := chain if chain is not None else remembered) is not None:
            gaps = health(lane, records, Reading(used, balance=0, height=0), Limits(), now, book=book).gaps
        oldest = max((now - one.submitted_at for one in pending), default=0)
        return AddressHealth(
            named, lane.cursor, chain, pending, reserved, gaps, max(0, oldest), lane.state.value, lane.keyless
        )

    async def _chain(self, desk: NonceDesk, address: str) -> int | None:
        try:
            return (await self._nonces.count(desk, address, fresh=True))[0]
        except (Unavailable, Busy):
            return None
