"""What a monitor needs on Redis: records in flight without a fence, a word to the owner; and no-ops that fill gaps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from txmanager.core.alerts import Alert, Check
from txmanager.core.errors import Fenced, Refused, RolledBack
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
