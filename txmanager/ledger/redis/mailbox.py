"""`RedisMailbox`: webhook places and dead letters beside the ledger's own keys, in one slot of their own.

Plain commands, no scripts: a race or a crash between two of them costs a second delivery, which is allowed.
"""

from __future__ import annotations

from dataclasses import asdict

from txmanager.core.mailbox import DEAD_LIMIT, DeadLetter
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.runner import Runner


class RedisMailbox:
    def __init__(self, runner: Runner, prefix: str) -> None:
        self._runner = runner
        self._base = f"{prefix}:{{mail}}"
        self._dead = f"{self._base}:dead"
        self._order = f"{self._base}:order"
        self._again = f"{self._base}:again"

    async def hold(self, target: str, holder: str, for_ms: int) -> bool:
        key = f"{self._base}:holder:{target}"
        won, current = await self._runner.plain(key, ("SET", key, holder, "NX", "PX", for_ms), ("GET", key))
        if won is None and current == holder.encode():
            await self._runner.plain(key, ("PEXPIRE", key, for_ms))
        return bool(current == holder.encode())

    async def places(self, target: str) -> dict[str, str]:
        key = self._places(target)
        [flat] = await self._runner.plain(key, ("HGETALL", key))
        return {lane.decode(): at.decode() for lane, at in codec.pairs(flat).items()}

    async def advance(self, target: str, lane: str, event_id: str) -> None:
        key = self._places(target)
        await self._runner.plain(key, ("HSET", key, lane, event_id))

    def _places(self, target: str) -> str:
        return f"{self._base}:places:{target}"

    async def bury(self, letter: DeadLetter) -> None:
        body = codec.dumps(asdict(letter), "event")
        *_, count = await self._runner.plain(
            self._dead,
            ("HSET", self._dead, letter.id, body),
            ("ZADD", self._order, letter.at, letter.id),
            ("HDEL", self._again, letter.id),
            ("ZCARD", self._order),
        )
        if count > DEAD_LIMIT:
            [flat] = await self._runner.plain(self._order, ("ZPOPMIN", self._order, count - DEAD_LIMIT))
            await self._runner.plain(self._dead, ("HDEL", self._dead, *flat[::2]))

    async def dead(self) -> list[DeadLetter]:
        [flat] = await self._runner.plain(self._dead, ("HVALS", self._dead))
        return sorted((_letter(body) for body in flat), key=lambda letter: -letter.at)

    async def revive(self, id: str) -> DeadLetter | None:
        dead, again = await self._runner.plain(self._dead, ("HGET", self._dead, id), ("HGET", self._again, id))
        if dead is not None:
            await self._runner.plain(
                self._dead, ("HSET", self._again, id, dead), ("HDEL", self._dead, id), ("ZREM", self._order, id)
            )
        body = dead or again
        return _letter(body) if body is not None else None

    async def revived(self, target: str) -> list[DeadLetter]:
        [flat] = await self._runner.plain(self._again, ("HVALS", self._again))
        return [letter for letter in map(_letter, flat) if letter.target == target]

    async def delivered(self, id: str) -> None:
        await self._runner.plain(self._again, ("HDEL", self._again, id))


def _letter(body: bytes) -> DeadLetter:
    return DeadLetter(**codec.loads(body))
