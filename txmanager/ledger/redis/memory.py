"""How full a server is: producers are pushed back while there is still room for the work that is under way."""

from __future__ import annotations

import asyncio

from txmanager.core.errors import MemoryFull, Unavailable
from txmanager.ledger.redis.links import Link

LIMIT = 0.8
"""The share of maxmemory above which nothing new is accepted."""
_EVERY_S = 1.0


def usage(info: object) -> tuple[int, int]:
    """Bytes used and the limit, out of `INFO memory`; no limit, or no answer, is (0, 0)."""
    if not isinstance(info, bytes):
        return 0, 0
    fields = dict(line.split(b":", 1) for line in info.split(b"\r\n") if b":" in line)
    limit = int(fields.get(b"maxmemory", 0))
    return (int(fields.get(b"used_memory", 0)), limit) if limit else (0, 0)


class Gauge:
    """The fullest primary, looked at once a second at most."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._looked = float("-inf")
        self._fullest = (0, 0)

    async def check(self) -> None:
        """Raise `MemoryFull` above the limit. A server that does not tell is not full: the write itself will say."""
        now = asyncio.get_running_loop().time()
        if now - self._looked > _EVERY_S:
            self._looked = now
            try:
                replies = await self._link.everywhere([("INFO", "memory")])
            except Unavailable:
                replies = []
            nodes = [usage(info) for [info] in replies]
            self._fullest = max(nodes, key=lambda node: node[0] / (node[1] or 1), default=(0, 0))
        used, limit = self._fullest
        if limit and used > limit * LIMIT:
            raise MemoryFull(used, limit)
