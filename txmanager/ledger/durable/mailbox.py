"""`DurableMailbox`: webhook places and dead letters, in an object of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from txmanager.core.mailbox import DEAD_LIMIT, DeadLetter
from txmanager.ledger.durable import codec


class DurableMailbox:
    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._shared = ask

    async def _ask(self, operation: str, **args: Any) -> Any:
        return await self._shared("mailbox", operation, **args)

    async def hold(self, target: str, holder: str, for_ms: int) -> bool:
        return bool(await self._ask("hold_target", target=target, holder=holder, for_ms=for_ms))

    async def places(self, target: str) -> dict[str, str]:
        return dict(await self._ask("places", target=target))

    async def advance(self, target: str, lane: str, event_id: str) -> None:
        await self._ask("advance", target=target, lane=lane, event=event_id)

    async def bury(self, letter: DeadLetter) -> None:
        args = {"id": letter.id, "target": letter.target, "at": letter.at, "limit": DEAD_LIMIT}
        await self._ask("bury_letter", **args, letter=codec.text(asdict(letter), "event"))

    async def dead(self) -> list[DeadLetter]:
        return [_letter(body) for body in await self._ask("dead")]

    async def revive(self, id: str) -> DeadLetter | None:
        body = await self._ask("revive", id=id)
        return None if body is None else _letter(body)

    async def revived(self, target: str) -> list[DeadLetter]:
        return [_letter(body) for body in await self._ask("revived", target=target)]

    async def delivered(self, id: str) -> None:
        await self._ask("delivered", id=id)


def _letter(body: str) -> DeadLetter:
    return DeadLetter(**codec.read(body))
