"""Owning a lane on Durable Objects: lease, take, write ahead, settle. Every call is fenced by the step it runs."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.ledger import Landed, Lease, Renewed, Settled, Settlement, Taken, WriteAhead
from txmanager.core.models import Attempt, Fence, IntentId, Json, Record
from txmanager.core.states import LaneState
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.backend import Backend
from txmanager.ledger.durable.link import Call, Refusal
from txmanager.ledger.inputs import check_settlement, check_token
from txmanager.ledger.redis.codec import pack_outcome


class Owners(Backend):
    async def lease(self, lane: str, owner: str, token: str, lease_ms: int) -> Lease:
        check_token(token)
        answer = await self._lane(lane, "lease", owner=owner, token=token, lease_ms=lease_ms)
        word: Any = answer["word"]
        match word:
            case "leased":
                fence = Fence(lane, answer["owner"], answer["epoch"], token)
                return Lease(word, fence, codec.unpack_lane(answer["lane"]), fence.owner, lease_ms)
            case "held":
                return Lease(word, owner=answer["owner"], left_ms=answer["left_ms"])
        return Lease(word)

    async def renew(self, fences: Sequence[Fence], lease_ms: int) -> list[Renewed]:
        calls = [
            Call(self._lane_object(fence.lane), "renew", {"fence": codec.pack_fence(fence), "lease_ms": lease_ms})
            for fence in fences
        ]
        return [_renewed(answer) for answer in await self._link.ask(calls)]

    async def release(self, fence: Fence) -> bool:
        return bool(await self._owned(fence, "release"))

    async def baseline(self, fence: Fence, cursor: int, *, operator: bool = False) -> int:
        return int(await self._owned(fence, "baseline", cursor=str(cursor), operator=operator))

    async def vouch(self, fence: Fence, stored: str, found: str) -> bool:
        return bool(await self._owned(fence, "vouch", stored=stored, found=found))

    async def take(self, fence: Fence, count: int) -> list[Taken]:
        return [codec.unpack_taken(row) for row in await self._owned(fence, "take", count=count)]

    async def unfinished(self, fence: Fence) -> list[Record]:
        rows = await self._owned(fence, "unfinished")
        return codec.by_nonce([codec.unpack_record(fence.lane, row) for row in rows])

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        writes = [
            {
                "id": write.id.text,
                "life": write.life,
                "position": write.position,
                **codec.pack_signed(write.attempt),
                "deaths": codec.pack_deaths(write.deaths),
                "counted": write.counted,
            }
            for write in batch
        ]
        return int(await self._owned(fence, "record_attempts", cursor=str(cursor), batch=writes))

    async def settle(self, fence: Fence, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        rows = [_settlement(item) for item in batch]
        answers = await self._owned(fence, "settle", batch=rows, landed=codec.number(landed))
        return [Settled(answer["word"], answer.get("status", ""), answer.get("at", 0)) for answer in answers]

    async def hold(self, fence: Fence, id: IntentId, life: str, reason: str, evidence: Mapping[str, Json]) -> bool:
        return bool(await self._owned(fence, "hold", id=id.text, life=life, **_hold(reason, evidence)))

    async def set_aside(self, fence: Fence, entry: Taken, reason: str, evidence: Mapping[str, Json]) -> bool:
        args = {"id": entry.intent.id.text, "position": entry.position, **_hold(reason, evidence)}
        return bool(await self._owned(fence, "set_aside", **args))

    async def broke(self, fence: Fence, what: str, mark: str, error: str, forget_ms: int) -> int:
        return int(await self._owned(fence, "broke", what=what, mark=mark, error=error[:500], forget_ms=forget_ms))

    async def answer(self, fence: Fence, id: IntentId, life: str) -> bool:
        return bool(await self._owned(fence, "answer", id=id.text, life=life))

    async def fill(
        self,
        fence: Fence,
        attempts: Sequence[Attempt] = (),
        done: Sequence[str] = (),
        landed: Sequence[Record] = (),
    ) -> list[Attempt]:
        ended = [_filled(record) for record in landed]
        rows = await self._owned(
            fence, "fill", attempts=[codec.pack_signed(a) for a in attempts], done=list(done), landed=ended
        )
        return codec.in_order([codec.unpack_signed(row) for row in rows])

    async def keep(self, fence: Fence, landed: Sequence[Landed], keep_ms: int, most_bytes: int) -> None:
        rows = [
            {"nonce": str(one.nonce), "hash": one.hash, "intent": one.intent, "blob": b64encode(one.raw).decode()}
            for one in landed
        ]
        await self._owned(fence, "keep", landed=rows, keep_ms=keep_ms, most_bytes=most_bytes)

    async def kept(self, lane: str, since: int = 0) -> list[Landed]:
        rows = await self._lane(lane, "kept")
        found = {
            row["hash"]: Landed(int(row["nonce"]), row["hash"], b64decode(row["blob"]), row["intent"]) for row in rows
        }
        return sorted((one for one in found.values() if one.nonce >= since), key=lambda one: one.nonce)


def _renewed(answer: Any) -> Renewed:
    if isinstance(answer, Refusal):
        return Renewed("fenced", owner=answer.details["owner"], epoch=answer.details["epoch"])
    state = LaneState(answer["state"])
    return Renewed("renewed", answer["depth"], state, answer["asks"], answer["moved"], answer["owner"], answer["epoch"])


def _filled(record: Record) -> codec.Row:
    [used] = record.attempts
    assert record.outcome is not None
    named = {"id": record.id.text, "life": record.life, "kind": record.intent.kind, "status": record.status.value}
    return {**codec.pack_signed(used), **named, "outcome": pack_outcome(record.outcome).decode()}


def _settlement(item: Settlement) -> codec.Row:
    outcome = check_settlement(item)
    return {
        "id": item.id.text,
        "life": item.life,
        "status": outcome.status.value,
        "outcome": pack_outcome(outcome).decode(),
        "tx_hash": outcome.tx_hash,
        "nonce": codec.number(outcome.nonce),
        "error": str(outcome.error["code"]) if outcome.error else None,
        "deaths": codec.pack_deaths(item.deaths),
    }


def _hold(reason: str, evidence: Mapping[str, Json]) -> dict[str, Any]:
    return {"reason": reason, "hold": codec.text({"reason": reason, "evidence": evidence}, "evidence")}
