"""The numbers of keyless lanes on Redis: handed out, given back, taken in turn. One script each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from txmanager.core.errors import Fenced, NotAllowed, NotFound, RolledBack
from txmanager.core.models import Fence, IntentId
from txmanager.core.reservations import WAIT_ALIVE_MS, Book, Cap, Recycled, Reservation, Reserved, Sent, Turn, live
from txmanager.ledger.inputs import check_numbers
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend
from txmanager.ledger.redis.runner import Arg


class Numbers(Backend):
    async def reserve(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Reserved:
        reply = await self._ask("reserve", lane, token, ttl_ms, chain_nonce, seed, cap)
        match reply:
            case [b"reserved", nonce, till, was]:
                return Reserved("reserved", int(nonce), int(till), _skipped(was, chain_nonce))
            case [b"sent", nonce]:
                return Reserved("sent", int(nonce))
            case [b"refused", state]:
                return Reserved("refused", state=state.decode())
        word: Any = reply[0].decode()
        return Reserved(word)

    async def turn(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Turn:
        reply = await self._ask("turn", lane, token, ttl_ms, chain_nonce, seed, cap, WAIT_ALIVE_MS)
        match reply:
            case [b"granted", nonce, till, was, fence]:
                return Turn("granted", int(nonce), int(fence), int(till), skipped=_skipped(was, chain_nonce))
            case [b"waiting", ahead]:
                return Turn("waiting", ahead=int(ahead))
            case [b"sent", nonce]:
                return Turn("sent", int(nonce))
            case [b"refused", state]:
                return Turn("refused", state=state.decode())
        word: Any = reply[0].decode()
        return Turn(word)

    async def _ask(
        self,
        script: str,
        lane: str,
        token: str,
        ttl_ms: int,
        chain: int | None,
        seed: int | None,
        cap: Cap | None,
        *more: Arg,
    ) -> Any:
        check_numbers(token, ttl_ms, chain, seed)
        await self._gauge.check()
        counts = ("" if chain is None else str(chain), "" if seed is None else str(seed))
        keys, most = self._keys.of_numbers(lane), ""
        if cap is not None:
            keys, most = [*keys, self._keys.owned(lane, cap.owner)], str(cap.most)
        args = (token, ttl_ms, *counts, most, *more)
        reply = await self._runner.run(script, keys, args, durable=True)
        match reply:
            case [b"rolled_back", stored, found]:
                raise RolledBack(lane, stored.decode(), found.decode())
            case [b"unknown"]:
                raise NotFound(f"no lane {lane}")
            case [b"signing"]:
                raise _signing(lane)
        return reply

    async def recycle(self, lane: str, token: str) -> Recycled:
        return await self._give_back(lane, token, "")

    async def unlock(self, lane: str, token: str) -> Recycled:
        return await self._give_back(lane, token, "turn")

    async def _give_back(self, lane: str, token: str, what: str) -> Recycled:
        reply = await self._runner.run("recycle", self._keys.of_numbers(lane), (token, what), durable=True)
        match reply:
            case [b"recycled", b"", _]:
                return Recycled("recycled")
            case [b"recycled", nonce, cursor]:
                return Recycled("recycled", int(nonce), gap=int(nonce) + 1 != int(cursor))
            case [b"sent", nonce]:
                return Recycled("sent", int(nonce))
            case [b"unknown"]:
                raise NotFound(f"no lane {lane}")
        return Recycled("over")

    async def expire(self, lane: str) -> int:
        reply = await self._runner.run("expire", self._keys.of_numbers(lane))
        if reply == b"unknown":
            raise NotFound(f"no lane {lane}")
        return int(reply)

    async def reclaim(self, fence: Fence, chain_nonce: int, nonces: Sequence[int]) -> int:
        args: list[Arg] = [fence.epoch, fence.token, str(chain_nonce), *(str(nonce) for nonce in nonces)]
        reply = await self._runner.run("reclaim", self._keys.of_numbers(fence.lane), args, durable=True)
        if reply[0] == b"fenced":
            raise Fenced(fence.lane, reply[1].decode(), int(reply[2]))
        return int(reply[1])

    async def book(self, lane: str) -> Book:
        key, reservations, _, reuse, line = self._keys.of_numbers(lane)
        reply = await self._runner.run("book", [key, reservations, reuse, line])
        spec, keyless, [cursor, floor, holder, checked], flat, numbers, waiting, now = reply
        if not spec:
            raise NotFound(f"no lane {lane}")
        if keyless != b"1":
            raise _signing(lane)
        return Book(
            next_nonce=int(cursor) if cursor else None,
            chain_nonce=int(floor) if floor else 0,
            reserved=_reserved(flat),
            reuse=tuple(int(nonce) for nonce in numbers),
            holder=holder.decode(),
            waiting=int(waiting),
            checked_at=int(checked) if checked else 0,
            at=int(now),
        )

    async def checked(self, lane: str) -> None:
        reply = await self._runner.run("checked", [self._keys.lane(lane)])
        if reply[0] == b"unknown":
            raise NotFound(f"no lane {lane}")


def _skipped(was: bytes, chain_nonce: int | None) -> int:
    """How many numbers somebody else used; Python counts, because Lua would through a float."""
    return chain_nonce - int(was) if was and chain_nonce is not None else 0


def _signing(lane: str) -> NotAllowed:
    return NotAllowed(f"lane {lane} signs by itself; it hands out no numbers")


def _reserved(flat: Sequence[bytes]) -> tuple[Reservation, ...]:
    found = []
    for token, entry in codec.pairs(flat).items():
        nonce, state, at, till, *sent = entry.decode().split(" ")
        if state in ("reserved", "sent"):
            word = cast(Literal["reserved", "sent"], state)
            uses = tuple(_sent(one) for one in sent)
            until = int(till) if state == "reserved" else 0
            found.append(Reservation(token.decode(), int(nonce), word, int(at), until, uses))
    return live(found)


def _sent(text: str) -> Sent:
    hash, _, id = text.partition("=")
    return Sent(hash, IntentId.parse(id))
