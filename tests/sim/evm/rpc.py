"""What one process sees of the chain's nodes: the production breaker around each, the simulated machine behind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from txmanager.rpc.endpoint import Breaker
from txmanager.rpc.errors import RpcError, RpcFailure
from txmanager.rpc.protocol import ask_apart

if TYPE_CHECKING:
    from tests.sim.evm.world import World


class SimNode:
    """One URL as one process sees it; the breaker is the production one."""

    direct, archival = True, False

    def __init__(self, world: World, index: int, rng: random.Random) -> None:
        self._world, self._index, self.name = world, index, f"node{index}"
        self.breaker = Breaker(rng, world.loop.time)

    @property
    def ready(self) -> bool:
        return self.breaker.admits()

    def leave_out(self) -> None:
        raise AssertionError("every node of this world serves the same chain")

    async def call(self, method: str, params: Any, *, group: str = "", timeout: float | None = None) -> Any:
        try:
            answer = await self._world.ask(method, params)
        except RpcFailure as failure:
            if failure.breaks:
                self.breaker.failed()
                if isinstance(failure, RpcError):
                    self._world.say(f"a node was left alone for what it said: {failure.message}")
            raise
        self.breaker.succeeded()
        return self._world.tells(self._index, method, params, answer)

    async def call_many(
        self, calls: Sequence[tuple[str, Any]], *, group: str = "", timeout: float | None = None
    ) -> list[Any]:
        answers: list[Any] = []
        for method, params in calls:
            try:
                answers.append(await self.call(method, params))
            except RpcError as error:
                answers.append(error)
        return answers

    async def send(self, lane: str, method: str, batch: Sequence[Any]) -> list[Any]:
        answers: list[Any] = []
        for params in batch:
            try:
                answers.append(await self.call(method, params))
            except RpcFailure as failure:
                answers.append(failure)
                break
        return answers


class SimRpc:
    def __init__(self, world: World, rng: random.Random) -> None:
        self.nodes = tuple(SimNode(world, n, rng) for n in range(2))

    async def call(self, method: str, params: Any, *, group: str = "", timeout: float | None = None) -> Any:
        return await self.nodes[0].call(method, params)

    async def call_each(
        self, calls: Sequence[tuple[str, Any]], *, group: str = "", timeout: float | None = None
    ) -> list[Any]:
        return await ask_apart(self.call, calls, group, timeout)

    async def send(
        self, lane: str, method: str, batch: Sequence[Any], *, then: tuple[str, Any] | None = None
    ) -> list[Any]:
        answers = await self.nodes[0].send(lane, method, batch)
        if then is not None and not any(isinstance(a, RpcFailure) for a in answers):
            answers += await ask_apart(self.nodes[0].call, [then], lane, None)
        return answers

    async def close(self) -> None:
        return None
