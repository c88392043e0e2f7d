"""`RedisLedger`: the ledger on Redis or Valkey, single, Sentinel or Cluster.

Every method is one script (or one per home and one per lane), named after the transition it makes. Python builds the
arguments and reads the words; Lua compares and writes. Nothing here decides anything about money.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.errors import (
    Fenced,
    InvalidSettings,
    LaneClosed,
    NotAllowed,
    NotFound,
    Refused,
    RolledBack,
)
from txmanager.core.ledger import (
    APPEND_WITHIN_MS,
    SCHEMA,
    SWEEP_AFTER_MS,
    TOMBSTONE_MS,
    Appended,
    Claim,
    Claimed,
    Entry,
    Lease,
    Member,
    Renewed,
    Route,
    Settled,
    Settlement,
    Taken,
    WriteAhead,
)
from txmanager.core.models import Event, Fence, IntentId, Json, Lane, LaneSpec, Outcome, Record
from txmanager.core.states import LaneState, Status, lane_sources, sources
from txmanager.ledger.inputs import check_final, check_retirable, check_token
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.checks import Durability, check_server
from txmanager.ledger.redis.ears import Ears
from txmanager.ledger.redis.keys import Keys
from txmanager.ledger.redis.links import Dial, SingleLink, connect
from txmanager.ledger.redis.memory import Gauge
from txmanager.ledger.redis.runner import Arg, Call, Runner

DAY_MS = 24 * 3600 * 1000
_SWEEP_PAGE = 1000
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,63}\Z")
_ALIASES = 8
"""An alias names a key that is no alias; a longer chain is two callers' keys that name each other."""


