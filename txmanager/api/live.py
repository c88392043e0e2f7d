"""`GET /v1/live`: one stream for a page that shows everything: lanes as they change, and every transition.

What is sent is made once per look and once per sort of caller, not once per page. A page that reads slowly skips looks
and starts again from a whole one. A session that was ended loses its stream within seconds.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import orjson
from pydantic import Field

from txmanager.api.auth import Caller
from txmanager.api.call import Answering, Call
from txmanager.api.records import EventView, LaneView, View, lane_json
from txmanager.api.sessions import Door
from txmanager.api.streams import HEARTBEAT_S, Chunks, Streams
from txmanager.core.errors import TxManagerError
from txmanager.runtime.deliver.board import Board, Look
from txmanager.runtime.deliver.events import event_json

_CHECK_S = 5.0
"""How often an open stream asks whether its session is."""


class LookView(View):
    """What one look at the lanes found, for those who may see it."""

    at: int = Field(description="The ledger's clock, in milliseconds.")
    all: bool = Field(description="Whether `lanes` are all lanes, or those that changed.")
    lanes: list[LaneView]
    gone: list[str] = Field(description="Lanes that were deleted.")
    events: list[EventView]
    missed: bool = Field(description="More happened than is told: read what you show again.")
    away: bool = Field(description="The ledger does not answer.")


class Sight(NamedTuple):
    """Who sees the same: one answer is made for all of them."""

    pools: frozenset[str] | None
    tenant: str | None
    whole: bool

    @classmethod
    def of(cls, caller: Caller) -> Sight:
        return cls(caller.limits.pools, None if caller.whole else caller.tenant, caller.whole)

    def pool(self, name: str) -> bool:
        return self.pools is None or name in self.pools


class Live:
    def __init__(self, board: Board, streams: Streams, door: Door) -> None:
        self._board = board
        self._streams = streams
        self._door = door

    async def follow(self, call: Call) -> Answering:
        return self._streams.open(call, self._chunks(call.caller))

    async def _chunks(self, caller: Caller) -> Chunks:
        loop, sight = asyncio.get_running_loop(), Sight.of(caller)
        sent = checked = loop.time()
        async with self._board.watch() as watcher:
            while True:
                looks, whole = await watcher.next(_CHECK_S)
                now = loop.time()
                if now - checked >= _CHECK_S:
                    if not await self._still(caller):
                        return
                    checked = now
                if looks:
                    yield b"".join([_encoded(look, sight, whole) for look in looks])
                elif now - sent >= HEARTBEAT_S:
                    yield b":\n\n"
                else:
                    continue
                sent = now

    async def _still(self, caller: Caller) -> bool:
        try:
            return await self._door.still(caller)
        except TxManagerError:
            return True  # the ledger is away: the page is told, and nothing can be done with the session either


def _encoded(look: Look, sight: Sight, whole: bool) -> bytes:
    made = look.encoded.get((sight, whole))
    if made is None:
        made = b"event: look\ndata: " + orjson.dumps(_look_json(look, sight, whole)) + b"\n\n"
        look.encoded[sight, whole] = made
    return made


def _look_json(look: Look, sight: Sight, whole: bool) -> dict[str, Any]:
    lanes = look.lanes.values() if whole else look.changed
    events = () if whole else look.events
    return {
        "at": look.at,
        "all": whole,
        "lanes": [lane_json(lane, whole=sight.whole) for lane in lanes if sight.pool(lane.spec.pool)],
        "gone": [lane.id for lane in look.gone if sight.pool(lane.spec.pool)],
        "events": [
            event_json(event, tenant=sight.whole)
            for event in events
            if sight.pool(event.intent.pool) and sight.tenant in (None, event.intent.tenant)
        ],
        "missed": look.missed or whole,
        "away": look.away,
    }
