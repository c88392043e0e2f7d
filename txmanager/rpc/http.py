"""Several endpoints as one: questions go to the first healthy node, a lane's sends stay with one node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from txmanager.core.errors import InvalidSettings
from txmanager.rpc.batch import Call
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import CircuitOpen, RateLimited, RpcError, RpcFailure, TimedOut
from txmanager.rpc.node import HttpNode
from txmanager.rpc.protocol import Json, ask_apart

_ELSEWHERE = frozenset(
    {"INTERNAL_ERROR", "NO_SYNCED_BLOCKS", "NOT_SYNCED_YET", "UNAVAILABLE_SHARD", "DOES_NOT_TRACK_SHARD"}
)
"""Errors that speak of the node, not of the question: another node may answer."""
_UNASKED = CircuitOpen("not asked")


def _unanswered(failure: RpcFailure) -> bool:
    return failure.cause in _ELSEWHERE if isinstance(failure, RpcError) else not isinstance(failure, TimedOut)


class HttpRpc:
    def __init__(self, endpoints: Sequence[Endpoint], rng: random.Random | None = None) -> None:
        if not endpoints:
            raise InvalidSettings("rpc", "needs at least one URL")
        rng = rng or random.Random()
        self.nodes = tuple(HttpNode(endpoint, rng) for endpoint in endpoints)
        self._homes: dict[str, HttpNode] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        """While there is another node to ask, the first gets half of the usual time-out. A caller that names a time-out
        knows that the question may take that long, so each node gets all of it."""
        loop = asyncio.get_running_loop()
        ready = [node for node in self.nodes if node.ready]
        seconds = timeout if timeout is not None else max(node.endpoint.timeout_s for node in self.nodes)
        deadline = loop.time() + seconds
        last: RpcFailure = CircuitOpen("every endpoint is left alone for a moment after connection errors")
        for position, node in enumerate(ready):
            left = deadline - loop.time()
            if left <= 0:
                break
            last_one = position == len(ready) - 1
            share = left if last_one or timeout is not None else left / 2
            try:
                return await node.call(method, params, group=group, timeout=share)
            except RpcError as error:
                if error.cause not in _ELSEWHERE:
                    raise
                last = error
            except RpcFailure as failure:
                last = failure
        raise last

    async def call_each(
        self, calls: Sequence[Call], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        """What the first healthy node left unanswered is asked again, each question alone; a time-out is not."""
        node = next((node for node in self.nodes if node.ready), None)
        if node is None or len(calls) == 1:
            answers: list[Json | RpcFailure] = [_UNASKED] * len(calls)
        else:
            answers = await node.call_each(calls, group=group, timeout=timeout)
        again = [n for n, answer in enumerate(answers) if isinstance(answer, RpcFailure) and _unanswered(answer)]
        if again:
            retried = await ask_apart(self.call, [calls[n] for n in again], group, timeout)
            for n, answer in zip(again, retried, strict=True):
                answers[n] = answer
        return answers

    async def send(
        self, lane: str, method: str, batch: Sequence[Json], *, then: Call | None = None
    ) -> list[Json | RpcFailure]:
        # One batch of a lane after the other: two that interleave would overtake each other.
        async with self._locks.setdefault(lane, asyncio.Lock()):
            home = self._homes.get(lane)
            if home is None or not home.ready:
                ready = [node for node in self.nodes if node.ready]
                if not ready:
                    return [CircuitOpen("every endpoint is left alone for a moment after connection errors")]
                home = self._homes[lane] = ready[0]
            answers = await home.send(lane, method, batch, then=then)
            if answers and isinstance(answers[-1], RateLimited) and len(self.nodes) > 1:
                self._homes.pop(lane)
            return answers

    async def close(self) -> None:
        for node in self.nodes:
            await node.close()
