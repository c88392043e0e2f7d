"""The nonce service: numbers for callers who sign themselves, and their bytes on the way to the lane that sends them.

A number is reserved in the ledger, in one step, before anybody knows it; the chain's count only ever raises the
counter. Where the chain is away, an address that was used before goes on from its counter, and a new one waits.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from txmanager.core.errors import (
    Busy,
    InvalidInput,
    LaneClosed,
    NoLane,
    NonceConflict,
    NotAllowed,
    NotFound,
    PolicyRefused,
    ReservationOver,
    TooManyHeld,
    TurnTaken,
    TxManagerError,
    Unavailable,
    Unconfirmed,
)
from txmanager.core.given import RAW_KEY, Counter, Given
from txmanager.core.ledger import Ledger
from txmanager.core.models import IntentId, Json, LaneSpec, new_intent
from txmanager.core.quotas import Share
from txmanager.core.reservations import DEFAULT_TENANT, Cap, Recycled, Reserved, Turn, Use, owned_token
from txmanager.core.states import LaneState
from txmanager.runtime.accept.producer import Producer, Submitted

T = TypeVar("T")
_FRESH_S = 0.5
"""How long a count of the chain is good enough: it may only raise the counter, and rarely does."""
_POLL_S = 0.1
_CHAIN_WITHIN_S = 3.0


@dataclass(frozen=True, slots=True)
class KeylessPool:
    name: str
    addresses: frozenset[str]
    any_address: bool
    reserve_for_ms: int
    queue_limit: int = 1_000_000
    max_value: int | None = None

    def spec(self, lane: str) -> LaneSpec:
        """Weight 0: the router never sends an intent there by itself."""
        return LaneSpec(lane, self.name, weight=0, queue_limit=self.queue_limit, keyless=True)


@dataclass(frozen=True, slots=True)
class NonceDesk:
    """One network: what counts and reads for it, and whose addresses are served."""

    network: str
    chain: Counter
    pools: tuple[KeylessPool, ...] = ()
    signing: frozenset[str] = frozenset()
    """Pools that sign for their callers."""

    def pool_of(self, address: str) -> KeylessPool | None:
        listed = next((pool for pool in self.pools if address in pool.addresses), None)
        return listed or next((pool for pool in self.pools if pool.any_address), None)


@dataclass(frozen=True, slots=True)
class Place:
    """An address on a network, and the lane that its numbers live in."""

    desk: NonceDesk
    address: str
    pool: KeylessPool
    lane: str = field(init=False)
    tenant: str = DEFAULT_TENANT
    """Whose reservations are meant: tokens of two tenants never meet."""
    cap: Cap | None = None
    """How many numbers its caller may have here unsent."""
    max_lanes: int | None = None
    """How many lanes its caller may bring into being, where any address is served."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lane", self.desk.chain.lane(self.address))

    def owned(self, token: str) -> str:
        return owned_token(self.tenant, token)


