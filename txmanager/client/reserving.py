"""Numbers that give themselves back: `with client.reserve(...) as number`, and signing again after a conflict.

A number goes back only when nothing was sent with it. Once a send was tried, its bytes may be on their way whatever
the call said, so the number is left to the ledger; only a refusal that says "not accepted" makes it free again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from txmanager.client.errors import ClientError, InvalidRequest, NonceConflict, NotPermitted
from txmanager.client.nonce_calls import Number, Tracking

if TYPE_CHECKING:
    from txmanager.client.aio import AsyncClient
    from txmanager.client.blocking import Client

Signed = str | bytes
_NOT_ACCEPTED = (InvalidRequest, NotPermitted)


@dataclass(slots=True)
class _Held:
    """A number in hand, and whether anything may have been sent with it."""

    number: Number
    tried: bool = False
    sent: list[Tracking] = field(default_factory=list)

    @property
    def nonce(self) -> int:
        return self.number.nonce

    @property
    def unused(self) -> bool:
        return not self.tried and not self.sent


@dataclass(slots=True)
class Reservation(_Held):
    client: Client | None = None

    def send(self, signed: Signed, metadata: Mapping[str, Any] | None = None) -> Tracking:
        """Send bytes signed with `nonce`; again, with other bytes, to replace what does not land."""
        assert self.client is not None
        number, before, self.tried = self.number, self.tried, True
        try:
            self.sent.append(self.client.send_raw(signed, number.network_id, number.reservation, metadata=metadata))
        except _NOT_ACCEPTED:
            self.tried = before
            raise
        return self.sent[-1]


@dataclass(slots=True)
class AsyncReservation(_Held):
    client: AsyncClient | None = None

    async def send(self, signed: Signed, metadata: Mapping[str, Any] | None = None) -> Tracking:
        assert self.client is not None
        number, before, self.tried = self.number, self.tried, True
        try:
            self.sent.append(
                await self.client.send_raw(signed, number.network_id, number.reservation, metadata=metadata)
            )
        except _NOT_ACCEPTED:
            self.tried = before
            raise
        return self.sent[-1]


@contextmanager
def reserved(client: Client, address: str, network_id: str | int, ttl_s: int | None) -> Iterator[Reservation]:
    held = Reservation(client.reserve_nonce(address, network_id, ttl_s=ttl_s), client=client)
    try:
        yield held
    finally:
        if held.unused:
            with suppress(ClientError):  # what cannot be given back now expires by itself
                client.recycle_nonce(address, network_id, held.number.reservation)


@contextmanager
def in_turn(
    client: Client, address: str, network_id: str | int, ttl_s: int | None, wait_s: float
) -> Iterator[Reservation]:
    held = Reservation(client.lock_nonce(address, network_id, ttl_s=ttl_s, wait_s=wait_s), client=client)
    try:
        yield held
    finally:
        with suppress(ClientError):  # the ledger knows what was sent; a turn that is over is over
            client.unlock_nonce(address, network_id, held.number.reservation)


@asynccontextmanager
async def areserved(
    client: AsyncClient, address: str, network_id: str | int, ttl_s: int | None
) -> AsyncIterator[AsyncReservation]:
    held = AsyncReservation(await client.reserve_nonce(address, network_id, ttl_s=ttl_s), client=client)
    try:
        yield held
    finally:
        if held.unused:
            with suppress(ClientError):
                await client.recycle_nonce(address, network_id, held.number.reservation)


@asynccontextmanager
async def ain_turn(
    client: AsyncClient, address: str, network_id: str | int, ttl_s: int | None, wait_s: float
) -> AsyncIterator[AsyncReservation]:
    held = AsyncReservation(await client.lock_nonce(address, network_id, ttl_s=ttl_s, wait_s=wait_s), client=client)
    try:
        yield held
    finally:
        with suppress(ClientError):
            await client.unlock_nonce(address, network_id, held.number.reservation)


def send_signed(
    client: Client, address: str, network_id: str | int, sign: Callable[[int], Signed], tries: int, ttl_s: int | None
) -> Tracking:
    """Reserve, sign, send; after a conflict all three again, at most `tries` times."""
    while True:
        tries -= 1
        try:
            with reserved(client, address, network_id, ttl_s) as held:
                return held.send(sign(held.nonce))
        except NonceConflict as conflict:
            if tries < 1 or not conflict.should_retry:
                raise


async def asend_signed(
    client: AsyncClient,
    address: str,
    network_id: str | int,
    sign: Callable[[int], Signed | Awaitable[Signed]],
    tries: int,
    ttl_s: int | None,
) -> Tracking:
    while True:
        tries -= 1
        try:
            async with areserved(client, address, network_id, ttl_s) as held:
                signed = sign(held.nonce)
                return await held.send(await signed if isawaitable(signed) else signed)
        except NonceConflict as conflict:
            if tries < 1 or not conflict.should_retry:
                raise
