"""Lanes and workers on Redis: what is published, who lives, what happened."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txmanager.core.errors import Fenced, LaneClosed, NotAllowed, NotFound
from txmanager.core.ledger import APPEND_WITHIN_MS, SCHEMA, Member, Route, Taken
from txmanager.core.models import Event, Fence, IntentId, Json, Lane, LaneSpec, Record
from txmanager.core.positions import START, place
from txmanager.core.states import LaneState, lane_sources
from txmanager.core.stops import LaneCommand, StopCause
from txmanager.ledger.inputs import check_forgettable, check_stop, other_sort, outdated
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend, words
from txmanager.ledger.redis.runner import Call

_READ_ALL_S = 60.0
"""How often all routes are read: release 0.1.0 changes a lane's route without a word in the list of changes."""
_MOST_CHANGES = 1000
_FEW_ENTRIES = 16
"""Of a lane's events, read at first."""


@dataclass(frozen=True, slots=True)
class _Routes:
    """The registry as last read: the same list for as long as nothing changed."""

    revision: int
    routes: list[Route]
    read_at: float

    def changed(self, revision: int, news: Sequence[tuple[str, Route | None]]) -> _Routes:
        by_lane = {route.lane: route for route in self.routes}
        for lane, route in news:
            if route is not None:
                by_lane[lane] = route
            else:
                by_lane.pop(lane, None)
        return _Routes(revision, list(by_lane.values()), self.read_at)


def _route(lane: bytes, body: bytes | None) -> tuple[str, Route | None]:
    name = lane.decode()
    if body is None:
        return name, None
    pool, weight, state = codec.loads(body.partition(b" ")[2])
    return name, Route(name, pool, weight, LaneState(state))


def _digest(lanes: Collection[str]) -> str:
    return hashlib.blake2b("\n".join(sorted(lanes)).encode(), digest_size=16).hexdigest()


