"""Final records on Redis: to their homes first and durably, then the tombstone; and what crashes left half done."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from txmanager.core.budgets import corrections
from txmanager.core.errors import MemoryFull, NotFound, TxManagerError
from txmanager.core.ledger import SHELVED_MS, SWEEP_AFTER_MS, TOMBSTONE_MS, Backlog, Gone
from txmanager.core.models import IntentId, Record
from txmanager.ledger.inputs import check_retirable
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.budgets import BudgetBooks
from txmanager.ledger.redis.runner import Arg, Call

_SWEEP_PAGE = 1000


class Finals(BudgetBooks):
    async def unretired(self, lane: str, count: int) -> list[Record]:
        finals, shelf = self._keys.finals(lane), self._keys.shelf(lane)
        found, left_alone, finals_count, (lag, archived) = await self._runner.plain(
            finals,
            ("SRANDMEMBER", finals, count),
            ("HGETALL", shelf),
            ("SCARD", finals),
            ("HMGET", self._keys.lane(lane), "archive", "arced"),
        )
        if lag is not None and finals_count - int(archived or 0) <= int(lag):
            found = [id for id, acknowledged in await self._acknowledged(lane, found) if acknowledged]
        if left_alone:
            now = await self.now_ms()
            since = {id: int(entry.split()[0]) for id, entry in codec.pairs(left_alone).items()}
            shelved = {id for id, at in since.items() if now - at < SHELVED_MS}
            if again := since.keys() - shelved:
                await self._runner.plain(shelf, ("HDEL", shelf, *again))
            if shelved:  # they must not fill the page that others wait to be on
                [found] = await self._runner.plain(finals, ("SMEMBERS", finals))
                found = [id for id in found if id not in shelved][:count]
        ids = [IntentId.parse(id.decode()) for id in found]
        return [r for r in await self._readable(lane, ids) if r.status.final]

    async def _readable(self, lane: str, ids: Sequence[IntentId], *, whole: bool = False) -> list[Record]:
        """One record that cannot be read any more is shelved; the others of the page are retired."""
        try:
            return [r for r in await self._surely(lane, ids, whole=whole) if r is not None] if ids else []
        except TxManagerError:
            raise
        except Exception as error:
            if len(ids) == 1:
                await self.shelve(ids[0], lane, f"{type(error).__name__}: {error}")
                return []
        return [record for id in ids for record in await self._readable(lane, [id], whole=whole)]

    # -- archives

    async def archive(self, lane: str, max_lag: int | None) -> None:
        keys = [self._keys.lane(lane), self._keys.backlog(lane)]
        reply = await self._runner.run("archive", keys, ("" if max_lag is None else max_lag,), durable=True)
        if reply[0] == b"unknown":
            raise NotFound(f"no lane {lane}")

    async def unarchived(self, lane: str, count: int) -> list[Record]:
        finals = self._keys.finals(lane)
        [found] = await self._runner.plain(finals, ("SRANDMEMBER", finals, count))
        ids = [IntentId.parse(id.decode()) for id, known in await self._acknowledged(lane, found) if not known]
        return [r for r in await self._readable(lane, ids, whole=True) if r.status.final]

    async def _acknowledged(self, lane: str, ids: Sequence[bytes]) -> list[tuple[bytes, bool]]:
        if not ids:
            return []
        asked = (("HGET", self._keys.record(lane, IntentId.parse(id.decode())), "arc") for id in ids)
        flags = await self._runner.plain(self._keys.lane(lane), *asked)
        return [(id, flag is not None) for id, flag in zip(ids, flags, strict=True)]

    async def acknowledge(self, lane: str, records: Sequence[tuple[IntentId, str]]) -> int:
        if not records:
            return 0
        keys = [self._keys.backlog(lane), self._keys.lane(lane), *self._keys.records(lane, [id for id, _ in records])]
        return int(
            await self._runner.run("acknowledge", keys, [word for id, life in records for word in (id.text, life)])
        )

    async def backlog(self, lane: str, count: int) -> Backlog:
        key = self._keys.backlog(lane)
        found, lost = await self._runner.plain(
            key, ("ZRANGE", key, 0, count - 1, "WITHSCORES"), ("HGET", self._keys.lane(lane), "lost")
        )
        gone = []
        for member, at in codec.pairs(found).items():
            life, _, id = member.decode().partition(" ")
            gone.append(Gone(IntentId.parse(id), life, int(float(at))))
        return Backlog(tuple(gone), int(lost or 0))

    # -- retiring

    async def shelve(self, record: IntentId, lane: str, error: str) -> None:
        key = self._keys.shelf(lane)
        entry = f"{await self.now_ms()} {error[:500]}"
        await self._runner.plain(key, ("HSET", key, str(record), entry))

    async def shelved(self, lane: str) -> dict[str, str]:
        key = self._keys.shelf(lane)
        [found] = await self._runner.plain(key, ("HGETALL", key))
        return {id.decode(): entry.decode().partition(" ")[2] for id, entry in codec.pairs(found).items()}

    async def retire(self, records: Sequence[Record]) -> int:
        check_retirable(records)
        if not records:
            return 0
        calls = [
            Call(
                "retire_home",
                self._home_keys(r.id),
                (r.id.text, r.intent.fingerprint, r.life, r.lane, r.created_at, codec.pack_final(r)),
            )
            for r in records
        ]
        await self._runner.run_joined(calls, (self._retention_ms,), durable=True)
        await self.correct([one for record in records for one in corrections(record)])
        by_lane: dict[str, list[Record]] = {}
        for record in records:
            by_lane.setdefault(record.lane, []).append(record)
        burials = []
        for lane, group in by_lane.items():
            args: list[Arg] = [TOMBSTONE_MS, self._retention_ms]
            for record in group:
                args += (record.id.text, record.life, record.status.value)
            keys = [self._keys.finals(lane), self._keys.lane(lane), self._keys.backlog(lane)]
            keys += self._keys.records(lane, [record.id for record in group])
            burials.append(Call("bury", keys, args))
        return sum(await self._runner.run_many(burials))

    async def sweep(self, home: int, older_than_ms: int = SWEEP_AFTER_MS) -> int:
        gone = kept = 0
        while True:
            # claims that stay are skipped on the next page, so that they cannot hide what lies behind them
            args = (older_than_ms, kept, _SWEEP_PAGE)
            names = await self._runner.run("stale", [self._keys.open_claims(home)], args)
            for name in names:
                swept = await self._sweep_one(IntentId.parse(name.decode()), older_than_ms)
                gone, kept = gone + swept, kept + (not swept)
            if len(names) < _SWEEP_PAGE:
                return gone

    async def _sweep_one(self, id: IntentId, again_ms: int) -> bool:
        [value] = await self._runner.plain(self._keys.home(id), ("GET", self._keys.home(id)))
        head, _, final = (value or b"").partition(b"\n")
        life, born, lane = head.decode().split(" ")[1:] if head else ("", "", "")
        if life == "alias":
            # an alias stays for as long as its target is known
            target = self._keys.home(IntentId.parse(lane))
            [known] = await self._runner.plain(target, ("EXISTS", target))
            if known:
                # every delegate has one, for as long as its record is kept: it is looked at once in a while
                open = self._keys.open_claims(id.home)
                with suppress(MemoryFull):  # then it is looked at again at once, and the others are swept
                    await self._runner.plain(open, ("ZADD", open, "XX", "INCR", max(0, again_ms), id.text))
                return False
        elif head and not final:
            [record] = await self._surely(lane, [id])
            if record is not None and record.life == life:
                return record.status.final and bool(await self.retire([record]))
        reply = await self._runner.run("forget", self._home_keys(id), (str(id), life, born))
        return bool(reply[0] == b"gone")
