"""What callers share on Durable Objects: rates over all processes, room in the queues, and who asked for what."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import asdict

from txmanager.core.audit import ALL_TENANTS, AUDIT_LIMIT, AuditEntry, newest, shortened
from txmanager.core.quotas import Drawn, Room
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.registry import Registry

_BUCKETS = 16


class Sharing(Registry):
    async def draw(self, name: str, per_second: float, burst: int, want: int) -> Drawn:
        bucket = f"rates-{zlib.crc32(name.encode()) % _BUCKETS}"
        args = {"name": name, "per_second": float(per_second), "burst": burst, "want": want}
        answer = await self._shared(bucket, "draw", **args)
        return Drawn(answer["granted"], answer["wait_ms"])

    async def room(self, owner: str, pools: Collection[str] | None = None) -> Room:
        lanes = [route.lane for route in await self.routes() if pools is None or route.pool in pools]
        rows = await self._lanes(lanes, "room", owner=owner)
        return Room(sum(row["count"] for row in rows), sum(row["size"] for row in rows))

    async def note(self, entry: AuditEntry, keep: int = AUDIT_LIMIT) -> AuditEntry:
        stored = AuditEntry(*shortened(entry))
        args = {"tenant": stored.tenant, "refused": bool(stored.refused), "keep": keep}
        answer = await self._shared("audit", "note", **args, entry=codec.text(asdict(stored)))
        return _entry({**answer, "entry": codec.text(asdict(stored))})

    async def audit(self, tenant: str = ALL_TENANTS, count: int = 100) -> list[AuditEntry]:
        args = {"tenant": None if tenant == ALL_TENANTS else tenant, "count": count}
        return newest([_entry(row) for row in await self._shared("audit", "audit", **args)], count)


def _entry(row: codec.Row) -> AuditEntry:
    fields = codec.read(row["entry"])
    return AuditEntry(**{**fields, "at": row["at"], "id": f"{row['at']}-{row['number']}"})
