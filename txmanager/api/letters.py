"""Dead letters of webhooks: what no target took, and another try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from txmanager.api.call import Call, Reply, json_reply
from txmanager.api.intents import Intents
from txmanager.api.records import View
from txmanager.core.errors import NotFound
from txmanager.core.mailbox import DeadLetter, Mailbox
from txmanager.runtime.deliver.events import instant


class LetterView(View):
    """An event that its webhook did not take."""

    id: str
    pool: str
    target: str
    event: dict[str, Any]
    tries: int
    error: str
    at: str = Field(json_schema_extra={"format": "date-time"})


class DeadList(View):
    dead: list[LetterView]


def letter_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "pool": letter.pool,
        "target": letter.target,
        "event": letter.event,
        "tries": letter.tries,
        "error": letter.error,
        "at": instant(letter.at),
    }


class Letters:
    def __init__(self, mailbox: Mailbox, intents: Intents) -> None:
        self._mailbox = mailbox
        self._intents = intents

    async def list(self, call: Call) -> Reply:
        return json_reply({"dead": [letter_json(letter) for letter in await self._visible(call)]})

    async def _visible(self, call: Call) -> Sequence[DeadLetter]:
        """Of the token's pools and tenant. One that an older release wrote names no tenant: only those who see all
        tenants see it."""
        caller, letters = call.caller, await self._intents.within(self._mailbox.dead())
        return [x for x in letters if caller.may_use_pool(x.pool) and caller.sees(x.event.get("tenant"))]

    async def retry(self, call: Call) -> Reply:
        id = call.path("id")
        if not any(letter.id == id for letter in await self._visible(call)):
            raise NotFound(f"no dead letter {id[:200]!r}")
        letter = await self._intents.within(self._mailbox.revive(id))
        if letter is None:
            raise NotFound(f"no dead letter {id[:200]!r}")
        return json_reply(letter_json(letter), 202)
