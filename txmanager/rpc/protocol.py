"""`JsonRpc`: what an adapter needs of a network of nodes, so that HTTP and a simulator's in-process chain are alike."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from txmanager.rpc.errors import RpcError, RpcFailure

Json = Any


class Node(Protocol):
    """One URL. When `direct`, one and the same node gives every answer."""

    @property
    def name(self) -> str: ...
    @property
    def direct(self) -> bool: ...
    @property
    def archival(self) -> bool: ...
    @property
    def ready(self) -> bool:
        """Not left alone after connection errors, nor left out."""
        ...

    def leave_out(self) -> None:
        """It serves another network: ask it nothing any more."""
        ...

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        """The result, or an `RpcFailure`. Calls of one group never wait for those of another."""
        ...

    async def call_many(
        self, calls: Sequence[tuple[str, Json]], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        """The answer to each question, or its own failure. An `RpcFailure` is raised when none was answered."""
        ...

    async def send(self, lane: str, method: str, batch: Sequence[Json]) -> list[Json | RpcFailure]:
        """In order on the lane's own connection to this node. Answers a prefix that ends with the first failure."""
        ...


class JsonRpc(Protocol):
    @property
    def nodes(self) -> Sequence[Node]: ...

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        """Any healthy node's answer; the next node is asked when one cannot be reached."""
        ...

    async def call_each(
        self, calls: Sequence[tuple[str, Json]], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        """Many questions at once, each with its own answer or failure."""
        ...

    async def send(
        self, lane: str, method: str, batch: Sequence[Json], *, then: tuple[str, Json] | None = None
    ) -> list[Json | RpcFailure]:
        """In order on the lane's own connection. Answers a prefix that ends with the first failure. Where sends are
        pipelined, `then` rides behind the last one and is answered behind it."""
        ...

    async def close(self) -> None: ...


async def ask_apart(
    call: Callable[..., Awaitable[Json]], calls: Sequence[tuple[str, Json]], group: str, timeout: float | None
) -> list[Json | RpcFailure]:
    """Each question by a call of its own, side by side; a failure of the transport is that question's answer."""
    if len(calls) == 1:  # the usual look-up needs no task of its own
        [(method, params)] = calls
        try:
            return [await call(method, params, group=group, timeout=timeout)]
        except RpcFailure as failure:
            return [failure]
    alone = (call(method, params, group=group, timeout=timeout) for method, params in calls)
    answers = await asyncio.gather(*alone, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, RpcFailure):
            raise answer
    return list(answers)


Handler = Callable[[str, Json], "Json | Awaitable[Json]"]
"""(method, params) to the body of a JSON-RPC answer: a dict with `result` or `error`."""


class InProcessNode:
    def __init__(self, handler: Handler, name: str, direct: bool = True, archival: bool = False) -> None:
        self._handler = handler
        self.name = name
        self.direct = direct
        self.archival = archival
        self.ready = True

    def leave_out(self) -> None:
        self.ready = False

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        answer = self._handler(method, params)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, dict) or "error" in answer:
            raise RpcError(answer.get("error") if isinstance(answer, dict) else answer)
        return answer.get("result")

    async def call_many(
        self, calls: Sequence[tuple[str, Json]], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        answers: list[Json | RpcFailure] = []
        for method, params in calls:
            try:
                answers.append(await self.call(method, params, group=group, timeout=timeout))
            except RpcError as error:
                answers.append(error)
        return answers

    async def send(self, lane: str, method: str, batch: Sequence[Json]) -> list[Json | RpcFailure]:
        answers: list[Json | RpcFailure] = []
        for params in batch:
            try:
                answers.append(await self.call(method, params))
            except RpcFailure as failure:
                answers.append(failure)
                break
        return answers


class InProcessRpc:
    """Nodes that are functions of this process; the first one takes the sends."""

    def __init__(self, nodes: Sequence[InProcessNode]) -> None:
        self.nodes = tuple(nodes)
        self._locks: dict[str, asyncio.Lock] = {}

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        return await self.nodes[0].call(method, params, group=group, timeout=timeout)

    async def call_each(
        self, calls: Sequence[tuple[str, Json]], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        return await ask_apart(self.call, calls, group, timeout)

    async def send(
        self, lane: str, method: str, batch: Sequence[Json], *, then: tuple[str, Json] | None = None
    ) -> list[Json | RpcFailure]:
        async with self._locks.setdefault(lane, asyncio.Lock()):
            return await self.nodes[0].send(lane, method, batch)

    async def close(self) -> None:
        return None
