"""The audit entries on Redis: bounded streams in a slot of their own, two for each tenant."""

from __future__ import annotations

from txmanager.core.audit import ALL_TENANTS, AUDIT_LIMIT, AuditEntry, newest, shortened
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend

_FIELDS = ("who", "tenant", "what", "on", "origin", "told", "refused")


class AuditLog(Backend):
    async def note(self, entry: AuditEntry, keep: int = AUDIT_LIMIT) -> AuditEntry:
        texts = shortened(entry)
        keys = self._keys
        fields = [part for pair in zip(_FIELDS, texts, strict=True) for part in pair]
        stream = keys.audit(texts[1], refused=bool(texts[6]))
        id = await self._runner.run("note", [stream, keys.audited], (texts[1], keep, *fields), durable=True)
        return _entry(id, dict(zip(_FIELDS, texts, strict=True)))

    async def audit(self, tenant: str = ALL_TENANTS, count: int = 100) -> list[AuditEntry]:
        keys, tenants = self._keys, [tenant]
        if tenant == ALL_TENANTS:
            [members] = await self._runner.plain(keys.audited, ("SMEMBERS", keys.audited))
            tenants = [member.decode() for member in members]
        streams = [keys.audit(name, refused=refused) for name in tenants for refused in (False, True)]
        if not streams:
            return []
        pages = await self._runner.plain(
            keys.audited, *(("XREVRANGE", stream, "+", "-", "COUNT", count) for stream in streams)
        )
        found = [
            _entry(id, {name.decode(): value.decode() for name, value in codec.pairs(flat).items()})
            for page in pages
            for id, flat in page
        ]
        return newest(found, count)


def _entry(id: bytes, texts: dict[str, str]) -> AuditEntry:
    text = id.decode()
    return AuditEntry(**{name: texts.get(name, "") for name in _FIELDS}, at=int(text.partition("-")[0]), id=text)
