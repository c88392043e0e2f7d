"""Where seals meet the lane: what a worker signs only after it checked that it was accepted as it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import orjson

from txmanager.core.ledger import Taken
from txmanager.core.models import Intent, Json, Record
from txmanager.core.seal import BAD_SEAL, SealCheck, SealMode, Seals
from txmanager.runtime.lane.owner import OwnedLane

_WHY = {
    SealCheck.MISSING: "it has no seal, and ledger.seal_mode is require",
    SealCheck.UNKNOWN_SECRET: "its seal was made with a secret that is not in ledger.seal of this worker",
    SealCheck.WRONG: "its seal does not fit what stands in the ledger: that was changed after it was accepted",
}


def encode(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def make_seals(secrets: Sequence[str], mode: SealMode = SealMode.ACCEPT) -> Seals:
    return Seals(secrets, mode, encode)


async def sealed(lane: OwnedLane, taken: list[Taken]) -> list[Taken]:
    """What may be signed of a batch. The rest is set aside: nothing of it is out, and the lane goes on."""
    seals = lane.context.seals
    if seals is None or lane.keyless:  # on a keyless lane nothing is signed: the bytes carry their caller's signature
        return taken
    good = []
    for entry in taken:
        check = seals.check(entry.intent, entry.life, lane.id, entry.seal)
        if seals.passes(check):
            good.append(entry)
            continue
        evidence = _evidence(check, entry.intent, entry.seal)
        held = await lane.retry_while_leased(
            lambda e=entry, w=evidence: lane.context.ledger.set_aside(lane.fence, e, BAD_SEAL, w)  # type: ignore[misc]
        )
        lane.context.metrics.holds.labels(lane.id, BAD_SEAL).inc()
        lane.log.error("intent set aside", intent=str(entry.intent.id), recorded=held, evidence=evidence)
    return good


def passes_seal(lane: OwnedLane, entry: Taken) -> bool:
    """Whether an entry may be signed, by its seal; nothing is done about one that may not."""
    seals = lane.context.seals
    return seals is None or seals.passes(seals.check(entry.intent, entry.life, lane.id, entry.seal))


async def still_sealed(lane: OwnedLane, record: Record) -> bool:
    """Whether a record that was signed before may be signed again; held with the evidence if not."""
    seals = lane.context.seals
    if seals is None:
        return True
    check = seals.check(record.intent, record.life, lane.id, record.seal)
    if seals.passes(check):
        return True
    now = await lane.retry_while_leased(lambda: lane.context.ledger.read(record.id))
    if now is None or (now.life, now.seal, now.intent.payload) != (record.life, record.seal, record.intent.payload):
        lane.refresh = True  # resealed since it was read, or ended: what it is now is looked at next
        lane.flying.set()
        return False
    await lane.hold(record, BAD_SEAL, _evidence(check, record.intent, record.seal))
    return False


def _evidence(check: SealCheck, intent: Intent, seal: str) -> dict[str, Json]:
    """Without the payload: it may be another tenant's, moved here."""
    try:
        found = hashlib.sha256(encode(intent.payload)).hexdigest()
    except (TypeError, ValueError):
        found = ""
    return {
        "check": check.value,
        "message": f"{_WHY[check]}; nothing was signed",
        "kind": intent.kind,
        "payload_sha256": found,
        "seal": seal,
        "resolve": f"compare it with what the caller asked for; then txmanager cancel or reseal {intent.id.key}",
    }
