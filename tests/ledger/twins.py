"""Two ledgers asked the same questions: answers are compared with clocks and server-made names taken out."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.ledger.conftest import poke
from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Ledger
from txmanager.core.models import IntentId
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.memory import MemoryLedger
from txmanager.ledger.redis import RedisLedger

TIMES = frozenset({"born", "at", "created_at", "updated_at", "oldest_ms", "lease_ms", "left_ms", "until", "checked_at"})
"""Two clocks: only whether there is a time can be compared."""
NAMES = frozenset({"position", "signed_upto", "last_id", "history_id", "found_history_id"})
"""Made by the server: compared by the order in which they were first seen."""


class Side:
    """One of the two, with its own names for what both have seen."""

    def __init__(self, ledger: Ledger, poke: Callable[..., Awaitable[None]]) -> None:
        self.ledger = ledger
        self.poke = poke
        self._symbols: dict[str, str] = {}
        self._actual: dict[str, str] = {}

    def symbol(self, kind: str, name: str) -> str:
        if not name or name == "0-0":
            return name
        key = f"{kind}:{name}"
        if key not in self._symbols:
            symbol = f"{kind}#{sum(s.startswith(kind) for s in self._symbols.values())}"
            self._symbols[key], self._actual[symbol] = symbol, name
        return self._symbols[key]

    def actual(self, symbol: str) -> str:
        """What this side calls it; a name nobody gave stays as it is."""
        return self._actual.get(symbol, symbol)

    def plain(self, value: Any, field: str = "", lane: str = "") -> Any:
        if isinstance(value, TxManagerError):
            return type(value).__name__, self._named(str(value))
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, IntentId)):
            lane = getattr(value, "lane", lane) if isinstance(getattr(value, "lane", lane), str) else lane
            lane = lane or str(getattr(getattr(value, "spec", None), "id", ""))
            return {
                f.name: self.plain(getattr(value, f.name), _field(value, f.name), lane)
                for f in dataclasses.fields(value)
            }
        if field in TIMES:
            return bool(value) if field not in ("lease_ms", "oldest_ms") else None
        if field in NAMES and isinstance(value, str):
            kind = "history" if "history" in field else f"entry {lane}"
            return self.symbol(kind, value)
        if field == "event":
            return self.symbol(f"event {lane}", str(value))
        if isinstance(value, Mapping):
            return {k: self.plain(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(v, "", lane) for v in value]
        return value

    def _named(self, text: str) -> str:
        for key, symbol in self._symbols.items():
            if key.startswith("history:"):
                text = text.replace(key.removeprefix("history:"), symbol)
        return text


def _field(value: Any, name: str) -> str:
    return "event" if type(value).__name__ == "Event" and name == "id" else name


class Twins:
    def __init__(self, runner: asyncio.Runner, url: str, prefix: str) -> None:
        self._runner = runner
        other = runner.run(_open(url, prefix))
        memory = MemoryLedger(vouches=other.vouches, one_step=isinstance(other, RedisLedger))
        self.memory = memory
        poke = _redis_poke(other) if isinstance(other, RedisLedger) else _durable_poke(other)
        self.sides = (Side(memory, _memory_poke(memory)), Side(other, poke))
        self.other = other

    def ask(self, what: str, question: Callable[[Side], Awaitable[Any]], *, unordered: bool = False) -> Any:
        """Put the question to both; answers the memory ledger's own answer, once they agree."""
        answers = self._runner.run(self._ask_both(question))
        for answer in answers:
            if unordered and isinstance(answer, list):
                answer.sort(key=lambda item: str(getattr(item, "id", item)))
        memory, other = (side.plain(answer) for side, answer in zip(self.sides, answers, strict=True))
        assert memory == other, f"{what}:\n memory {memory}\n other  {other}"
        return answers[0]

    async def _ask_both(self, question: Callable[[Side], Awaitable[Any]]) -> list[Any]:
        answers: list[Any] = []
        for side in self.sides:
            try:
                answers.append(await question(side))
            except TxManagerError as error:
                answers.append(error)
        return answers

    def close(self) -> None:
        self._runner.run(self.other.close())


async def _open(url: str, prefix: str) -> RedisLedger | DurableObjectLedger:
    if url.startswith("do+"):
        return DurableObjectLedger(url, prefix=prefix)
    return RedisLedger(url, prefix=prefix, durability="none", timeout_s=5.0)


def _memory_poke(ledger: MemoryLedger) -> Callable[..., Awaitable[None]]:
    async def poke(what: str, lane: str = "", id: IntentId | None = None) -> None:
        if what == "lease" and lane in ledger.stores:
            ledger.stores[lane].lease_until = 0
        elif what == "deadlines":
            store = ledger.stores[lane]
            store.held = {token: replace(held, till=1) for token, held in store.held.items()}
            store.turn_until = 1
        elif what == "home" and id is not None:
            ledger.homes._homes.pop(id, None)
        elif what == "tombstone" and id is not None and lane in ledger.stores:
            ledger.stores[lane].tombstones.pop(id, None)

    return poke


def _durable_poke(ledger: DurableObjectLedger) -> Callable[..., Awaitable[None]]:
    async def ask(what: str, lane: str = "", id: IntentId | None = None) -> None:
        await poke(ledger, what, lane, id)

    return ask


def _redis_poke(ledger: RedisLedger) -> Callable[..., Awaitable[None]]:
    async def poke(what: str, lane: str = "", id: IntentId | None = None) -> None:
        keys = ledger._keys
        if what == "lease":
            key = keys.lane(lane)
            [known] = await ledger.runner.plain(key, ("HEXISTS", key, "until"))
            if known:
                await ledger.runner.plain(key, ("HSET", key, "until", "0"))
        elif what == "deadlines":
            key = keys.reservation_deadlines(lane)
            [tokens] = await ledger.runner.plain(key, ("ZRANGE", key, 0, -1))
            pokes = (("ZADD", key, 1, token) for token in tokens)
            await ledger.runner.plain(key, *pokes, ("HSET", keys.lane(lane), "turn_until", "1"))
        elif what == "home" and id is not None:
            await ledger.runner.plain(keys.home(id), ("DEL", keys.home(id)))
            await ledger.runner.plain(keys.home(id), ("ZREM", keys.open_claims(id.home), str(id)))
        elif what == "tombstone" and id is not None:
            key = keys.record(lane, id)
            [state] = await ledger.runner.plain(key, ("HGET", key, "s"))
            if state == b"retired":
                await ledger.runner.plain(key, ("DEL", key))

    return poke
