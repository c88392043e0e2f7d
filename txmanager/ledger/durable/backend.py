"""What every part of the Durable Object ledger shares: the link, the names of the objects, and refusals as errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txmanager.core.errors import Fenced, NotAllowed, NotFound, Refused, RolledBack, TxManagerError, Unavailable
from txmanager.core.models import Fence, IntentId
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.address import Address
from txmanager.ledger.durable.hints import Hints
from txmanager.ledger.durable.link import Call, Link, Refusal

DAY_MS = 24 * 3600 * 1000
HOME_OBJECTS = 16
"""Objects that share the 1024 homes: a home is in the object of its number modulo this, for ever."""


class Backend:
    def __init__(
        self, url: str, *, prefix: str = "txm", retention_ms: int = 7 * DAY_MS, timeout_s: float = 5.0
    ) -> None:
        self._prefix = prefix
        self._retention_ms = retention_ms
        address = Address.parse(url)
        self._link = Link(address, timeout_s)
        self._hints = Hints(address, self._lane_object, timeout_s)

    @property
    def vouches(self) -> bool:
        """Nothing but an operator's restore of a backup changes the history, and that does lose what came after it."""
        return False

    @property
    def link(self) -> Link:
        return self._link

    async def start(self) -> list[str]:
        """Refuse a Worker that does not know us; answers the warnings."""
        await self.role()
        return []

    async def role(self) -> str:
        """What our secret allows: `owner` everything, `producer` all but owning lanes."""
        return str((await self._shared("lanes", "hello"))["role"])

    async def close(self) -> None:
        await self._hints.close()
        await self._link.close()

    async def now_ms(self) -> int:
        return int((await self._shared("lanes", "hello"))["now"])

    # -- shared by the parts

    def _lane_object(self, lane: str) -> str:
        return f"lane:{self._prefix}/{lane}"

    def _home_object(self, home: int) -> str:
        return f"home:{self._prefix}/{home % HOME_OBJECTS}"

    def _shared_object(self, part: str) -> str:
        return f"registry:{self._prefix}/{part}"

    async def _shared(self, part: str, operation: str, **args: Any) -> Any:
        """One step on what no lane and no home owns."""
        return await self._link.call(Call(self._shared_object(part), operation, args))

    async def _lane(self, lane: str, operation: str, **args: Any) -> Any:
        """One step on a lane."""
        try:
            return await self._link.call(Call(self._lane_object(lane), operation, args))
        except Refusal as refusal:
            raise _error(lane, refusal) from None

    async def _owned(self, fence: Fence, operation: str, **args: Any) -> Any:
        return await self._lane(fence.lane, operation, fence=codec.pack_fence(fence), **args)

    async def _lanes(self, lanes: Sequence[str], operation: str, **args: Any) -> list[Any]:
        """The same question to many lanes."""
        return await self._link.call_many([Call(self._lane_object(lane), operation, args) for lane in lanes])

    async def _home(self, id: IntentId, operation: str, **args: Any) -> Any:
        return await self._link.call(Call(self._home_object(id.home), operation, {"id": id.text, **args}))


def _error(lane: str, refusal: Refusal) -> TxManagerError:
    """The one place where a refusal becomes an error of ours; a word of one operation is caught there."""
    details = refusal.details
    match refusal.word:
        case "fenced":
            return Fenced(lane, details["owner"], details["epoch"])
        case "refused":
            return Refused(details["entry"], details["why"])
        case "rolled_back":
            return RolledBack(lane, details["stored"], details["found"])
        case "not_found":
            return NotFound(f"no lane {lane}")
        case "signing":
            return NotAllowed(f"lane {lane} signs by itself; it hands out no numbers")
        case "repeated":
            return Unavailable("the request had arrived before; look what it did, then repeat it")
    raise refusal
