"""Lanes and workers on Redis: what is published, who lives, what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.errors import Fenced, LaneClosed, NotAllowed, NotFound
from txmanager.core.ledger import APPEND_WITHIN_MS, SCHEMA, Member, Route
from txmanager.core.models import Event, Fence, IntentId, Json, Lane, LaneSpec
from txmanager.core.positions import START
from txmanager.core.states import LaneState, lane_sources
from txmanager.core.stops import LaneCommand, StopCause
from txmanager.ledger.inputs import check_forgettable, check_stop, other_sort
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.backend import Backend, words
from txmanager.ledger.redis.runner import Call


class Registry(Backend):
    async def register(self, spec: LaneSpec) -> Lane:
        args = (codec.pack_spec(spec), spec.queue_limit, SCHEMA, "1" if spec.keyless else "")
        reply = await self._runner.run("register", self._lane_keys(spec.id), args, durable=True)
        if reply[0] == b"closed":
            raise LaneClosed(spec.id)
        if reply[0] == b"other_sort":
            raise other_sort(spec)
        return await self._publish(spec.id, reply[1])

    async def admit_lane(self, owner: str, lane: str, most: int) -> bool:
        keys = [self._keys.made(owner), self._keys.registry]
        return bool(await self._runner.run("admit_lane", keys, (lane, most, APPEND_WITHIN_MS), durable=True))

    async def forget_lane(self, lane: str) -> None:
        keys = self._keys
        rest = [keys.queue(lane), keys.unfinished(lane), keys.finals(lane), keys.fills(lane), keys.events(lane)]
        reply = await self._runner.run("forget_lane", [*keys.of_numbers(lane), *rest], durable=True)
        match reply:
            case [b"kept", keyless, state, why]:
                check_forgettable(lane, keyless == b"1", LaneState(state.decode()), why.decode())
        # The lane first: whoever dies in between leaves a route to nothing, which the next call takes away.
        [gone] = await self._runner.plain(keys.registry, ("HDEL", keys.registry, lane))
        if reply[0] == b"unknown" and not gone:
            raise NotFound(f"no lane {lane}")

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

    async def events(self, lane: str, after: str = START, count: int = 100) -> list[Event]:
        stream = self._keys.events(lane)
        [found] = await self._runner.plain(stream, ("XRANGE", stream, f"({after}", "+", "COUNT", count))
        return [codec.event(lane, sid, flat) for sid, flat in found]

    async def wait_wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        by_channel = {self._keys.wake(lane): lane for lane in lanes}
        return {by_channel[c] for c in await self._subscriber.wake(list(by_channel), timeout_s)}

    async def wait_final(self, lane: str, id: IntentId, timeout_s: float) -> None:
        await self._subscriber.final(self._keys.final(lane), str(id), timeout_s)
