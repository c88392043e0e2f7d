"""Lanes as operators see and steer them. Every verb goes through the ledger's table of legal transitions."""

from __future__ import annotations

from collections.abc import Awaitable

from pydantic import BaseModel, ConfigDict, Field

from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.records import LaneView, View, lane_json
from txmanager.core.errors import NotFound
from txmanager.core.models import Lane, check_lane
from txmanager.runtime.manager import TxManager


class PauseRequest(BaseModel):
    """Why; it is shown to everybody who looks at the lane."""

    model_config = ConfigDict(extra="forbid", strict=True)
    reason: str = Field(default="", max_length=200)


class RebaselineRequest(BaseModel):
    """Whether the lane stays paused afterwards: time to cancel what is queued although it was paid."""

    model_config = ConfigDict(extra="forbid", strict=True)
    paused: bool = False


class LaneList(View):
    lanes: list[LaneView]


class Deleted(View):
    lane: str
    deleted: bool


class Lanes:
    def __init__(self, manager: TxManager, intents: Intents) -> None:
        self._manager = manager
        self._intents = intents

    async def list(self, call: Call) -> Reply:
        pool = call.query.get("pool")
        if pool is not None:
            pool = self._intents.pool_of(call.caller, pool)
        lanes = await self._intents.within(self._manager.lanes(pool))
        shown = [lane_json(lane, whole=call.caller.whole) for lane in lanes if call.caller.may_use_pool(lane.spec.pool)]
        return json_reply({"lanes": sorted(shown, key=lambda lane: str(lane["lane"]))})

    async def get(self, call: Call) -> Reply:
        return json_reply(lane_json(await self.find(call), whole=call.caller.whole))

    async def pause(self, call: Call) -> Reply:
        reason = call.read(PauseRequest).get("reason", "") if call.body else ""
        lane = await self.find(call)
        return await self._moved(self._manager.pause(lane.id, reason))

    async def delete(self, call: Call) -> Reply:
        lane = await self.find(call)
        await self._intents.within(self._manager.forget_lane(lane.id))
        return json_reply({"lane": lane.id, "deleted": True})

    async def resume(self, call: Call) -> Reply:
        return await self._moved(self._manager.resume((await self.find(call)).id))

    async def drain(self, call: Call) -> Reply:
        return await self._moved(self._manager.drain((await self.find(call)).id))

    async def close(self, call: Call) -> Reply:
        return await self._moved(self._manager.close_lane((await self.find(call)).id))

    async def rebaseline(self, call: Call) -> Reply:
        paused = call.read(RebaselineRequest).get("paused", False) if call.body else False
        return await self._moved(self._manager.rebaseline((await self.find(call)).id, paused=paused))

    async def _moved(self, moving: Awaitable[Lane]) -> Reply:
        return json_reply(lane_json(await self._intents.within(moving)))

    async def find(self, call: Call) -> Lane:
        name = check_lane(call.path("lane"))
        lane = await self._intents.within(self._manager.lane(name))
        # a lane of a pool this token may not see is as good as none
        if lane is None or not call.caller.may_use_pool(lane.spec.pool):
            raise NotFound(f"no lane {name}")
        return lane
