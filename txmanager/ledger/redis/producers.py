"""Accepting on Redis: claims in homes, appends to lanes, and what callers may read and ask."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.errors import NotAllowed, NotFound, RolledBack
from txmanager.core.ledger import APPEND_WITHIN_MS, Appended, Claim, Claimed, Entry
from txmanager.core.models import IntentId, Json, Outcome, Record
from txmanager.core.quotas import Room, Share
from txmanager.core.seal import BAD_SEAL
from txmanager.core.states import Status
from txmanager.ledger.inputs import check_one_step
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend
from txmanager.ledger.redis.runner import Arg, Call

_HELD_FOR_SEAL = codec.dumps({"reason": BAD_SEAL})[:-1]
"""How the hold of a record begins that waits for another seal."""
_ALIASES = 8
"""An alias names a key that is no alias; a longer chain is two callers' keys that name each other."""


class Producers(Backend):
    async def claim(self, claims: Sequence[Claim]) -> list[Claimed]:
        await self._gauge.check()
        calls = [Call("claim", self._home_keys(c.id), (c.id.text, c.fingerprint, c.lane, c.life)) for c in claims]
        replies = await self._runner.run_joined(calls, durable=True)
        answers = [self._claimed(c.id, r) for c, r in zip(claims, replies, strict=True)]
        for answer in answers:
            if answer.word in ("claimed", "renewed"):
                self._hear(answer.born)
        return answers

    async def move(self, id: IntentId, life: str, old_lane: str, new_lane: str) -> Claimed:
        reply = await self._runner.run("move", self._home_keys(id), (str(id), life, old_lane, new_lane), durable=True)
        return self._claimed(id, reply)

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> Claimed:
        args = (str(id), fingerprint, str(target))
        reply = await self._runner.run("alias", self._home_keys(id), args, durable=True)
        return self._claimed(id, reply)

    @staticmethod
    def _claimed(id: IntentId, reply: Sequence[bytes]) -> Claimed:
        match reply:
            case [b"claimed" | b"renewed" as word, lane, life, born]:
                return Claimed("claimed" if word == b"claimed" else "renewed", lane.decode(), life.decode(), int(born))
            case [b"final", body]:
                fingerprint, life_, born_, lane_ = (part.decode() for part in body.partition(b"\n")[0].split(b" "))
                record = codec.unpack_final(id, fingerprint, life_, lane_, body.partition(b"\n")[2])
                return Claimed("final", lane_, life_, int(born_), record)
            case [b"alias", target]:
                return Claimed("alias", alias_of=IntentId.parse(target.decode()))
            case _:
                return Claimed("conflict")

    async def append(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        args: list[Arg] = [APPEND_WITHIN_MS, self._keys.wake(lane)]
        for entry in entries:
            args += _entry_args(entry)
        records = self._keys.records(lane, [e.intent.id for e in entries])
        homes = [self._keys.home(e.intent.id) for e in entries] if self._link.one_server else []
        keys = [*self._append_keys(lane), *records, *homes]
        replies = await self._runner.run("append", keys, args, durable=True)
        return [self._appended(reply) for reply in replies]

    def born_now(self) -> int | None:
        if self._heard is None or not self._one_step:
            return None
        server_ms, then = self._heard
        return server_ms + int((time.monotonic() - then) * 1000)

    async def accept(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        check_one_step(self._one_step)
        await self._gauge.check()
        keys = self._append_keys(lane)
        args: list[Arg] = [APPEND_WITHIN_MS, self._keys.wake(lane), lane]
        for entry, record in zip(entries, self._keys.records(lane, [e.intent.id for e in entries]), strict=True):
            keys += (record, self._keys.home(entry.intent.id))
            args += _entry_args(entry)
        return [self._appended(reply) for reply in await self._runner.run("accept", keys, args, durable=True)]

    def _append_keys(self, lane: str) -> list[str]:
        keys = self._keys
        numbers = [keys.reservations(lane), keys.reservation_deadlines(lane), keys.unfinished(lane)]
        return [keys.lane(lane), keys.queue(lane), keys.events(lane), *numbers]

    @staticmethod
    def _appended(reply: Sequence[Any]) -> Appended:
        match reply:
            case [b"appended" | b"exists" as word, sid, status, depth, at]:
                name: Any = word.decode()
                return Appended(name, sid.decode(), status.decode(), int(depth), int(at))
            case [b"full", depth]:
                return Appended("full", depth=int(depth))
            case [b"no_room", count, size]:
                return Appended("no_room", room=Room(int(count), int(size)))
            case [b"unreserved" | b"used" as word, cursor]:
                name = word.decode()
                return Appended(name, cursor=int(cursor) if cursor else None)
            case _:
                return Appended(reply[0].decode())

    async def read(self, id: IntentId) -> Record | None:
        seen, aliases = "", 0
        while True:
            [home] = await self._runner.plain(self._keys.home(id), ("GET", self._keys.home(id)))
            if home is None:
                return None
            head, _, final = home.partition(b"\n")
            fingerprint, life, _, lane = head.decode().split(" ")
            if life == "alias":
                id, aliases = IntentId.parse(lane), aliases + 1
                if aliases > _ALIASES:
                    return None
                continue
            if final:
                record = codec.unpack_final(id, fingerprint, life, lane, final)
                if self._unsure([record]):
                    again = await self._runner.run("confirm_home", self._home_keys(id), durable=True)
                    if again != home:
                        continue  # a failover took back what was read, or another life began
                return record
            [found] = await self._surely(lane, [id])
            if found is not None and found.life == life:
                return found
            if seen == life + lane:
                return None
            seen = life + lane  # retired between the two reads: the home knows now

    async def cancel(self, id: IntentId) -> Record:
        while not (record := await self._found(id)).status.final:
            keys, lane = self._keys, record.lane
            outcome = codec.pack_outcome(Outcome(Status.CANCELLED))
            reply = await self._runner.run(
                "cancel",
                [*self._lane_keys(lane, events=True), keys.record(lane, record.id)],
                (
                    str(record.id),
                    record.life,
                    outcome,
                    keys.wake(lane),
                    keys.final(lane),
                    "vouched" if self.vouches else "",
                ),
                durable=True,
            )
            if reply[0] == b"rolled_back":
                raise RolledBack(lane, reply[1].decode(), reply[2].decode())
            if reply[0] in (b"cancelled", b"asked"):
                return await self._found(id)
        if record.status is not Status.CANCELLED:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status} already; its result stands")
        return record

    async def resolve(self, id: IntentId, directive: Mapping[str, Json]) -> Record:
        record = await self._found(id)
        if record.status.final:  # told already, though a failover may have forgotten that it ended in its lane
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}, only a held one can be resolved")
        lane = record.lane
        reply = await self._runner.run(
            "resolve",
            [self._keys.lane(lane), self._keys.record(lane, record.id)],
            (record.life, codec.dumps(directive), self._keys.wake(lane)),
            durable=True,
        )
        record = await self._found(id)
        if reply[0] != b"asked":
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}, only a held one can be resolved")
        return record

    async def reseal(self, record: Record, seal: str) -> bool:
        lane = record.lane
        reply = await self._runner.run(
            "reseal",
            [*self._lane_keys(lane, events=True)[:4], self._keys.record(lane, record.id)],
            (str(record.id), record.life, codec.more(record.intent, seal), _HELD_FOR_SEAL, self._keys.wake(lane)),
            durable=True,
        )
        return bool(reply[0] == b"ok")

    async def _found(self, id: IntentId) -> Record:
        record = await self.read(id)
        if record is None:
            raise NotFound(f"no intent {id.key!r} in pool {id.pool!r}")
        return record


def _entry_args(entry: Entry) -> tuple[Arg, ...]:
    """An intent as append and accept read it."""
    intent, use = entry.intent, entry.use
    return (
        intent.id.text,
        entry.life,
        entry.born,
        intent.fingerprint,
        intent.kind,
        codec.more(intent, entry.seal),
        codec.dumps(intent.payload),
        *((use.token, str(use.nonce), use.hash) if use is not None else ("", "", "")),
        _shared(entry.share),
    )


def _shared(share: Share | None) -> str:
    if share is None:
        return ""
    limits = ("-" if most is None else str(most) for most in (share.most, share.most_bytes))
    return " ".join((share.owner, str(share.size), *limits))
