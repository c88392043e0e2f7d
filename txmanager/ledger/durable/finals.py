"""Final records on Durable Objects: to their homes first, then the tombstone; and what crashes left half done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from txmanager.core.budgets import corrections
from txmanager.core.ledger import SWEEP_AFTER_MS, Backlog, Gone
from txmanager.core.models import HOMES, IntentId, Record
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.budgets import BudgetBooks
from txmanager.ledger.durable.link import Call
from txmanager.ledger.durable.producers import Producers
from txmanager.ledger.inputs import check_retirable
from txmanager.ledger.redis.codec import pack_final

_SWEEP_PAGE = 1000


class Finals(Producers, BudgetBooks):
    async def unretired(self, lane: str, count: int) -> list[Record]:
        return await self._readable(lane, await self._lane(lane, "unretired", count=count))

    async def _readable(self, lane: str, rows: Sequence[codec.Row], *, whole: bool = False) -> list[Record]:
        found = []
        for row in rows:
            try:
                found.append(codec.unpack_record(lane, row, whole=whole))
            except Exception as error:  # one that cannot be read any more is shelved, the others are retired
                await self.shelve(IntentId.parse(row["id"]), lane, f"{type(error).__name__}: {error}")
        return found

    async def retire(self, records: Sequence[Record]) -> int:
        check_retirable(records)
        keep_ms = self._retention_ms
        await self._link.call_many(
            [Call(self._home_object(r.id.home), "retire", {"finals": [_final(r)], "keep_ms": keep_ms}) for r in records]
        )
        await self.correct([one for record in records for one in corrections(record)])
        by_lane: defaultdict[str, list[codec.Row]] = defaultdict(list)
        for record in records:
            by_lane[record.lane].append({"id": record.id.text, "life": record.life, "status": record.status.value})
        burials = [
            Call(self._lane_object(lane), "bury", {"records": rows, "keep_ms": keep_ms})
            for lane, rows in by_lane.items()
        ]
        return sum(await self._link.call_many(burials))

    async def archive(self, lane: str, max_lag: int | None) -> None:
        await self._lane(lane, "archive", max_lag=max_lag)

    async def unarchived(self, lane: str, count: int) -> list[Record]:
        return await self._readable(lane, await self._lane(lane, "unarchived", count=count), whole=True)

    async def acknowledge(self, lane: str, records: Sequence[tuple[IntentId, str]]) -> int:
        return int(await self._lane(lane, "acknowledge", records=[{"id": i.text, "life": life} for i, life in records]))

    async def backlog(self, lane: str, count: int) -> Backlog:
        answer = await self._lane(lane, "backlog", count=count)
        gone = tuple(Gone(IntentId.parse(row["id"]), row["life"], row["at"]) for row in answer["gone"])
        return Backlog(gone, answer["lost"])

    async def shelve(self, record: IntentId, lane: str, error: str) -> None:
        await self._lane(lane, "shelve", id=record.text, error=error[:500])

    async def shelved(self, lane: str) -> dict[str, str]:
        return dict(await self._lane(lane, "shelved"))

    async def sweep(self, home: int, older_than_ms: int = SWEEP_AFTER_MS) -> int:
        gone = kept = 0
        while True:
            # claims that stay are skipped on the next page, so that they cannot hide what lies behind them
            args = {"slot": home, "older_ms": older_than_ms, "skip": kept, "count": _SWEEP_PAGE}
            rows = await self._link.call(Call(self._home_object(home), "stale", args))
            for row in rows:
                swept = await self._sweep_one(row)
                gone, kept = gone + swept, kept + (not swept)
            if len(rows) < _SWEEP_PAGE:
                break
        await self._clean_lanes(home)
        return gone

    async def _sweep_one(self, row: codec.Row) -> bool:
        id, life, lane = IntentId.parse(row["id"]), row["life"], row["lane"]
        if row["alias_of"] is not None:
            # an alias stays for as long as its target is known
            if await self._home(IntentId.parse(row["alias_of"]), "read") is not None:
                return False
        else:
            record = await self._record(lane, id, life)
            if record is not None:
                return record.status.final and bool(await self.retire([record]))
        return bool(await self._home(id, "forget", life=life, born=row["born"]))

    async def _clean_lanes(self, home: int) -> None:
        """A store that expires nothing by itself: each home's sweep goes over its share of the lanes, too."""
        routes = await self._shared("lanes", "routes")
        lanes = [route["lane"] for at, route in enumerate(routes) if at % HOMES == home]
        while lanes:
            more = await self._lanes(lanes, "clean", keep_ms=self._retention_ms)
            lanes = [lane for lane, left in zip(lanes, more, strict=True) if left]


def _final(record: Record) -> codec.Row:
    return {
        "id": record.id.text,
        "slot": record.id.home,
        "fingerprint": record.intent.fingerprint,
        "lane": record.lane,
        "life": record.life,
        "born": record.created_at,
        "record": pack_final(record).decode(),
    }
