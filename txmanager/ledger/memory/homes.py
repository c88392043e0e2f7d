"""Homes: who owns an idempotency key, and its final answer for as long as it is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from txmanager.core.ledger import Claim, Claimed
from txmanager.core.models import IntentId, Record


@dataclass(slots=True)
class Home:
    fingerprint: str
    lane: str = ""
    life: str = ""
    born: int = 0
    record: Record | None = None
    alias_of: IntentId | None = None
    expires: int | None = None


def _kept(record: Record) -> Record:
    """Everything a retry is answered with: neither payload nor raw bytes."""
    bare = tuple(replace(a, raw=b"") for a in record.attempts)
    return replace(record, intent=replace(record.intent, payload={}), attempts=bare)


class Homes:
    """Every home of the ledger; each method is one atomic step."""

    def __init__(self) -> None:
        self._homes: dict[IntentId, Home] = {}

    def get(self, id: IntentId, now: int) -> Home | None:
        home = self._homes.get(id)
        if home is not None and home.expires is not None and home.expires <= now:
            del self._homes[id]
            return None
        return home

    def claim(self, claim: Claim, now: int) -> Claimed:
        home = self.get(claim.id, now)
        if home is None:
            self._homes[claim.id] = Home(claim.fingerprint, claim.lane, claim.life, now)
            return Claimed("claimed", lane=claim.lane, life=claim.life, born=now)
        if home.fingerprint != claim.fingerprint:
            return Claimed("conflict")
        if home.record is not None:
            return Claimed("final", lane=home.lane, life=home.life, born=home.born, record=home.record)
        home.born = now
        if home.alias_of is not None:
            return Claimed("alias", alias_of=home.alias_of)
        return Claimed("renewed", lane=home.lane, life=home.life, born=now)

    def move(self, id: IntentId, life: str, old_lane: str, new_lane: str, now: int) -> Claimed:
        home = self.get(id, now)
        if home is None or home.alias_of is not None or home.life != life:
            return Claimed("conflict")
        if home.record is not None:
            return Claimed("final", lane=home.lane, life=home.life, born=home.born, record=home.record)
        if home.lane == old_lane:
            home.lane, home.born = new_lane, now
        return Claimed("renewed", lane=home.lane, life=home.life, born=home.born)

    def alias(self, id: IntentId, fingerprint: str, target: IntentId, now: int) -> Claimed:
        home = self.get(id, now)
        if home is None:
            self._homes[id] = Home(fingerprint, born=now, alias_of=target)
            return Claimed("alias", alias_of=target)
        if home.fingerprint != fingerprint:
            return Claimed("conflict")
        if home.alias_of is not None:
            home.born = now
            return Claimed("alias", alias_of=home.alias_of)
        return self.claim(Claim(id, fingerprint, "", ""), now)

    def retire(self, record: Record, retention_ms: int, now: int) -> bool:
        home = self.get(record.id, now)
        if home is not None and home.life != record.life:
            return False
        if home is None or home.record is None:
            self._homes[record.id] = Home(
                record.intent.fingerprint,
                record.lane,
                record.life,
                record.created_at,
                _kept(record),
                None,
                now + retention_ms,
            )
        return True

    def finals(self, now: int) -> list[Record]:
        found = [self.get(id, now) for id in list(self._homes)]
        return [home.record for home in found if home is not None and home.record is not None]

    def stale(self, slot: int, born_before: int, now: int) -> list[tuple[IntentId, Home]]:
        found = [(id, self.get(id, now)) for id in list(self._homes) if id.home == slot]
        return [(id, home) for id, home in found if home and home.record is None and home.born < born_before]

    def forget(self, id: IntentId, life: str, born: int, now: int) -> bool:
        """Delete an open claim or an alias, only if it is still the one that was read."""
        home = self.get(id, now)
        if home is None or home.record is not None or home.life != life or home.born != born:
            return False
        del self._homes[id]
        return True
