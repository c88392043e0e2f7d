"""The numbers of a keyless lane in memory. Each function is one atomic step on a lane's store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from txmanager.core.errors import NotAllowed, NotFound, RolledBack
from txmanager.core.models import IntentId
from txmanager.core.reservations import (
    FORGET_AFTER_MS,
    WAIT_ALIVE_MS,
    Book,
    Cap,
    Recycled,
    Reservation,
    Reserved,
    Sent,
    Turn,
    Use,
    live,
)
from txmanager.core.states import LaneState

if TYPE_CHECKING:
    from txmanager.ledger.memory.lanes import LaneStore


@dataclass(frozen=True, slots=True)
class Held:
    """What one token holds; `till` is when something happens to it by itself."""

    state: Literal["waiting", "reserved", "sent", "over"]
    nonce: int
    at: int
    till: int
    sent: tuple[Sent, ...] = ()
    owner: str = ""
    """Whose cap it counts against."""


def taken(store: LaneStore, use: Use | None) -> Literal["unreserved", "used"] | None:
    """Why a number may not be used with this token, if so."""
    if not store.spec.keyless:
        return "unreserved" if use is not None else None
    held = store.held.get(use.token) if use is not None else None
    if use is None or held is None or held.nonce != use.nonce or held.state not in ("reserved", "sent"):
        return "unreserved"
    # A count that was seen may be taken back by a reorg: what was sent may be replaced until it is final.
    final = store.landed is not None and use.nonce <= store.landed
    return "used" if final or (held.state == "reserved" and _spent(store, use.nonce)) else None


def bind(store: LaneStore, use: Use, id: IntentId, now: int) -> None:
    held = store.held[use.token]
    sent = (*held.sent, Sent(use.hash, id))
    store.held[use.token] = replace(held, state="sent", till=now + FORGET_AFTER_MS, sent=sent)


def reserve(
    store: LaneStore,
    token: str,
    ttl_ms: int,
    chain: int | None,
    seed: int | None,
    now: int,
    found: str,
    cap: Cap | None = None,
) -> Reserved:
    held = store.held.get(token)
    if held is not None:
        if held.state == "reserved":
            return Reserved("reserved", held.nonce, held.till)
        return Reserved("sent", held.nonce) if held.state == "sent" else Reserved("over")
    if (state := _stopped(store, found)) is not None:
        return Reserved("refused", state=state)
    if store.cursor is None and seed is None:
        return Reserved("cold")
    expire(store, now)
    if _has_all(store, token, cap):
        return Reserved("many")
    nonce, skipped = _hand_out(store, chain, seed, now)
    store.held[token] = Held("reserved", nonce, now, now + ttl_ms, owner=cap.owner if cap else "")
    return Reserved("reserved", nonce, now + ttl_ms, skipped)


def turn(
    store: LaneStore,
    token: str,
    ttl_ms: int,
    chain: int | None,
    seed: int | None,
    now: int,
    found: str,
    cap: Cap | None = None,
) -> Turn:
    held = store.held.get(token)
    if held is not None and held.state != "waiting":
        if held.state == "reserved" and store.turn == token:
            return Turn("granted", held.nonce, store.turn_fence, held.till)
        return Turn("sent", held.nonce) if held.state == "sent" else Turn("over")
    if (state := _stopped(store, found)) is not None:
        return Turn("refused", state=state)
    if store.cursor is None and seed is None:
        return Turn("cold")
    expire(store, now)
    if _has_all(store, token, cap):
        return Turn("many")
    owner = cap.owner if cap else ""
    if token not in store.line:
        store.tickets += 1
        store.line[token] = store.tickets
    ahead = sum(ticket < store.line[token] for ticket in store.line.values()) + bool(store.turn)
    if ahead:
        store.held[token] = Held("waiting", -1, now, now + WAIT_ALIVE_MS, owner=owner)
        return Turn("waiting", ahead=ahead)
    nonce, skipped = _hand_out(store, chain, seed, now)
    store.held[token] = Held("reserved", nonce, now, now + ttl_ms, owner=owner)
    del store.line[token]
    store.turn, store.turn_until = token, now + ttl_ms
    store.turn_fence += 1
    return Turn("granted", nonce, store.turn_fence, now + ttl_ms, skipped=skipped)


def _has_all(store: LaneStore, token: str, cap: Cap | None) -> bool:
    if cap is None:
        return False
    held = [t for t, h in store.held.items() if h.owner == cap.owner and h.state in ("reserved", "waiting")]
    return token not in held and len(held) >= cap.most


def recycle(store: LaneStore, token: str, now: int, *, unlock: bool = False) -> Recycled:
    held = store.held.get(token)
    if held is None or held.state == "over":
        return Recycled("over")
    if held.state == "waiting":
        if not unlock:
            return Recycled("over")
        _over(store, token, now)
        return Recycled("recycled")
    if unlock and store.turn != token:
        return Recycled("over")
    if held.state == "sent":
        if unlock:
            store.turn = ""
        return Recycled("sent", held.nonce)
    _free(store, held.nonce)
    _over(store, token, now)
    return Recycled("recycled", held.nonce, gap=held.nonce + 1 != store.cursor)


def expire(store: LaneStore, now: int) -> int:
    moved = 0
    if store.turn and store.turn_until <= now:
        store.turn = ""
    for token, held in [(t, h) for t, h in store.held.items() if h.till <= now]:
        if held.state == "reserved":
            _free(store, held.nonce)
            _over(store, token, now)
            moved += 1
        elif held.state == "sent" and (store.landed is None or held.nonce > store.landed):
            store.held[token] = replace(held, till=now + FORGET_AFTER_MS)
        else:
            del store.held[token]
            store.line.pop(token, None)
    return moved


def reclaim(store: LaneStore, chain: int, nonces: Sequence[int]) -> int:
    live = {h.nonce for h in store.held.values() if h.state in ("reserved", "sent")}
    store.floor = chain
    found = {n for n in nonces if n < (store.cursor or 0) and n not in live and not _spent(store, n)} - store.reuse
    store.reuse |= found
    return len(found)


def book(store: LaneStore, now: int) -> Book:
    _keyless(store)
    found = [
        Reservation(token, h.nonce, h.state, h.at, h.till if h.state == "reserved" else 0, h.sent)
        for token, h in store.held.items()
        if h.state in ("reserved", "sent")
    ]
    return Book(
        next_nonce=store.cursor,
        chain_nonce=store.floor or 0,
        reserved=live(found),
        reuse=tuple(sorted(store.reuse)),
        holder=store.turn,
        waiting=len(store.line),
        checked_at=store.checked,
        at=now,
    )


def _stopped(store: LaneStore, found: str) -> str | None:
    """The state in which nothing is handed out."""
    if store.parked:
        raise NotFound(f"no lane {store.spec.id}")
    _keyless(store)
    if store.history_id != found:
        raise RolledBack(store.spec.id, store.history_id, found)
    return None if store.state in (LaneState.ACTIVE, LaneState.PAUSED) else store.state.value


def _keyless(store: LaneStore) -> None:
    if not store.spec.keyless:
        raise NotAllowed(f"lane {store.spec.id} signs by itself; it hands out no numbers")


def _hand_out(store: LaneStore, chain: int | None, seed: int | None, now: int) -> tuple[int, int]:
    """The lowest number to be reused, else the counter's; and how many the chain has skipped."""
    skipped, was = 0, store.cursor
    store.used = now
    if store.cursor is None:
        store.cursor = seed
    assert store.cursor is not None
    if chain is not None:
        store.floor = max(chain, store.floor or 0)
        if store.cursor < chain:
            skipped = chain - was if was is not None else 0
            store.cursor = chain
    store.reuse = {nonce for nonce in store.reuse if not _spent(store, nonce)}
    if store.reuse:
        nonce = min(store.reuse)
        store.reuse.remove(nonce)
        return nonce, skipped
    store.cursor += 1
    return store.cursor - 1, skipped


def _spent(store: LaneStore, nonce: int) -> bool:
    below_floor = store.floor is not None and nonce < store.floor
    return below_floor or (store.landed is not None and nonce <= store.landed)


def _free(store: LaneStore, nonce: int) -> None:
    if not _spent(store, nonce):
        store.reuse.add(nonce)


def _over(store: LaneStore, token: str, now: int) -> None:
    store.held[token] = replace(store.held[token], state="over", till=now + FORGET_AFTER_MS)
    store.line.pop(token, None)
    if store.turn == token:
        store.turn = ""