class RedisLedger:
    def __init__(
        self,
        url: str,
        *,
        prefix: str = "txm",
        durability: Durability = "fsync",
        replicas: int = 1,
        retention_ms: int = 7 * DAY_MS,
        timeout_s: float = 1.0,
        wait_ms: int = 500,
    ) -> None:
        if not _PREFIX.match(prefix):
            raise InvalidSettings(
                "ledger.prefix", "must be 1 to 63 of A-Z a-z 0-9 _ . : - (no braces: they pick the slot)"
            )
        self._durability = durability
        self._replicas = replicas
        self._retention_ms = retention_ms
        self._link = connect(url, Dial(timeout_s, replicas if durability == "replicas" else 0, wait_ms))
        self._runner = Runner(self._link, timeout_s)
        self._keys = Keys(prefix)
        self._ears = Ears(self._link, timeout_s)
        self._gauge = Gauge(self._link)

    @property
    def vouches(self) -> bool:
        """Whether an acknowledged write outlives what can change the replication id in this mode."""
        return self._durability == "replicas" or (self._durability == "fsync" and isinstance(self._link, SingleLink))

    @property
    def runner(self) -> Runner:
        return self._runner

    async def start(self) -> list[str]:
        """Refuse a server that cannot keep the promises; answers the warnings."""
        return await check_server(self._link, self._durability, self._replicas)

    async def close(self) -> None:
        self._runner.close()
        await self._ears.close()
        await self._link.close()

    # -- producers: homes

    async def claim(self, claims: Sequence[Claim]) -> list[Claimed]:
        await self._gauge.check()
        calls = [Call("claim", self._home_keys(c.id), (str(c.id), c.fingerprint, c.lane, c.life)) for c in claims]
        replies = await self._runner.run_joined(calls, durable=True)
        return [self._claimed(c.id, r) for c, r in zip(claims, replies, strict=True)]

    async def move(self, id: IntentId, life: str, old_lane: str, new_lane: str) -> Claimed:
        reply = await self._runner.run("move", self._home_keys(id), (str(id), life, old_lane, new_lane), durable=True)
        return self._claimed(id, reply)

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> Claimed:
        args = (str(id), fingerprint, str(target))
        reply = await self._runner.run("alias", self._home_keys(id), args, durable=True)
        return self._claimed(id, reply)

    def _home_keys(self, id: IntentId) -> tuple[str, str]:
        return self._keys.of_home(id)

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

    # -- producers: lanes

    async def append(self, lane: str, entries: Sequence[Entry]) -> list[Appended]:
        keys = self._keys
        args: list[Arg] = [APPEND_WITHIN_MS, keys.wake(lane)]
        for entry in entries:
            intent = entry.intent
            payload = codec.dumps(intent.payload)
            args += (
                str(intent.id),
                entry.life,
                entry.born,
                intent.fingerprint,
                intent.kind,
                codec.more(intent),
                payload,
            )
        records = [keys.record(lane, e.intent.id) for e in entries]
        replies = await self._runner.run(
            "append", [keys.lane(lane), keys.queue(lane), keys.events(lane), *records], args, durable=True
        )
        return [self._appended(reply) for reply in replies]

    @staticmethod
    def _appended(reply: Sequence[Any]) -> Appended:
        match reply:
            case [b"appended" | b"exists" as word, sid, status, depth, at]:
                name: Any = word.decode()
                return Appended(name, sid.decode(), status.decode(), int(depth), int(at))
            case [b"full", depth]:
                return Appended("full", depth=int(depth))
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
                return codec.unpack_final(id, fingerprint, life, lane, final)
            [record] = await self._records(lane, [id])
            if record is not None and record.life == life:
                return record
            if seen == life + lane:
                return None
            seen = life + lane  # retired between the two reads: the home knows now

    async def _records(self, lane: str, ids: Sequence[IntentId]) -> list[Record | None]:
        keys = [self._keys.queue(lane), *(self._keys.record(lane, id) for id in ids)]
        records: list[Record | None] = []
        for id, (flat, entry) in zip(ids, await self._runner.run("records", keys), strict=True):
            fields = codec.pairs(flat)
            if fields.get(b"s", b"retired") == b"retired":
                records.append(None)
            else:
                records.append(codec.record(id, lane, fields, codec.pairs(entry).get(b"p")))
        return records

    async def cancel(self, id: IntentId) -> Record:
        while not (record := await self._found(id)).status.final:
            keys, lane = self._keys, record.lane
            outcome = codec.pack_outcome(Outcome(Status.CANCELLED))
            reply = await self._runner.run(
                "cancel",
                [*self._lane_keys(lane, events=True), keys.record(lane, record.id)],
                (str(record.id), record.life, outcome, keys.wake(lane), keys.final(lane)),
                durable=True,
            )
            if reply[0] in (b"cancelled", b"asked"):
                return await self._found(id)
        if record.status is not Status.CANCELLED:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status} already; its result stands")
        return record

    async def resolve(self, id: IntentId, directive: Mapping[str, Json]) -> Record:
        record = await self._found(id)
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

    async def _found(self, id: IntentId) -> Record:
        record = await self.read(id)
        if record is None:
            raise NotFound(f"no intent {id.key!r} in pool {id.pool!r}")
        return record

    # -- owners

    def _lane_keys(self, lane: str, *, events: bool = False) -> list[str]:
        keys = self._keys
        first = [keys.lane(lane), keys.queue(lane)]
        return [*first, *([keys.events(lane)] if events else []), keys.unfinished(lane), keys.finals(lane)]

    async def lease(self, lane: str, owner: str, token: str, lease_ms: int) -> Lease:
        check_token(token)
        reply = await self._runner.run("lease", self._lane_keys(lane), (owner, token, lease_ms, SCHEMA))
        match reply:
            case [b"leased", epoch, holder, snapshot]:
                fence = Fence(lane, holder.decode(), int(epoch), token)
                return Lease("leased", fence, codec.lane(lane, snapshot), fence.owner, lease_ms)
            case [b"held", holder, left]:
                return Lease("held", owner=holder.decode(), left_ms=int(left))
            case [word, *_]:
                name: Any = word.decode()
                return Lease(name)
        raise AssertionError(reply)

    async def renew(self, fences: Sequence[Fence], lease_ms: int) -> list[Renewed]:
        calls = [
            Call("renew", (self._keys.lane(f.lane), self._keys.queue(f.lane)), (f.epoch, f.token, lease_ms))
            for f in fences
        ]
        answers = []
        for fence, reply in zip(fences, await self._runner.run_many(calls), strict=True):
            if reply[0] == b"renewed":
                _, depth, state, asks, stored, found = reply
                answers.append(
                    Renewed(
                        "renewed",
                        depth,
                        LaneState(state.decode()),
                        int(asks),
                        stored != found,
                        fence.owner,
                        fence.epoch,
                    )
                )
            else:
                answers.append(Renewed("fenced", owner=reply[1].decode(), epoch=int(reply[2])))
        return answers

    async def release(self, fence: Fence) -> bool:
        reply = await self._runner.run("release", [self._keys.lane(fence.lane)], (fence.epoch, fence.token))
        return bool(reply[0] == b"released")

    async def baseline(self, fence: Fence, cursor: int, *, operator: bool = False) -> int:
        args = (fence.epoch, fence.token, str(cursor), "operator" if operator else "")
        reply = await self._fenced(fence, "baseline", [self._keys.lane(fence.lane)], args, durable=True)
        return int(reply[1])

    async def vouch(self, fence: Fence, stored: str, found: str) -> bool:
        args = (fence.epoch, fence.token, stored, found)
        reply = await self._fenced(fence, "vouch", [self._keys.lane(fence.lane)], args)
        return bool(reply[0] == b"ok")

    async def take(self, fence: Fence, count: int) -> list[Taken]:
        keys = [self._keys.lane(fence.lane), self._keys.queue(fence.lane)]
        reply = await self._fenced(fence, "take", keys, (fence.epoch, fence.token, count))
        if reply[0] != b"ok":
            return []
        taken = []
        for sid, flat in reply[1:]:
            fields = codec.pairs(flat)
            id = IntentId.parse(fields[b"i"].decode())
            intent = codec.intent(id, fields, fields[b"p"])
            taken.append(Taken(intent, fields[b"l"].decode(), sid.decode(), int(sid.partition(b"-")[0])))
        return taken

    async def unfinished(self, fence: Fence) -> list[Record]:
        lane = fence.lane
        keys = [self._keys.lane(lane), self._keys.unfinished(lane)]
        reply = await self._fenced(fence, "unfinished", keys, (fence.epoch, fence.token))
        ids = [IntentId.parse(id.decode()) for id in reply[1:]]
        if not ids:
            return []
        found = [r for r in await self._records(lane, ids) if r is not None and not r.status.final]
        return sorted((r for r in found if r.attempts), key=lambda r: min(a.nonce for a in r.attempts))

    async def record_attempts(self, fence: Fence, cursor: int, batch: Sequence[WriteAhead]) -> int:
        lane = fence.lane
        after = max([cursor, *(w.attempt.nonce + 1 for w in batch)])
        args: list[Arg] = [fence.epoch, fence.token, str(cursor), str(after)]
        for write in batch:
            attempt = write.attempt
            args += (
                str(write.id),
                write.life,
                write.stream_id,
                attempt.purpose.value,
                str(attempt.nonce),
                attempt.hash,
            )
            args += (codec.pack_attempt(attempt), int(write.counted), *_deaths(write.deaths))
        keys = [
            self._keys.lane(lane),
            self._keys.queue(lane),
            self._keys.events(lane),
            self._keys.unfinished(lane),
            *(self._keys.record(lane, w.id) for w in batch),
        ]
        reply = await self._fenced(fence, "record_attempts", keys, args, durable=True)
        if reply[0] == b"refused":
            raise Refused(lane if reply[1] == b"lane" else reply[1].decode(), reply[2].decode())
        if reply[0] == b"rolled_back":
            raise RolledBack(lane, reply[1].decode(), reply[2].decode())
        return int(reply[1])

    async def settle(self, fence: Fence, batch: Sequence[Settlement], landed: int | None = None) -> list[Settled]:
        lane = fence.lane
        args: list[Arg] = [fence.epoch, fence.token, "" if landed is None else str(landed), self._keys.final(lane)]
        for item in batch:
            outcome = check_final(item.outcome)
            name = "" if outcome.tx_hash is None else f"{outcome.nonce}:{outcome.tx_hash}"
            code = str(outcome.error["code"]) if outcome.error else ""
            args += (str(item.id), item.life, outcome.status.value, _words(sources(outcome.status)))
            args += (codec.pack_outcome(outcome), name, code, outcome.tx_hash or "", *_deaths(item.deaths))
        keys = [*self._lane_keys(lane, events=True), *(self._keys.record(lane, i.id) for i in batch)]
        # an outcome seen on chain can be seen again; one that only we know must not be lost
        durable = any(item.outcome.tx_hash is None for item in batch)
        reply = await self._fenced(fence, "settle", keys, args, durable=durable)
        answers = []
        for item in reply[1:]:
            word: Any = item[0].decode()
            answers.append(
                Settled(word, item[1].decode() if len(item) > 1 else "", int(item[2]) if len(item) > 2 else 0)
            )
        return answers

    async def hold(self, fence: Fence, id: IntentId, life: str, reason: str, evidence: Mapping[str, Json]) -> bool:
        lane = fence.lane
        keys = [self._keys.lane(lane), self._keys.events(lane), self._keys.record(lane, id)]
        held = codec.dumps({"reason": reason, "evidence": evidence})
        args = (fence.epoch, fence.token, str(id), life, reason, held)
        reply = await self._fenced(fence, "hold", keys, args)
        return bool(reply[0] == b"held")

    async def answer(self, fence: Fence, id: IntentId, life: str) -> bool:
        keys = [self._keys.lane(fence.lane), self._keys.record(fence.lane, id)]
        reply = await self._fenced(fence, "answer", keys, (fence.epoch, fence.token, life))
        return bool(reply[0] == b"ok")

    async def _fenced(
        self, fence: Fence, name: str, keys: Sequence[str], args: Sequence[Arg], *, durable: bool = False
    ) -> Any:
        reply = await self._runner.run(name, keys, args, durable=durable)
        if reply[0] == b"fenced":
            raise Fenced(fence.lane, reply[1].decode(), int(reply[2]))
        return reply

    # -- final records

    async def unretired(self, lane: str, count: int) -> list[Record]:
        finals = self._keys.finals(lane)
        [found] = await self._runner.plain(finals, ("SRANDMEMBER", finals, count))
        ids = [IntentId.parse(id.decode()) for id in found]
        return [r for r in await self._records(lane, ids) if r is not None and r.status.final] if ids else []

    async def retire(self, records: Sequence[Record]) -> int:
        check_retirable(records)
        if not records:
            return 0
        calls = [
            Call(
                "retire_home",
                self._home_keys(r.id),
                (str(r.id), r.intent.fingerprint, r.life, r.lane, r.created_at, codec.pack_final(r)),
            )
            for r in records
        ]
        await self._runner.run_joined(calls, (self._retention_ms,), durable=True)
        by_lane: dict[str, list[Record]] = {}
        for record in records:
            by_lane.setdefault(record.lane, []).append(record)
        burials = []
        for lane, group in by_lane.items():
            args: list[Arg] = [TOMBSTONE_MS]
            for record in group:
                args += (str(record.id), record.life, record.status.value)
            keys = [self._keys.finals(lane), *(self._keys.record(lane, r.id) for r in group)]
            burials.append(Call("bury", keys, args))
        return sum(await self._runner.run_many(burials))

    async def sweep(self, home: int, older_than_ms: int = SWEEP_AFTER_MS) -> int:
        gone = kept = 0
        while True:
            # claims that stay are skipped on the next page, so that they cannot hide what lies behind them
            args = (older_than_ms, kept, _SWEEP_PAGE)
            names = await self._runner.run("stale", [self._keys.open_claims(home)], args)
            for name in names:
                swept = await self._sweep_one(IntentId.parse(name.decode()))
                gone, kept = gone + swept, kept + (not swept)
            if len(names) < _SWEEP_PAGE:
                return gone

    async def _sweep_one(self, id: IntentId) -> bool:
        [value] = await self._runner.plain(self._keys.home(id), ("GET", self._keys.home(id)))
        head, _, final = (value or b"").partition(b"\n")
        life, born, lane = head.decode().split(" ")[1:] if head else ("", "", "")
        if life == "alias":
            # an alias stays for as long as its target is known
            target = self._keys.home(IntentId.parse(lane))
            [known] = await self._runner.plain(target, ("EXISTS", target))
            if known:
                return False
        elif head and not final:
            [record] = await self._records(lane, [id])
            if record is not None and record.life == life:
                return record.status.final and bool(await self.retire([record]))
        reply = await self._runner.run("forget", self._home_keys(id), (str(id), life, born))
        return bool(reply[0] == b"gone")

    # -- lanes and workers

    async def register(self, spec: LaneSpec) -> Lane:
        args = (codec.pack_spec(spec), spec.queue_limit, SCHEMA)
        reply = await self._runner.run("register", self._lane_keys(spec.id), args, durable=True)
        if reply[0] == b"closed":
            raise LaneClosed(spec.id)
        return await self._publish(spec.id, reply[1])

    async def set_lane(
        self,
        lane: str,
        state: LaneState,
        reason: str = "",
        evidence: Mapping[str, Json] | None = None,
        *,
        fence: Fence | None = None,
    ) -> Lane:
        args = (
            state.value,
            _words(lane_sources(state)),
            reason,
            codec.dumps(evidence or {}),
            "" if fence is None else fence.epoch,
            "" if fence is None else fence.token,
            self._keys.wake(lane),
        )
        reply = await self._runner.run("set_lane", self._lane_keys(lane), args, durable=True)
        match reply:
            case [b"fenced", owner, epoch]:
                raise Fenced(lane, owner.decode(), int(epoch))
            case [b"unknown"]:
                raise NotFound(f"no lane {lane}")
            case [b"refused", before]:
                raise NotAllowed(f"lane {lane} is {before.decode()}; it cannot become {state}")
            case [b"busy", left]:
                raise NotAllowed(f"lane {lane} still holds {left} records; drain it first")
        return await self._publish(lane, reply[1])

    async def _publish(self, lane: str, snapshot: Sequence[Any]) -> Lane:
        """Tell producers: the lane's own state stands first, the registry follows."""
        view = codec.lane(lane, snapshot)
        assert view is not None
        route = codec.dumps([view.spec.pool, view.spec.weight, view.state])
        await self._runner.run("publish", [self._keys.registry], (lane, codec.revision(snapshot), route))
        return view

    async def routes(self) -> list[Route]:
        [flat] = await self._runner.plain(self._keys.registry, ("HGETALL", self._keys.registry))
        found = []
        for lane, body in codec.pairs(flat).items():
            pool, weight, state = codec.loads(body.partition(b" ")[2])
            found.append(Route(lane.decode(), pool, weight, LaneState(state)))
        return found

    async def lanes(self, pool: str | None = None) -> list[Lane]:
        routes = [r for r in await self.routes() if pool in (None, r.pool)]
        snapshots = await self._runner.run_many([Call("lane", self._lane_keys(r.lane)) for r in routes])
        found = []
        for route, snapshot in zip(routes, snapshots, strict=True):
            view = codec.lane(route.lane, snapshot)
            if view is None:
                continue
            if route != Route(view.id, view.spec.pool, view.spec.weight, view.state):
                await self._publish(view.id, snapshot)  # whoever changed the lane died before telling producers
            found.append(view)
        return found

    async def lane(self, lane: str) -> Lane | None:
        return codec.lane(lane, await self._runner.run("lane", self._lane_keys(lane)))

    async def heartbeat(self, member: Member, ttl_ms: int) -> None:
        body = codec.dumps({"name": member.name, "lanes": sorted(member.lanes)})
        await self._runner.run("heartbeat", self._member_keys(), (member.name, body, ttl_ms))

    async def leave(self, name: str) -> None:
        members, deadlines = self._member_keys()
        await self._runner.plain(members, ("HDEL", members, name), ("ZREM", deadlines, name))

    async def members(self) -> list[Member]:
        reply = await self._runner.run("heartbeat", self._member_keys(), ("", "", 0))
        bodies = sorted((codec.loads(body) for body in reply), key=lambda b: str(b["name"]))
        return [Member(b["name"], frozenset(b["lanes"])) for b in bodies]

    def _member_keys(self) -> tuple[str, str]:
        return self._keys.members, self._keys.deadlines

    async def events(self, lane: str, after: str = "0-0", count: int = 100) -> list[Event]:
        stream = self._keys.events(lane)
        [found] = await self._runner.plain(stream, ("XRANGE", stream, f"({after}", "+", "COUNT", count))
        return [codec.event(lane, sid, flat) for sid, flat in found]

    # -- waiting

    async def wait_wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        by_channel = {self._keys.wake(lane): lane for lane in lanes}
        return {by_channel[c] for c in await self._ears.wake(list(by_channel), timeout_s)}

    async def wait_final(self, lane: str, id: IntentId, timeout_s: float) -> None:
        await self._ears.final(self._keys.final(lane), str(id), timeout_s)

    async def now_ms(self) -> int:
        [[seconds, micros]] = await self._runner.plain(self._keys.registry, ("TIME",))
        return int(seconds) * 1000 + int(micros) // 1000


def _words(states: Sequence[Any] | frozenset[Any]) -> str:
    """States as the scripts look for them: each with a blank on both sides."""
    return f" {' '.join(sorted(states))} "


def _deaths(deaths: Mapping[str, Mapping[str, Json]]) -> tuple[Arg, ...]:
    return len(deaths), *(part for name, proof in deaths.items() for part in (name, codec.dumps(proof)))
