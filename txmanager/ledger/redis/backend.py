"""What every part of the Redis ledger shares: the link, the runner, the keys, and reading records."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from txmanager.core.errors import InvalidSettings
from txmanager.core.ledger import ACCEPT_NEEDS_RETENTION_MS
from txmanager.core.models import IntentId, Record
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.checks import Durability, check_server
from txmanager.ledger.redis.keys import Keys
from txmanager.ledger.redis.links import Dial, SingleLink, connect
from txmanager.ledger.redis.memory import Gauge
from txmanager.ledger.redis.runner import Call, Runner
from txmanager.ledger.redis.subscriber import Subscriber

DAY_MS = 24 * 3600 * 1000
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,63}\Z")


class Backend:
    def __init__(
        self,
        url: str,
        *,
        prefix: str = "txm",
        durability: Durability = "fsync",
        replicas: int = 1,
        retention_ms: int = 7 * DAY_MS,
        timeout_s: float = 1.0,
        wait_ms: int = 500,
        may_be_open: bool = False,
        archive_lag: int | None = None,
    ) -> None:
        if not _PREFIX.match(prefix):
            raise InvalidSettings(
                "ledger.prefix", "must be 1 to 63 of A-Z a-z 0-9 _ . : - (no braces: they pick the slot)"
            )
        self._durability = durability
        self._replicas = replicas
        self._retention_ms = retention_ms
        self._may_be_open = may_be_open
        self._archive_lag = archive_lag
        """Of lanes that are registered here: their first records must wait for the archive, too."""
        self._link = connect(url, Dial(timeout_s, replicas if durability == "replicas" else 0, wait_ms))
        self._runner = Runner(self._link, timeout_s)
        self._keys = Keys(prefix)
        self._subscriber = Subscriber(self._link, timeout_s)
        self._gauge = Gauge(self._link)
        self._one_step = self._link.one_server and retention_ms >= ACCEPT_NEEDS_RETENTION_MS
        self._signed_upto: dict[str, str] = {}
        """How far each lane that was leased here is signed, as far as is known: where its next take begins."""
        self._heard: tuple[int, float] | None = None
        """The server's clock, and this process's when that was told."""

    @property
    def vouches(self) -> bool:
        """Whether an acknowledged write outlives what can change the replication id in this mode."""
        return self._durability == "replicas" or (self._durability == "fsync" and isinstance(self._link, SingleLink))

    @property
    def runner(self) -> Runner:
        return self._runner

    async def start(self) -> list[str]:
        """Refuse a server that cannot keep the promises; answers the warnings."""
        return await check_server(self._link, self._durability, self._replicas, may_be_open=self._may_be_open)

    async def close(self) -> None:
        self._runner.close()
        await self._subscriber.close()
        await self._link.close()

    async def now_ms(self) -> int:
        [now] = await self._runner.plain(self._keys.registry, ("TIME",))
        return self._hear_time(now)

    def _hear_time(self, reply: Sequence[bytes]) -> int:
        return self._hear(int(reply[0]) * 1000 + int(reply[1]) // 1000)

    def _hear(self, server_ms: int) -> int:
        self._heard = server_ms, time.monotonic()
        return server_ms

    # -- shared by the parts

    def _home_keys(self, id: IntentId) -> tuple[str, str]:
        return self._keys.of_home(id)

    def _lane_keys(self, lane: str, *, events: bool = False) -> list[str]:
        keys = self._keys
        first = [keys.lane(lane), keys.queue(lane)]
        return [*first, *([keys.events(lane)] if events else []), keys.unfinished(lane), keys.finals(lane)]

    def _unfinished_keys(self, lane: str) -> list[str]:
        return [self._keys.lane(lane), self._keys.queue(lane), self._keys.unfinished(lane)]

    async def _records(
        self, lane: str, ids: Sequence[IntentId], *, confirmed: bool = False, whole: bool = False
    ) -> list[Record | None]:
        calls = [Call("records", [self._keys.queue(lane), *(self._keys.record(lane, id) for id in ids)])]
        if confirmed and self._durability == "replicas":
            calls.append(Call("confirm_lane", [self._keys.lane(lane)]))
        found = await self._runner.run_many(calls, durable=confirmed)
        records: list[Record | None] = []
        for id, (flat, entry) in zip(ids, found[0], strict=True):
            fields = codec.pairs(flat)
            if fields.get(b"s", b"retired") == b"retired":
                records.append(None)
            else:
                records.append(codec.record(id, lane, fields, codec.pairs(entry), whole=whole))
        return records

    async def _surely(self, lane: str, ids: Sequence[IntentId], *, whole: bool = False) -> list[Record | None]:
        """Records to tell of: an end that only the ledger knows is read again, and told once replicas have it."""
        records = await self._records(lane, ids, whole=whole)
        return await self._records(lane, ids, confirmed=True, whole=whole) if self._unsure(records) else records

    def _unsure(self, read: Sequence[Record | None]) -> bool:
        """Whether a failover could take back what was read: no chain would show it again."""
        ends = (record.outcome for record in read if record is not None and record.status.final)
        return self._durability == "replicas" and any(end is not None and end.tx_hash is None for end in ends)


def words(states: Sequence[Any] | frozenset[Any]) -> str:
    """States as the scripts look for them: each with a blank on both sides."""
    return f" {' '.join(sorted(states))} "
