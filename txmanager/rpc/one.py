"""One node of several as a network of its own: whoever asks it gets this node's word and no other's."""

from __future__ import annotations

from collections.abc import Sequence

from txmanager.rpc.errors import RpcFailure
from txmanager.rpc.protocol import Json, Node, ask_apart


class OneNode:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes = (node,)

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        return await self.node.call(method, params, group=group, timeout=timeout)

    async def call_each(
        self, calls: Sequence[tuple[str, Json]], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        return await ask_apart(self.node.call, calls, group, timeout)

    async def send(
        self, lane: str, method: str, batch: Sequence[Json], *, then: tuple[str, Json] | None = None
    ) -> list[Json | RpcFailure]:
        return await self.node.send(lane, method, batch)

    async def close(self) -> None:
        """The node belongs to the network it is part of."""