class Nonces:
    def __init__(
        self, ledger: Ledger, producer: Producer, desks: Mapping[str, NonceDesk], patience_s: float = 0.7
    ) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._producer = producer
        self._desks = {**{str(desk.chain.chain_id): desk for desk in desks.values()}, **desks}
        self._names = sorted(desks)
        self._counts: dict[str, tuple[float, tuple[int, int]]] = {}
        self._asking: dict[str, asyncio.Task[tuple[int, int]]] = {}
        self._log = structlog.get_logger("nonces")

    # -- where

    def desk(self, network: object) -> NonceDesk:
        desk = self._desks.get(str(network)) if isinstance(network, str | int) else None
        if desk is None:
            known = ", ".join(self._names) or "none"
            raise InvalidInput("networkId", f"must be a network's name or its chain id; there are: {known}")
        return desk

    def place(self, network: object, address: object) -> Place:
        desk = self.desk(network)
        named = desk.chain.address("address", address)
        pool = desk.pool_of(named)
        if pool is None:
            raise InvalidInput(
                "address",
                f"{named} is not served on {desk.network}: list it in `keyless` of a pool, if its key is yours",
            )
        return Place(desk, named, pool)

    # -- numbers

    async def reserve(self, place: Place, token: str | None = None, ttl_ms: int | None = None) -> tuple[str, Reserved]:
        """(token, what it got). Without a token this makes one up; with one, a retry gets the same number."""
        token, ttl = token or new_token(), ttl_ms or place.pool.reserve_for_ms
        latest, seed = await self._counted(place)
        answer = await self._known(
            place, lambda: self._ledger.reserve(place.lane, place.owned(token), ttl, latest, seed, place.cap)
        )
        self._check(place, answer)
        return token, answer

    async def recycle(self, place: Place, token: str) -> Recycled:
        answer = await self.within(self._ledger.recycle(place.lane, place.owned(token)))
        if answer.word == "over":
            raise ReservationOver("this reservation was given back, expired or never was; nothing changed")
        if answer.word == "sent":
            raise NotAllowed(f"bytes at nonce {answer.nonce} were accepted and may land: it is never handed out again")
        return answer

    async def lock(
        self, place: Place, token: str | None = None, ttl_ms: int | None = None, wait_s: float = 0.0
    ) -> tuple[str, Turn]:
        """Wait for the turn, in line; whoever gives up loses the place after a while."""
        token, ttl = token or new_token(), ttl_ms or place.pool.reserve_for_ms
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            answer = await self._turn(place, token, ttl)
            if answer.word != "waiting":
                self._check(place, answer)
                return token, answer
            if loop.time() + _POLL_S > until:
                raise TurnTaken(place.lane, token, answer.ahead)
            await asyncio.sleep(_POLL_S)

    async def _turn(self, place: Place, token: str, ttl_ms: int) -> Turn:
        latest, seed = await self._counted(place)
        return await self._known(
            place, lambda: self._ledger.turn(place.lane, place.owned(token), ttl_ms, latest, seed, place.cap)
        )

    async def _known(self, place: Place, ask: Callable[[], Awaitable[T]]) -> T:
        """Of a lane that comes into being with its first number, or comes back with the next one."""
        try:
            return await self.within(ask())
        except NotFound:
            await self._admit(place)
            await self.within(self._ledger.register(place.pool.spec(place.lane)))
            return await self.within(ask())

    async def _admit(self, place: Place) -> None:
        """Listed addresses are the operator's choice; where any will do, a caller gets only so many lanes."""
        if place.address in place.pool.addresses or place.cap is None or place.max_lanes is None:
            return
        if not await self.within(self._ledger.admit_lane(place.cap.owner, place.lane, place.max_lanes)):
            raise TooManyHeld(
                f"token {place.cap.owner!r} brought {place.max_lanes} addresses into being "
                "and may have no more (max_lanes)"
            )

    async def within(self, work: Awaitable[T]) -> T:
        """The ledger answers in time, or is away; every call may be made again."""
        try:
            async with asyncio.timeout(self._patience_s):
                return await work
        except TimeoutError:
            raise Unconfirmed(
                f"the ledger did not answer within {self._patience_s:g} s; make the same call again"
            ) from None

    async def unlock(self, place: Place, token: str) -> Recycled:
        answer = await self.within(self._ledger.unlock(place.lane, place.owned(token)))
        if answer.word == "over":
            raise ReservationOver("this turn is over: unlocked before, or its time ran out and another has it")
        return answer

    def _check(self, place: Place, answer: Reserved | Turn) -> None:
        match answer.word:
            case "cold":
                raise Unavailable(
                    f"no node of {place.desk.network} answers, and {place.address} has no counter yet; retry later"
                )
            case "over":
                raise ReservationOver("this token's reservation was given back or expired; take a new token")
            case "many":
                raise TooManyHeld(
                    f"{place.cap.most if place.cap else 0} numbers of {place.address} are reserved by this token "
                    "and not sent; send them, or give some back (max_reservations)"
                )
            case "refused":
                raise NotAllowed(f"lane {place.lane} is {answer.state}; it hands out no numbers")
        if answer.skipped:
            self._log.warning("key used elsewhere", lane=place.lane, numbers=answer.skipped, nonce=str(answer.nonce))

    async def _counted(self, place: Place) -> tuple[int | None, int | None]:
        """(count of the newest block, where a new counter starts: above what already waits in the pool)."""
        try:
            return await self.count(place.desk, place.address)
        except (Unavailable, Busy) as error:
            self._log.warning("chain not counted", lane=place.lane, error=str(error))
            return None, None

    async def count(self, desk: NonceDesk, address: str, *, fresh: bool = False) -> tuple[int, int]:
        """Asked once for all callers of the moment; `fresh` believes no earlier answer."""
        key, loop = desk.chain.lane(address), asyncio.get_running_loop()
        known = self._counts.get(key)
        if known is not None and not fresh and loop.time() - known[0] < _FRESH_S:
            return known[1]
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(desk.chain.counts(address))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        try:
            async with asyncio.timeout(_CHAIN_WITHIN_S):
                counts = await asyncio.shield(asking)
        except TimeoutError:
            raise Unavailable(f"no node of {desk.network} answered within {_CHAIN_WITHIN_S:g} s") from None
        if len(self._counts) > 10_000:
            self._counts.clear()
        self._counts[key] = (loop.time(), counts)
        return counts

    # -- bytes

    def read(self, network: object, raw: object, address: object = None) -> tuple[Place, Given]:
        """The signed bytes and the place they belong to, or `InvalidInput`."""
        desk = self.desk(network)
        given = desk.chain.read(raw)  # type: ignore[arg-type]  # it checks what it is given
        if address is not None and desk.chain.address("address", address) != given.sender:
            raise InvalidInput("address", f"the bytes were signed by {given.sender}")
        return self.place(network, given.sender), given

    @staticmethod
    def refusal(place: Place, given: Given) -> PolicyRefused | None:
        """What the pool's policy says against accepting these bytes; bytes that were accepted stay so."""
        most = place.pool.max_value
        if most is None or given.value <= most:
            return None
        return PolicyRefused("value", f"is {given.value} wei; the pool's max_deposit allows {most}")

    async def send(
        self,
        place: Place,
        given: Given,
        token: str,
        tenant: str,
        metadata: Mapping[str, Json] | None = None,
        share: Share | None = None,
    ) -> Submitted:
        """Accept the bytes and bind their number to them, in one step. The same bytes again are the same intent."""
        intent = new_intent(
            key=f"{RAW_KEY}{given.hash}",
            pool=place.pool.name,
            kind=place.desk.chain.raw_kind,
            payload={"raw": "0x" + given.raw.hex()},
            tenant=tenant,
            metadata=metadata,
        )
        await self._check_unused(place, given, intent.id)
        await self._list(place)
        use = Use(owned_token(tenant, token), given.nonce, given.hash)
        [result] = await self.within(self._producer.submit_many([intent], lane=place.lane, use=use, shares=[share]))
        if isinstance(result, NoLane):
            raise await self._without_lane(place, given)
        if isinstance(result, TxManagerError):
            raise result
        return result

    async def _list(self, place: Place) -> None:
        """Whoever brought the lane into being, or back, may have died before the registry knew of it."""
        if await self.within(self._producer.knows(place.pool.name, place.lane)):
            return
        lane = await self.within(self._ledger.lane(place.lane))
        if lane is not None and lane.keyless and not lane.parked and lane.state is not LaneState.CLOSED:
            await self.within(self._ledger.register(place.pool.spec(place.lane)))

    async def _without_lane(self, place: Place, given: Given) -> TxManagerError:
        lane = await self.within(self._ledger.lane(place.lane))
        if lane is not None and not lane.parked:
            return LaneClosed(place.lane)
        latest, _ = await self._counted(place)
        return NonceConflict(f"nothing is reserved for {place.address}", latest, given.nonce)

    async def _check_unused(self, place: Place, given: Given, id: IntentId) -> None:
        """Tell at once what the lane would find out: the number is used on chain, and not by these bytes."""
        latest, _ = await self._counted(place)
        if latest is None or given.nonce >= latest or await self.within(self._ledger.read(id)) is not None:
            return
        lane = await self.within(self._ledger.lane(place.lane))
        current = max(latest, lane.cursor or 0) if lane is not None else latest
        raise NonceConflict(f"nonce {given.nonce} is used on chain already; nothing was accepted", current, given.nonce)


def new_token() -> str:
    return secrets.token_urlsafe(24)
