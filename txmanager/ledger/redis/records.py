"""Every record there is, live or kept: read slowly, one by one, for what has to be rebuilt."""

from __future__ import annotations

from collections.abc import AsyncIterator

from txmanager.core.models import IntentId, Record
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend


class Records(Backend):
    async def _every_record(self) -> AsyncIterator[Record]:
        """Lanes first: what is retired meanwhile is met again in its home, and so never missed."""
        start = f"{self._keys.prefix}:{{"
        async for key in self._link.scan(f"{start}*}}:r:*"):
            lane, _, id = key.decode().removeprefix(start).partition("}:r:")
            [record] = await self._surely(lane, [IntentId.parse(id)])
            if record is not None:
                yield record
        async for key in self._link.scan(f"{start}h*}}:*/*/*"):
            [home] = await self._runner.plain(key.decode(), ("GET", key.decode()))
            head, _, final = (home or b"").partition(b"\n")
            if final:
                fingerprint, life, _, lane = head.decode().split(" ")
                id = key.decode().partition("}:")[2]
                yield codec.unpack_final(IntentId.parse(id), fingerprint, life, lane, final)
