"""What a monitor needs on Redis: records in flight without a fence, a word to the owner; no-ops that fill gaps; and
the bytes that are final, for a while."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from txmanager.core.alerts import Alert, Check
from txmanager.core.errors import Fenced, MemoryFull, Refused, RolledBack
from txmanager.core.ledger import Landed
from txmanager.core.models import Attempt, Fence, IntentId, Record
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend
from txmanager.ledger.redis.runner import Arg


class Watchers(Backend):
    async def pending(self, lane: str) -> list[Record]:
        key = self._keys.unfinished(lane)
        [members] = await self._runner.plain(key, ("SMEMBERS", key))
        ids = [IntentId.parse(id.decode()) for id in members]
        found = [r for r in await self._records(lane, ids) if r is not None and not r.status.final] if ids else []
        return sorted((r for r in found if r.attempts), key=lambda r: min(a.nonce for a in r.attempts))

    async def check(self, lane: str, name: str, alerts: Collection[Alert] = ()) -> bool:
        args = (str(Check(name, frozenset(alerts))), self._keys.wake(lane))
        reply = await self._runner.run("check", [self._keys.lane(lane)], args)
        return bool(reply[0] == b"asked")

    async def fill(self, fence: Fence, attempts: Sequence[Attempt] = (), done: Sequence[str] = ()) -> list[Attempt]:
        lane = fence.lane
        args: list[Arg] = [fence.epoch, fence.token, len(done), *done]
        for attempt in attempts:
            args += (attempt.name, str(attempt.nonce), codec.pack_attempt(attempt))
        keys = [self._keys.lane(lane), self._keys.fills(lane)]
        reply = await self._runner.run("fill", keys, args, durable=True)
        match reply[0]:
            case b"fenced":
                raise Fenced(lane, reply[1].decode(), int(reply[2]))
            case b"refused":
                raise Refused(lane if reply[1] == b"lane" else reply[1].decode(), reply[2].decode())
            case b"rolled_back":
                raise RolledBack(lane, reply[1].decode(), reply[2].decode())
        stored = codec.pairs(reply[1])
        found = [codec.unpack_attempt(name.decode(), blob, None) for name, blob in stored.items()]
        return sorted(found, key=lambda a: (a.nonce, a.signed_at, a.hash))

    async def keep(self, fence: Fence, landed: Sequence[Landed], keep_ms: int, most_bytes: int) -> None:
        lane = fence.lane
        try:
            await self._gauge.check()
        except MemoryFull:
            landed, most_bytes = (), 0
        args: list[Arg] = [fence.epoch, fence.token, keep_ms, most_bytes]
        for one in landed:
            args += (str(one.nonce), one.hash, one.intent, one.raw)
        reply = await self._runner.run("keep", [self._keys.lane(lane), self._keys.kept(lane)], args)
        if reply[0] == b"fenced":
            raise Fenced(lane, reply[1].decode(), int(reply[2]))

    async def kept(self, lane: str, since: int = 0) -> list[Landed]:
        key = self._keys.kept(lane)
        [entries] = await self._runner.plain(key, ("XRANGE", key, "-", "+"))
        fields = [codec.pairs(entry[1]) for entry in entries]
        found = {
            f[b"hash"]: Landed(int(f[b"nonce"]), f[b"hash"].decode(), f[b"raw"], f[b"intent"].decode()) for f in fields
        }
        return sorted((one for one in found.values() if one.nonce >= since), key=lambda one: one.nonce)
