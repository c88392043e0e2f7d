"""The numbers of a keyless lane as operators see them, and the release of one that nobody sends.

The caller's token is not shown: whoever has it sends with the number.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.lanes import Lanes
from txmanager.api.records import View
from txmanager.core.errors import InvalidInput
from txmanager.core.reservations import NONCE_LIMIT, Reservation
from txmanager.runtime.deliver.events import instant
from txmanager.runtime.manager import TxManager


class ReservationView(View):
    """One number that is out."""

    nonce: int
    tenant: str
    state: str = Field(pattern="^(reserved|sent)$")
    at: str = Field(json_schema_extra={"format": "date-time"})
    expires_at: str | None = Field(json_schema_extra={"format": "date-time"}, description="null once it was sent.")
    tx_hashes: list[str] = Field(description="What was sent at this number; any of them may land.")


class ReservationList(View):
    reservations: list[ReservationView]


def reservation_json(one: Reservation) -> dict[str, Any]:
    return {
        "nonce": one.nonce,
        "tenant": one.tenant,
        "state": one.state,
        "at": instant(one.at),
        "expires_at": instant(one.until) if one.until else None,
        "tx_hashes": [sent.hash for sent in one.sent],
    }


class ReservationRoutes:
    def __init__(self, manager: TxManager, lanes: Lanes, intents: Intents) -> None:
        self._manager = manager
        self._lanes = lanes
        self._intents = intents

    async def list(self, call: Call) -> Reply:
        lane = await self._lanes.find(call)
        book = await self._intents.within(self._manager.book(lane.id))
        shown = [reservation_json(one) for one in book.reserved if call.caller.sees(one.tenant)]
        return json_reply({"reservations": shown})

    async def release(self, call: Call) -> Reply:
        text = call.path("nonce")
        if not text.isdecimal() or len(text) > 19 or int(text) >= NONCE_LIMIT:
            raise InvalidInput("nonce", "must be the number of a reservation")
        lane = await self._lanes.find(call)
        released = await self._intents.within(self._manager.release_number(lane.id, int(text), sees=call.caller.sees))
        return json_reply(reservation_json(released))
