"""`GET /v1/purses`: what lanes pay from, and how much is left, as the chains say.

The chains are asked at most once a minute, however many ask here, and only while somebody does. Reading many keys takes
longer than a caller waits: until it is done, the answer is the reading before, with its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic, time
from typing import Any

import structlog
from pydantic import Field

from txmanager.api.auth import Caller
from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.records import View
from txmanager.core.errors import TxManagerError
from txmanager.runtime.care.purses import PurseSeen
from txmanager.runtime.deliver.events import instant

Look = Callable[[], Awaitable[Sequence[PurseSeen]]]
"""Reads every purse from its chain."""
_FRESH_S = 60.0
_PATIENCE_S = 4.0


class PurseView(View):
    """One place that lanes pay from."""

    purse: str
    kind: str = Field(examples=["account", "gas_key", "allowance"])
    network: str
    balance: str = Field(description="In the chain's smallest unit.")
    low: str | None = Field(description="Below this the monitor raises an alert; null where nothing is configured.")
    is_low: bool
    lanes: list[str] = Field(description="The lanes that pay from it.")


class PurseList(View):
    """What lanes pay from."""

    purses: list[PurseView]
    read_at: str | None = Field(
        json_schema_extra={"format": "date-time"}, description="When the chains answered; null before that."
    )


class PurseRoutes:
    def __init__(self, look: Look | None) -> None:
        """Without `look` no purse is known."""
        self._look = look
        self._seen: Sequence[PurseSeen] = ()
        self._read_ms: int | None = None
        self._due = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._log = structlog.get_logger("api")

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def list(self, call: Call) -> Reply:
        await self._refresh()
        shown = [_purse_json(one, lanes) for one in self._seen if (lanes := _visible(one, call.caller))]
        return json_reply({"purses": shown, "read_at": None if self._read_ms is None else instant(self._read_ms)})

    async def _refresh(self) -> None:
        if self._look is None:
            return
        if (self._reading is None or self._reading.done()) and monotonic() >= self._due:
            self._due = monotonic() + _FRESH_S
            self._reading = asyncio.create_task(self._read(self._look))
        if self._reading is not None and not self._reading.done():
            await asyncio.wait({self._reading}, timeout=_PATIENCE_S)

    async def _read(self, look: Look) -> None:
        try:
            self._seen = sorted(await look(), key=lambda seen: (seen.purse, seen.kind))
            self._read_ms = int(time() * 1000)
        except TxManagerError as error:
            self._log.warning("purses not read", error=str(error))
        except Exception:
            self._log.exception("purses not read")
        self._due = monotonic() + _FRESH_S


def _visible(seen: PurseSeen, caller: Caller) -> list[str]:
    return [lane.id for lane in seen.payers if caller.may_use_pool(lane.spec.pool)]


def _purse_json(seen: PurseSeen, lanes: Sequence[str]) -> dict[str, Any]:
    return {
        "purse": seen.purse,
        "kind": seen.kind,
        "network": seen.network,
        "balance": str(seen.balance),
        "low": None if seen.marks is None else str(seen.marks.low),
        "is_low": seen.low,
        "lanes": sorted(lanes),
    }
