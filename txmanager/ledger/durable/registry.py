"""Lanes and workers on Durable Objects: what is published, who lives, what happened."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from txmanager.core.alerts import Alert, Check
from txmanager.core.errors import LaneClosed, NotAllowed, NotFound
from txmanager.core.ledger import SCHEMA, Member, Route, Taken
from txmanager.core.listing import Browsed, Mark, mark_of
from txmanager.core.models import Event, Fence, IntentId, Json, Lane, LaneSpec, Record
from txmanager.core.positions import START
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, StopCause
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.backend import Backend
from txmanager.ledger.durable.link import Refusal
from txmanager.ledger.inputs import check_forgettable, check_stop, other_sort, outdated


def _route(row: codec.Row) -> Route:
    return Route(row["lane"], row["pool"], row["weight"], LaneState(row["state"]))


class Registry(Backend):
    async def register(self, spec: LaneSpec) -> Lane:
        args = {
            "id": spec.id,
            "pool": spec.pool,
            "weight": spec.weight,
            "queue_limit": spec.queue_limit,
            "info": codec.text(spec.info, "info"),
            "keyless": spec.keyless,
        }
        try:
            return await self._publish(await self._lane(spec.id, "register", **args))
        except Refusal as refusal:
            if refusal.word == "closed":
                raise LaneClosed(spec.id) from None
            raise other_sort(spec) from None

    async def schema(self) -> int:
        return SCHEMA

    async def check_upgrade(self) -> None:
        return None

    async def upgrade(self) -> list[str]:
        return []

    async def admit_lane(self, owner: str, lane: str, most: int) -> bool:
        return bool(await self._shared("lanes", "admit", owner=owner, lane=lane, most=most))

    async def forget_lane(self, lane: str) -> None:
        answer = await self._lane(lane, "forget")
        if answer is not None:
            check_forgettable(lane, answer["keyless"], LaneState(answer["state"]), answer["obstacle"])
        # The lane first: whoever dies in between leaves a route to nothing, which the next call takes away.
        gone = await self._shared("lanes", "withdraw", lane=lane)
        if answer is None and not gone:
            raise NotFound(f"no lane {lane}")

    async def park(self, fence: Fence, idle_ms: int) -> int:
        answer = await self._owned(fence, "park", idle_ms=idle_ms)
        if answer["left"] == 0:
            await self._publish(answer["lane"])
        return int(answer["left"])

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
        args = {
            "state": state.value,
            "reason": reason,
            "cause": cause or "",
            "command": command or "",
            "evidence": codec.text(evidence or {}, "evidence"),
            "fence": None if fence is None else codec.pack_fence(fence),
            "asks": asks,
        }
        try:
            return await self._publish(await self._lane(lane, "set_lane", **args))
        except Refusal as refusal:
            if refusal.word == "outdated":
                raise outdated(lane) from None
            if refusal.word == "busy":
                left = refusal.details["left"]
                raise NotAllowed(f"lane {lane} still holds {left} records; drain it first") from None
            raise NotAllowed(f"lane {lane} is {refusal.details['state']}; it cannot become {state}") from None

    async def _publish(self, row: codec.Row) -> Lane:
        """Tell producers: the lane's own state stands first, the registry follows."""
        view = codec.unpack_lane(row)
        route = {"lane": view.id, "pool": view.spec.pool, "weight": view.spec.weight, "state": view.state.value}
        await self._shared("lanes", "publish", **route, revision=row["revision"], parked=view.parked)
        return view

    async def routes(self, *, fresh: bool = False) -> list[Route]:
        return [_route(row) for row in await self._shared("lanes", "routes")]

    async def parked(self) -> list[Route]:
        return [_route(row) for row in await self._shared("lanes", "parked")]

    async def lanes(self, pool: str | None = None) -> list[Lane]:
        routes = [r for r in await self.routes() if pool in (None, r.pool)]
        found = []
        for route, row in zip(routes, await self._lanes([r.lane for r in routes], "lane"), strict=True):
            if row is None:
                continue
            view = codec.unpack_lane(row)
            if view.parked:  # whoever parked it died before the registry knew
                await self._publish(row)
                continue
            if route != Route(view.id, view.spec.pool, view.spec.weight, view.state):
                await self._publish(row)  # whoever changed the lane died before telling producers
            found.append(view)
        return found

    async def lane(self, lane: str) -> Lane | None:
        row = await self._lane(lane, "lane")
        return None if row is None else codec.unpack_lane(row)

    async def heartbeat(self, member: Member, ttl_ms: int) -> None:
        lanes = codec.text(sorted(member.lanes))
        await self._shared("lanes", "heartbeat", name=member.name, lanes=lanes, ttl_ms=ttl_ms)

    async def leave(self, name: str) -> None:
        await self._shared("lanes", "leave", name=name)

    async def members(self) -> list[Member]:
        rows = await self._shared("lanes", "members")
        return [Member(row["name"], frozenset(codec.read(row["lanes"]))) for row in rows]

    async def events(self, lane: str, after: str = START, count: int = 100) -> list[Event]:
        rows = await self._lane(lane, "events", after=after, count=count)
        return [codec.unpack_event(lane, row) for row in rows]

    # -- watchers

    async def pending(self, lane: str) -> list[Record]:
        return codec.by_nonce([codec.unpack_record(lane, row) for row in await self._lane(lane, "pending")])

    async def browse(self, lane: str, before: Mark | None, count: int) -> Browsed:
        rows = await self._lane(lane, "browse", before=before, count=count)
        records = tuple(codec.unpack_record(lane, row, whole=True) for row in rows[:count])
        return Browsed(records, mark_of(records[-1]) if len(rows) > count else None)

    async def check(self, lane: str, name: str, alerts: Collection[Alert] = ()) -> bool:
        return bool(await self._lane(lane, "check", asked=str(Check(name, frozenset(alerts)))))

    # -- hints

    async def wait_wake(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        return await self._hints.wake(lanes, timeout_s)

    def heard(self, lane: str) -> Taken | None:
        return None

    async def wait_news(self, lanes: Sequence[str], timeout_s: float) -> set[str]:
        return await self._hints.news(lanes, timeout_s)

    async def wait_final(self, lane: str, id: IntentId, timeout_s: float) -> Record | None:
        await self._hints.final(lane, id.text, timeout_s)
        return None
