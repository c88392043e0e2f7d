"""The numbers of keyless lanes on Durable Objects: handed out, given back, taken in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txmanager.core.models import Fence, IntentId
from txmanager.core.reservations import Book, Cap, Recycled, Reservation, Reserved, Sent, Turn, live
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.backend import Backend
from txmanager.ledger.inputs import check_numbers


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
        answer = await self._ask("reserve", lane, token, ttl_ms, chain_nonce, seed, cap)
        return Reserved(
            answer["word"],
            codec.count(answer.get("nonce")),
            answer.get("until", 0),
            _skipped(answer),
            answer.get("state", ""),
        )

    async def turn(
        self,
        lane: str,
        token: str,
        ttl_ms: int,
        chain_nonce: int | None = None,
        seed: int | None = None,
        cap: Cap | None = None,
    ) -> Turn:
        answer = await self._ask("turn", lane, token, ttl_ms, chain_nonce, seed, cap)
        return Turn(
            answer["word"],
            codec.count(answer.get("nonce")),
            answer.get("fence", 0),
            answer.get("until", 0),
            answer.get("ahead", 0),
            _skipped(answer),
            answer.get("state", ""),
        )

    async def _ask(
        self,
        operation: str,
        lane: str,
        token: str,
        ttl_ms: int,
        chain: int | None,
        seed: int | None,
        cap: Cap | None,
    ) -> Any:
        check_numbers(token, ttl_ms, chain, seed)
        counts = {"chain": codec.number(chain), "seed": codec.number(seed)}
        most = None if cap is None else {"owner": cap.owner, "most": cap.most}
        return await self._lane(lane, operation, token=token, ttl_ms=ttl_ms, **counts, cap=most)

    async def recycle(self, lane: str, token: str) -> Recycled:
        return await self._give_back(lane, token, unlock=False)

    async def unlock(self, lane: str, token: str) -> Recycled:
        return await self._give_back(lane, token, unlock=True)

    async def _give_back(self, lane: str, token: str, *, unlock: bool) -> Recycled:
        answer = await self._lane(lane, "recycle", token=token, unlock=unlock)
        return Recycled(answer["word"], codec.count(answer.get("nonce")), gap=answer.get("gap", False))

    async def expire(self, lane: str) -> int:
        return int(await self._lane(lane, "expire"))

    async def reclaim(self, fence: Fence, chain_nonce: int, nonces: Sequence[int]) -> int:
        args = {"chain": str(chain_nonce), "nonces": [str(nonce) for nonce in nonces]}
        return int(await self._owned(fence, "reclaim", **args))

    async def book(self, lane: str) -> Book:
        answer = await self._lane(lane, "book")
        return Book(
            next_nonce=codec.count(answer["next_nonce"]),
            chain_nonce=int(answer["chain_nonce"]),
            reserved=live([_reservation(row) for row in answer["reserved"]]),
            reuse=tuple(int(nonce) for nonce in answer["reuse"]),
            holder=answer["holder"],
            waiting=answer["waiting"],
            checked_at=answer["checked_at"],
            at=answer["at"],
        )

    async def checked(self, lane: str) -> None:
        await self._lane(lane, "checked")


def _skipped(answer: codec.Row) -> int:
    return int(answer.get("skipped", "0"))


def _reservation(row: codec.Row) -> Reservation:
    sent = tuple(Sent(hash, IntentId.parse(id)) for hash, id in codec.read(row["sent"]))
    until = row["till"] if row["state"] == "reserved" else 0
    return Reservation(row["token"], int(row["nonce"]), row["state"], row["at"], until, sent)
