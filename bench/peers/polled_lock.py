"""A relay that orders by a lock for each sender, as the relays do that the gateway replaces: SET NX with a time to live
for the holder, a LIST for the queue, a look at both every 50 ms. What is refused is told; the caller sends again.

python -m bench.peers.polled_lock NODE_URL REDIS_URL
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid

from redis.asyncio import Redis

from bench.peers.bare_proxy import Proxy, serve
from txmanager.chains.evm.raw import read_given

POLL_S, HOLD_MS = 0.05, 30_000
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
"""


class Relay(Proxy):
    def __init__(self, node: str, redis_url: str) -> None:
        super().__init__(node)
        self._redis = Redis.from_url(redis_url)
        self._joining = Redis.from_url(redis_url, single_connection_client=True)  # whoever comes first joins first
        self._release = self._redis.register_script(_RELEASE)

    async def answer(self, body: bytes) -> bytes:
        told = json.loads(body)
        if told["method"] != "eth_sendRawTransaction":
            return await super().answer(body)
        sender = read_given(told["params"][0]).sender
        session = await self._acquire(sender)
        try:
            return await super().answer(body)
        finally:
            await self._release(keys=[f"lock:{sender}"], args=[session])

    async def _acquire(self, sender: str) -> str:
        session, queue = uuid.uuid4().hex, f"lock:queue:{sender}"
        await self._joining.rpush(queue, session)  # type: ignore[misc]
        while True:
            first = await self._redis.lindex(queue, 0)  # type: ignore[misc]
            if first == session.encode() and await self._redis.set(f"lock:{sender}", session, nx=True, px=HOLD_MS):
                await self._redis.lpop(queue)  # type: ignore[misc]
                return session
            await asyncio.sleep(POLL_S)


if __name__ == "__main__":
    serve(Relay(sys.argv[1], sys.argv[2]))
