"""Accepting on Durable Objects: claims in homes, appends to lanes, and what callers may read and ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.errors import NotAllowed, NotFound
from txmanager.core.ledger import Appended, Claim, Claimed, Entry
from txmanager.core.models import IntentId, Json, Outcome, Record
from txmanager.core.quotas import Room, Share
from txmanager.core.reservations import Use
from txmanager.core.seal import BAD_SEAL
from txmanager.core.states import Status
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.backend import Backend
from txmanager.ledger.durable.link import Call
from txmanager.ledger.inputs import check_one_step
from txmanager.ledger.redis.codec import more, pack_outcome

_ALIASES = 8
"""An alias names a key that is no alias; a longer chain is two callers' keys that name each other."""


class Producers(Backend):
    async def claim(self, claims: Sequence[Claim]) -> list[Claimed]:
        calls = [Call(self._home_object(c.id.home), "claim", {"claims": [_wish(c)]}) for c in claims]
        answers = await self._link.call_many(calls)
        return [_claimed(c.id, answer) for c, [answer] in zip(claims, answers, strict=True)]

    async def move(self, id: IntentId, life: str, old_lane: str, new_lane: str) -> Claimed:
        return _claimed(id, await self._home(id, "move", life=life, **{"from": old_lane, "to": new_lane}))

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> Claimed:
        answer = await self._home(id, "alias", slot=id.home, fingerprint=fingerprint, target=target.text)
        return _claimed(id, answer)

    async def append(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        answers = await self._lane(lane, "append", entries=[_entry(entry) for entry in entries])
        return [_appended(answer) for answer in answers]

    def born_now(self) -> int | None:
        """None: a home and a lane are two objects."""
        return None

    async def accept(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        check_one_step(False)
        return []

    async def read(self, id: IntentId) -> Record | None:
        seen, aliases = "", 0
        while True:
            home = await self._home(id, "read")
            if home is None:
                return None
            if home["alias_of"] is not None:
                id, aliases = IntentId.parse(home["alias_of"]), aliases + 1
                if aliases > _ALIASES:
                    return None
                continue
            if home["record"] is not None:
                return codec.unpack_kept(id, home)
            record = await self._record(home["lane"], id, home["life"])
            if record is not None:
                return record
            place = home["life"] + home["lane"]
            if seen == place:
                return None
            seen = place  # retired between the two reads: the home knows now

    async def _record(self, lane: str, id: IntentId, life: str) -> Record | None:
        row = await self._lane(lane, "record", id=id.text, life=life)
        return None if row is None else codec.unpack_record(lane, row)

    async def cancel(self, id: IntentId) -> Record:
        outcome = pack_outcome(Outcome(Status.CANCELLED)).decode()
        while not (record := await self._found(id)).status.final:
            args = {"id": record.id.text, "life": record.life, "outcome": outcome}
            if await self._lane(record.lane, "cancel", **args):
                return await self._found(id)
        if record.status is not Status.CANCELLED:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status} already; its result stands")
        return record

    async def resolve(self, id: IntentId, directive: Mapping[str, Json]) -> Record:
        record = await self._found(id)
        asked = False
        if not record.status.final:
            args = {"id": record.id.text, "life": record.life, "directive": codec.text(directive)}
            asked = await self._lane(record.lane, "resolve", **args)
            record = await self._found(id)
        if not asked:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}, only a held one can be resolved")
        return record

    async def reseal(self, record: Record, seal: str) -> bool:
        args = {"id": record.id.text, "life": record.life, "more": more(record.intent, seal).decode()}
        return bool(await self._lane(record.lane, "reseal", reason=BAD_SEAL, **args))

    async def _found(self, id: IntentId) -> Record:
        record = await self.read(id)
        if record is None:
            raise NotFound(f"no intent {id.key!r} in pool {id.pool!r}")
        return record


def _wish(claim: Claim) -> codec.Row:
    id = claim.id
    return {"id": id.text, "slot": id.home, "fingerprint": claim.fingerprint, "lane": claim.lane, "life": claim.life}


def _claimed(id: IntentId, answer: codec.Row) -> Claimed:
    word: Any = answer["word"]
    match word:
        case "conflict":
            return Claimed(word)
        case "alias":
            return Claimed(word, alias_of=IntentId.parse(answer["alias_of"]))
        case "final":
            return Claimed(word, answer["lane"], answer["life"], answer["born"], codec.unpack_kept(id, answer))
    return Claimed(word, answer["lane"], answer["life"], answer["born"])


def _entry(entry: Entry) -> codec.Row:
    intent = entry.intent
    return {
        "id": intent.id.text,
        "life": entry.life,
        "born": entry.born,
        "kind": intent.kind,
        "fingerprint": intent.fingerprint,
        "more": more(intent, entry.seal).decode(),
        "payload": codec.text(intent.payload),
        "use": _use(entry.use),
        "charge": _share(entry.share),
    }


def _use(use: Use | None) -> codec.Row | None:
    return None if use is None else {"token": use.token, "nonce": str(use.nonce), "hash": use.hash}


def _share(share: Share | None) -> codec.Row | None:
    if share is None:
        return None
    return {"owner": share.owner, "size": share.size, "most": share.most, "most_bytes": share.most_bytes}


def _appended(answer: codec.Row) -> Appended:
    word: Any = answer["word"]
    room = answer.get("room")
    return Appended(
        word,
        answer.get("position", ""),
        answer.get("status", ""),
        answer.get("depth", 0),
        answer.get("at", 0),
        codec.count(answer.get("cursor")),
        None if room is None else Room(room["count"], room["size"]),
    )
