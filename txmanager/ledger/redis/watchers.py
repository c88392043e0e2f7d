"""What a monitor needs on Redis: records in flight without a fence, a word to the owner; no-ops that fill gaps; and
the bytes that are final, for a while."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from txmanager.core.alerts import Alert, Check
from txmanager.core.errors import Fenced, MemoryFull, Refused, RolledBack
from txmanager.core.ledger import Landed
from txmanager.core.listing import SCAN_LIMIT, Browsed, Mark, mark_of
from txmanager.core.models import Attempt, Fence, IntentId, Record
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend
from txmanager.ledger.redis.runner import Arg

_MARKS = 500
"""Records whose marks are read at once."""


class Watchers(Backend):
    async def pending(self, lane: str) -> list[Record]:
        ids = [IntentId.parse(id.decode()) for id in await self._runner.run("pending", self._unfinished_keys(lane))]
        found = [r for r in await self._records(lane, ids) if r is not None and not r.status.final] if ids else []
        return sorted((r for r in found if r.attempts), key=lambda r: min(a.nonce for a in r.attempts))

    async def browse(self, lane: str, before: Mark | None, count: int) -> Browsed:
        """The queue tells the order of what is in it. What left it (set aside, or final and not retired) is in two
        sets, read after the queue: an entry that leaves meanwhile is met twice, never missed."""
        keys = self._keys
        queue = keys.queue(lane)
        last = "+" if before is None else str(before[0] if before[1] else max(0, before[0] - 1))
        entries, aside, finals = await self._runner.plain(
            queue,
            ("XREVRANGE", queue, last, "-", "COUNT", count + 1),
            ("SRANDMEMBER", keys.unfinished(lane), SCAN_LIMIT),
            ("SRANDMEMBER", keys.finals(lane), SCAN_LIMIT),
        )
        cut = 0
        if (
            len(entries) > count
        ):  # the last millisecond may be there in part: read it whole, or leave it to the next page
            cut = _ms(entries[-1])
            if _ms(entries[0]) == cut:
                [entries] = await self._runner.plain(queue, ("XREVRANGE", queue, str(cut), str(cut)))
            else:
                entries = [entry for entry in entries if _ms(entry) > cut]
                cut += 1
        marks = {codec.text(fields[b"i"]): (ms, codec.text(fields[b"l"])) for ms, fields in map(_entry, entries)}
        others = [id for id in dict.fromkeys((*aside, *finals)) if id.decode() not in marks]
        marks |= {id: mark for id, mark in await self._marks(lane, others) if mark[0] >= cut}
        found = sorted(((m, id) for id, m in marks.items() if before is None or m < before), reverse=True)
        ids = [IntentId.parse(id) for _, id in found[:count]]
        records = [r for r in await self._surely(lane, ids, whole=True) if r is not None] if ids else []
        older = found[count - 1][0] if len(found) > count else (cut, "") if cut else None
        return Browsed(tuple(sorted(records, key=mark_of, reverse=True)), older)

    async def _marks(self, lane: str, ids: Sequence[bytes]) -> Iterable[tuple[str, Mark]]:
        found: list[tuple[str, Mark]] = []
        for at in range(0, len(ids), _MARKS):
            page = [id.decode() for id in ids[at : at + _MARKS]]
            asked = (("HMGET", self._keys.record(lane, IntentId.parse(id)), "i", "l") for id in page)
            replies = await self._runner.plain(self._keys.lane(lane), *asked)
            known = ((id, sid, life) for id, (sid, life) in zip(page, replies, strict=True) if sid)
            found += ((id, (int(sid.partition(b"-")[0]), life.decode())) for id, sid, life in known)
        return found

    async def check(self, lane: str, name: str, alerts: Collection[Alert] = ()) -> bool:
        args = (str(Check(name, frozenset(alerts))), self._keys.wake(lane))
        reply = await self._runner.run("check", [self._keys.lane(lane)], args)
        return bool(reply[0] == b"asked")

    async def fill(
        self,
        fence: Fence,
        attempts: Sequence[Attempt] = (),
        done: Sequence[str] = (),
        landed: Sequence[Record] = (),
    ) -> list[Attempt]:
        lane = fence.lane
        args: list[Arg] = [fence.epoch, fence.token, len(done), *done]
        for record in landed:
            [used] = record.attempts
            assert record.outcome is not None
            outcome = codec.pack_outcome(record.outcome)
            args += (used.name, codec.pack_attempt(used), record.id.text, record.life, record.status.value, outcome)
        for attempt in attempts:
            args += (attempt.name, str(attempt.nonce), codec.pack_attempt(attempt))
        keys = [self._keys.lane(lane), self._keys.fills(lane), self._keys.finals(lane)]
        keys += self._keys.records(lane, [record.id for record in landed])
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


def _ms(entry: Sequence[Any]) -> int:
    return int(entry[0].partition(b"-")[0])


def _entry(entry: Sequence[Any]) -> tuple[int, codec.Fields]:
    return _ms(entry), codec.pairs(entry[1])
