"""Numbers of addresses whose key the caller holds: handed out one by one, each to one owner, none twice.

A keyless lane has a counter (its cursor), a list of numbers to hand out again, and reservations known by a random
token that the caller chose: a repeated call with the same token gets the same answer. A reservation that may have been
sent is never handed out again; one that was not is, after its owner gave it back or its time was over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from txmanager.core.errors import InvalidInput
from txmanager.core.models import Fence, IntentId

DEFAULT_TENANT = "default"
FORGET_AFTER_MS = 600_000
"""How long a token that is over is remembered, so that a late duplicate is no new one. Every ledger knows it."""
WAIT_ALIVE_MS = 10_000
"""Whoever waits for a turn asks again within this time, or loses the place in the line."""
RECLAIMED_AT_ONCE = 1_000
NONCE_LIMIT = 2**63 - 1
"""What a server counts exactly; no account will ever get there."""


@dataclass(frozen=True, slots=True)
class Use:
    """A reservation that an entry uses up: bound to the hash in the same step that accepts the bytes."""

    token: str
    nonce: int
    hash: str


@dataclass(frozen=True, slots=True)
class Cap:
    """How many numbers and places in line an owner may have on one lane, unsent."""

    owner: str
    most: int


def owned_token(tenant: str, token: str) -> str:
    """A caller's token as the ledger knows it: two tenants may choose the same one. No caller's token has a space.
    Those of the default tenant are kept as release 0.1.0 keeps them."""
    if " " in token:
        raise InvalidInput("reservation", "must be visible ASCII characters without spaces")
    return token if tenant == DEFAULT_TENANT else f"{tenant} {token}"


def tenant_of(token: str) -> str:
    return token.rpartition(" ")[0] or DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Reserved:
    """`reserved` (a repeat included) · `sent` by this token before · `over` expired or given back: take a new token ·
    `cold` ask again with the chain's count · `refused` the lane hands out nothing (see `state`) · `many` its owner has
    as many as it may."""

    word: Literal["reserved", "sent", "over", "cold", "refused", "many"]
    nonce: int | None = None
    until: int = 0
    """When it expires unless it is used, by the server's clock; 0 once it was sent."""
    skipped: int = 0
    """How many numbers somebody else used on chain since the last reservation: the key is used elsewhere, too."""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """`granted` with its number and fence · `waiting` behind `ahead` others · the rest as for `Reserved`."""

    word: Literal["granted", "waiting", "sent", "over", "cold", "refused", "many"]
    nonce: int | None = None
    fence: int = 0
    """Grows with each grant."""
    until: int = 0
    ahead: int = 0
    skipped: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class Recycled:
    """`recycled` · `sent` the bytes may land: nothing changed · `over` not this token's any more: nothing changed."""

    word: Literal["recycled", "sent", "over"]
    nonce: int | None = None
    gap: bool = False
    """Higher numbers are out: nothing of them lands before this one is used."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One transaction at a reserved number."""

    hash: str
    id: IntentId


@dataclass(frozen=True, slots=True)
class Reservation:
    token: str
    nonce: int
    state: Literal["reserved", "sent"]
    at: int
    until: int
    sent: tuple[Sent, ...] = ()
    """Oldest first; any of them may land."""

    @property
    def tenant(self) -> str:
        return tenant_of(self.token)


@dataclass(frozen=True, slots=True)
class Book:
    """Everything that is known of a keyless lane's numbers, read in one step."""

    next_nonce: int | None = None
    """What the next reservation gets when nothing is to be handed out again; None before the first one."""
    chain_nonce: int = 0
    """The highest count the chain was seen at: numbers below are used."""
    reserved: tuple[Reservation, ...] = ()
    """Live ones by number: handed out and not known to be used on chain."""
    reuse: tuple[int, ...] = ()
    """To be handed out again, lowest first."""
    holder: str = ""
    """The token whose turn it is."""
    waiting: int = 0
    checked_at: int = 0
    """When the lane was last compared with the chain."""
    at: int = 0
    """The server's clock at this read."""

    def unowned(self, chain_nonce: int) -> list[int]:
        """Numbers below the next one that the chain has not used, nobody holds and nobody would be given."""
        owned = {r.nonce for r in self.reserved} | set(self.reuse)
        return [n for n in range(chain_nonce, self.next_nonce or 0) if n not in owned][:RECLAIMED_AT_ONCE]

    @property
    def gaps(self) -> list[int]:
        """Numbers that nothing was sent for and nobody holds, below some that were sent: those wait for them."""
        top = max((r.nonce for r in self.reserved if r.state == "sent"), default=-1)
        lapsed = [r.nonce for r in self.reserved if r.state == "reserved" and r.until <= self.at]
        return sorted(nonce for nonce in (*self.reuse, *lapsed) if nonce < top)


class Numbers(Protocol):
    """What every backend does for keyless lanes. A lane that is not keyless raises `NotAllowed`, none `NotFound`."""

    async def reserve(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Reserved:
        """Hand out the lowest number to be reused, else the next one. `chain_nonce` is the chain's count: it raises
        the counter and never lowers it. `seed` starts a counter that was never used (never below `chain_nonce`).
        With `cap` its owner has no more of them than that at once."""
        ...

    async def recycle(self, lane: str, token: str) -> Recycled:
        """Give a number back that was not sent. Whoever was refused holds nothing any more."""
        ...

    async def turn(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Turn:
        """Stand in line, or ask again from the same place; the first in line gets the turn with a reserved number."""
        ...

    async def unlock(self, lane: str, token: str) -> Recycled:
        """End a turn (or leave the line); a number that was not sent goes back. `sent` ends the turn as well."""
        ...

    async def expire(self, lane: str) -> int:
        """Take back what expired unused; answers how many numbers went to the reuse list. `reserve` does it, too."""
        ...

    async def reclaim(self, fence: Fence, chain_nonce: int, nonces: Sequence[int]) -> int:
        """On an operator's word: believe the chain's count even if it is lower than before, and hand out again those of
        the numbers that nobody holds; answers how many. The counter stays."""
        ...

    async def book(self, lane: str) -> Book: ...

    async def checked(self, lane: str) -> None:
        """Note that the lane was compared with the chain now."""
        ...


def live(reservations: Sequence[Reservation]) -> tuple[Reservation, ...]:
    return tuple(sorted(reservations, key=lambda r: (r.nonce, r.at, r.token)))