class Registry(Backend):
    _routes: _Routes | None = None
    _schema = 0

    _parked: _Routes | None = None
    _announced: tuple[Member, str] | None = None
    """What the server was told of this process, and its digest."""
    _listening: tuple[list[str], dict[str, str], frozenset[str]] | None = None
    """The lanes last listened to, and their channels."""
    _following: tuple[list[str], dict[str, str]] | None = None
    """The lanes whose news were last asked for, and their channels."""
    _lane_sets: Mapping[str, frozenset[str]] = {}
    """What live workers serve, by digest."""

    async def register(self, spec: LaneSpec) -> Lane:
        schema = await self.schema()
        args = (codec.pack_spec(spec), spec.queue_limit, schema, "1" if spec.keyless else "")
        reply = await self._runner.run("register", self._lane_keys(spec.id), args, durable=True)
        if reply[0] == b"closed":
            raise LaneClosed(spec.id)
        if reply[0] == b"other_sort":
            raise other_sort(spec)
        if (
            self._archive_lag is not None
            and (view := codec.lane(spec.id, reply[1])) is not None
            and view.archive is None
        ):
            keys = [self._keys.lane(spec.id), self._keys.backlog(spec.id)]
            await self._runner.run("archive", keys, (self._archive_lag,), durable=True)
        return await self._publish(spec.id, reply[1])

    async def schema(self) -> int:
        if self._schema < SCHEMA:  # it only grows
            keys = [self._keys.registry, self._keys.schema]
            self._schema = int(await self._runner.run("schema", keys, (SCHEMA, ""), durable=True))
        return self._schema

    async def check_upgrade(self) -> None:
        reply = await self._runner.run("members", self._keys.of_members)
        older = sorted(name.decode() for name, digest in codec.pairs(reply).items() if not digest)
        if older:  # workers tell a digest of their lanes since schema 2
            raise NotAllowed(
                f"an older release still runs, which could not read newer formats: worker {', '.join(older)}. "
                "Stop it, wait until its lanes moved, and try again; nothing was raised"
            )

    async def upgrade(self) -> list[str]:
        await self.check_upgrade()
        self._schema = int(
            await self._runner.run("schema", [self._keys.registry, self._keys.schema], (SCHEMA, "raise"), durable=True)
        )
        # Lanes that are registered from now on begin with it, so that none is missed between the two steps.
        lanes = [route.lane for route in await self.routes(fresh=True)]
        calls = [Call("raise", [self._keys.lane(lane), self._keys.queue(lane)], (self._schema,)) for lane in lanes]
        raised = await self._runner.run_many(calls, durable=True)
        return [lane for lane, done in zip(lanes, raised, strict=True) if done]

    async def admit_lane(self, owner: str, lane: str, most: int) -> bool:
        keys = [self._keys.made(owner), self._keys.registry, self._keys.parked]
        return bool(await self._runner.run("admit_lane", keys, (lane, most, APPEND_WITHIN_MS), durable=True))

    async def forget_lane(self, lane: str) -> None:
        keys = self._keys
        rest = [keys.queue(lane), keys.unfinished(lane), keys.finals(lane), keys.fills(lane), keys.backlog(lane)]
        rest.append(keys.events(lane))
        reply = await self._runner.run("forget_lane", [*keys.of_numbers(lane), *rest], durable=True)
        match reply:
            case [b"kept", keyless, state, why]:
                check_forgettable(lane, keyless == b"1", LaneState(state.decode()), why.decode())
        self._signed_upto.pop(lane, None)
        # The lane first: whoever dies in between leaves a route to nothing, which the next call takes away.
        gone = await self._runner.run("unpublish", keys.of_registry, (lane,))
        if reply[0] == b"unknown" and not gone:
            raise NotFound(f"no lane {lane}")

    async def park(self, fence: Fence, idle_ms: int) -> int:
        lane, keys = fence.lane, self._keys
        rest = [keys.queue(lane), keys.unfinished(lane), keys.finals(lane), keys.fills(lane), keys.backlog(lane)]
        rest.append(keys.events(lane))
        args = (fence.epoch, fence.token, idle_ms)
        reply = await self._runner.run("park", [*keys.of_numbers(lane), *rest], args, durable=True)
        match reply:
            case [b"fenced", owner, epoch]:
                raise Fenced(lane, owner.decode(), int(epoch))
            case [b"busy", left]:
                return int(left)
        self._signed_upto.pop(lane, None)
        # The lane first: whoever dies in between leaves a route to what nobody serves, which `lanes` takes away.
        await self._publish(lane, reply[1])
        return 0

    async def set_lane(
        self,
        lane: str,
        state: LaneState,
        reason: str = "",
        evidence: Mapping[str, Json] | None = None,
        *,
        cause: StopCause | None = None,
        command: LaneCommand | None = None,
        fence: Fence | None = None,
        asks: int | None = None,
    ) -> Lane:
        reason, cause, command = check_stop(state, reason, cause, command)
        args = (
            state.value,
            words(lane_sources(state)),
            reason,
            codec.dumps(evidence or {}),
            "" if fence is None else fence.epoch,
            "" if fence is None else fence.token,
            self._keys.wake(lane),
            cause or "",
            command or "",
            "" if asks is None else asks,
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
            case [b"outdated"]:
                raise outdated(lane)
        return await self._publish(lane, reply[1])

    async def _publish(self, lane: str, snapshot: Sequence[Any]) -> Lane:
        """Tell everybody: the lane's own state stands first, the registry follows."""
        view = codec.lane(lane, snapshot)
        assert view is not None
        route = codec.dumps([view.spec.pool, view.spec.weight, view.state])
        args = (lane, codec.revision(snapshot), route, "parked" if view.parked else "")
        await self._runner.run("publish", self._keys.of_registry, args)
        return view

    async def routes(self, *, fresh: bool = False) -> list[Route]:
        self._routes = await self._newest(self._keys.registry, self._routes, fresh)
        return self._routes.routes

    async def parked(self) -> list[Route]:
        self._parked = await self._newest(self._keys.parked, self._parked, fresh=False)
        return self._parked.routes

    async def _newest(self, key: str, known: _Routes | None, fresh: bool) -> _Routes:
        if known is None or fresh or time.monotonic() - known.read_at > _READ_ALL_S:
            return await self._read_routes(key, known)
        registry, revision, changes, _ = self._keys.of_registry
        count, said, entries, now = await self._runner.plain(
            key,
            ("HLEN", key),
            ("GET", revision),
            ("XRANGE", changes, f"({known.revision}-0", "+", "COUNT", _MOST_CHANGES),
            ("TIME",),
        )
        self._hear_time(now)
        lanes = [flat[1] for _, flat in entries]
        if int(said or 0) != known.revision + len(lanes):
            return await self._read_routes(key, known)  # too many changes, or another history of the registry
        if lanes:
            [bodies] = await self._runner.plain(key, ("HMGET", key, *lanes))
            known = known.changed(int(said), [_route(*pair) for pair in zip(lanes, bodies, strict=True)])
            gone = [lane.decode() for lane, body in zip(lanes, bodies, strict=True) if body is None]
            if gone and key == registry:
                self._subscriber.drop([of(lane) for lane in gone for of in (self._keys.wake, self._keys.final)])
        if count != len(known.routes):
            return await self._read_routes(key, known)  # release 0.1.0 adds lanes and says nothing of it
        return known

    async def _read_routes(self, key: str, known: _Routes | None) -> _Routes:
        commands = ("GET", self._keys.of_registry[1]), ("HGETALL", key), ("TIME",)
        said, flat, now = await self._runner.plain(key, *commands)
        self._hear_time(now)
        found = [route for pair in codec.pairs(flat).items() if (route := _route(*pair)[1]) is not None]
        before = known.routes if known is not None else None
        # Whoever has seen the same list has nothing to do.
        return _Routes(int(said or 0), before if before == found else found, time.monotonic())

    async def lanes(self, pool: str | None = None) -> list[Lane]:
        routes = [r for r in await self.routes() if pool in (None, r.pool)]
        snapshots = await self._runner.run_many([Call("lane", self._lane_keys(r.lane)) for r in routes])
        found = []
        for route, snapshot in zip(routes, snapshots, strict=True):
            view = codec.lane(route.lane, snapshot)
            if view is None:
                continue
            if view.parked:  # whoever parked it died before the registry knew
                await self._publish(view.id, snapshot)
                continue
            if route != Route(view.id, view.spec.pool, view.spec.weight, view.state):
                await self._publish(view.id, snapshot)  # whoever changed the lane died before telling producers
            found.append(view)
        return found

    async def lane(self, lane: str) -> Lane | None:
        return codec.lane(lane, await self._runner.run("lane", self._lane_keys(lane)))

    async def heartbeat(self, member: Member, ttl_ms: int) -> None:
        known = self._announced is not None and self._announced[0] == member
        digest = self._announced[1] if self._announced is not None and known else _digest(member.lanes)
        keys, args = self._keys.of_members, (member.name, ttl_ms, digest)
        if not (known and await self._runner.run("heartbeat", keys, (*args, ""))):
            body = codec.dumps({"name": member.name, "lanes": sorted(member.lanes)})
            await self._runner.run("heartbeat", keys, (*args, body))
        self._announced = member, digest

    async def leave(self, name: str) -> None:
        members, deadlines, versions = self._keys.of_members
        commands = ("HDEL", members, name), ("ZREM", deadlines, name), ("HDEL", versions, name)
        await self._runner.plain(members, *commands)

    async def members(self) -> list[Member]:
        reply = await self._runner.run("members", self._keys.of_members)
        digests = {name.decode(): digest.decode() for name, digest in codec.pairs(reply).items()}
        known = {digest: self._lane_sets[digest] for digest in digests.values() if digest in self._lane_sets}
        # One worker is asked for what many say of themselves; who was not asked in time is asked by name.
        ask = {digest or name: name for name, digest in digests.items() if digest not in known}
        found = await self._read_members(list(ask.values()), known)
        late = [name for name, digest in digests.items() if name not in found and digest not in known]
        found |= await self._read_members(late, known)
        self._lane_sets = known
        return [
            found[name] if name in found else Member(name, known[digest])
            for name, digest in sorted(digests.items())
            if name in found or digest in known
        ]

    async def _read_members(self, names: Sequence[str], known: dict[str, frozenset[str]]) -> dict[str, Member]:
        """Those of them that are still there; what they serve is remembered by its digest."""
        if not names:
            return {}
        key = self._keys.members
        [bodies] = await self._runner.plain(key, ("HMGET", key, *names))
        found = {}
        for name, body in zip(names, bodies, strict=True):
            if body is not None:
                lanes = frozenset(codec.loads(body)["lanes"])
                found[name] = Member(name, known.setdefault(_digest(lanes), lanes))
        return found

    async def events(self, lane: str, after: str = START, count: int = 100) -> list[Event]:
        """An entry holds one event or many: a page may begin and end within one."""
        stream, entries = self._keys.events(lane), max(_FEW_ENTRIES, count // 8)
        found: list[Event] = []
        while True:
            position = found[-1].id if found else after
            command = ("XRANGE", stream, f"({position}", "+", "COUNT", entries)
            [page] = await self._runner.plain(stream, command)
            known = place(after)
            read = (event for sid, flat in page for event in codec.events(lane, sid, flat))
            found += (event for event in read if place(event.id) > known)
            if len(page) < entries or len(found) >= count:
                return found[:count]
            entries *= 4

    async def wait_wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        if self._listening is None or self._listening[0] != lanes:  # a worker listens to the same many again and again
            by_channel = {self._keys.wake(lane): lane for lane in lanes}
            self._listening = list(lanes), by_channel, frozenset(by_channel)
        _, by_channel, channels = self._listening
        return {by_channel[c] for c in await self._subscriber.wake(channels, timeout_s)}

    def heard(self, lane: str) -> Taken | None:
        carried = self._subscriber.carried(self._keys.wake(lane))
        return codec.heard(carried) if carried else None

    async def wait_news(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        if self._following is None or self._following[0] != lanes:
            wake, final = self._keys.wake, self._keys.final
            self._following = list(lanes), {channel(lane): lane for lane in lanes for channel in (wake, final)}
        by_channel = self._following[1]
        return {by_channel[c] for c in await self._subscriber.news(by_channel, timeout_s)}

    async def wait_final(self, lane: str, id: IntentId, timeout_s: float) -> Record | None:
        told = await self._subscriber.final(self._keys.final(lane), id.text, timeout_s)
        return codec.told_final(id, lane, told) if told else None
