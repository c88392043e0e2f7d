"""What somebody does who can write to Redis and knows no secret: entries and records, changed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from txmanager.core.models import IntentId
from txmanager.ledger.redis import RedisLedger

Fields = dict[str, str]


class Hand:
    def __init__(self, ledger: RedisLedger) -> None:
        self._ledger = ledger
        self._keys = ledger._keys

    async def _redis(self, key: str, *words: object) -> Any:
        [answer] = await self._ledger.runner.plain(key, tuple(words))
        return answer

    async def entries(self, lane: str) -> list[tuple[str, Fields]]:
        queue = self._keys.queue(lane)
        found = await self._redis(queue, "XRANGE", queue, "-", "+")
        return [(sid.decode(), _text(flat)) for sid, flat in found]

    async def rewrite(self, lane: str, change: Callable[[list[tuple[str, Fields]]], list[tuple[str, Fields]]]) -> None:
        """The whole queue again, with the same names: an entry cannot be changed in its place."""
        queue = self._keys.queue(lane)
        changed = change(await self.entries(lane))
        await self._redis(queue, "DEL", queue)
        await self._redis(queue, "XGROUP", "CREATE", queue, "lane", "0", "MKSTREAM")
        for sid, fields in changed:
            await self._redis(queue, "XADD", queue, sid, *(part for pair in fields.items() for part in pair))

    async def change_entry(self, lane: str, key: str, **fields: str) -> None:
        def change(entries: list[tuple[str, Fields]]) -> list[tuple[str, Fields]]:
            return [(sid, {**told, **fields} if told["i"].endswith(f"/{key}") else told) for sid, told in entries]

        await self.rewrite(lane, change)

    async def change_payload(self, lane: str, key: str, **payload: str) -> None:
        told = {told["i"].rpartition("/")[2]: told for _, told in await self.entries(lane)}[key]
        await self.change_entry(lane, key, p=json.dumps({**json.loads(told["p"]), **payload}))

    async def record(self, lane: str, id: IntentId) -> dict[bytes, bytes]:
        key = self._keys.record(lane, id)
        flat = await self._redis(key, "HGETALL", key)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def set_record(self, lane: str, id: IntentId, **fields: str) -> None:
        key = self._keys.record(lane, id)
        await self._redis(key, "HSET", key, *(part for pair in fields.items() for part in pair))

    async def set_raw(self, lane: str, id: IntentId, attempt: str, raw: bytes) -> None:
        """Other bytes under the name of an attempt."""
        key, field = self._keys.record(lane, id), f"a:{attempt}"
        blob = await self._redis(key, "HGET", key, field)
        await self._redis(key, "HSET", key, field, blob.partition(b"\0")[0] + b"\0" + raw)

    async def put(self, lane: str, fields: Fields) -> str:
        """An entry of somebody's own making, with a record that fits it."""
        queue = self._keys.queue(lane)
        sid = (await self._redis(queue, "XADD", queue, "*", *(p for pair in fields.items() for p in pair))).decode()
        ms = sid.partition("-")[0]
        told = {"s": "queued", "i": sid, "t": ms, "u": ms, **{name: fields[name] for name in "lfkm"}}
        await self.set_record(lane, IntentId.parse(fields["i"]), **told)
        home = self._keys.home(IntentId.parse(fields["i"]))
        await self._redis(home, "SET", home, f"{fields['f']} {fields['l']} {ms} {lane}")
        return sid


def _text(flat: list[bytes]) -> Fields:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}
