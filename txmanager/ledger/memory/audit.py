"""The audit entries of one process, bounded as on Redis."""

from __future__ import annotations

from txmanager.core.audit import ALL_TENANTS, AuditEntry, newest, shortened


class AuditStore:
    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], list[AuditEntry]] = {}
        self._count = 0

    def note(self, entry: AuditEntry, keep: int, now: int) -> AuditEntry:
        self._count += 1
        stored = AuditEntry(*shortened(entry), at=now, id=f"{now}-{self._count}")
        kept = self._kept.setdefault((stored.tenant, bool(stored.refused)), [])
        kept.append(stored)
        del kept[:-keep]
        return stored

    def read(self, tenant: str, count: int) -> list[AuditEntry]:
        found = [e for (whose, _), kept in self._kept.items() if tenant in (ALL_TENANTS, whose) for e in kept]
        return newest(found, count)
