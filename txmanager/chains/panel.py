"""A panel: every node of a network asked apart, each through an adapter of its own; the same node counts once.

Nodes are told apart by the key they tell of themselves, else by their host. An answer that does not come, or that
nobody can read, is no word: it says nothing against what the others say.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from txmanager.core.chain import Chain
from txmanager.core.errors import Unavailable
from txmanager.core.models import Json
from txmanager.rpc.one import OneNode
from txmanager.rpc.protocol import JsonRpc, Node

T = TypeVar("T")
Identify = Callable[[Node], Awaitable[str | None]]
"""What a node calls itself (a node key), or None where nodes of this chain do not tell."""


def origin(name: str) -> str:
    """What tells nodes apart that have no key: the host, or host and port on this machine itself."""
    host, colon, _ = name.rpartition(":")
    if not colon:
        return name
    try:
        local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = host == "localhost"
    return name if local else host


@dataclass(frozen=True, slots=True)
class Poll(Generic[T]):
    """The words of different nodes, and why others have none."""

    words: dict[str, T]
    absent: dict[str, Json]


class Panel:
    """`alone` makes an adapter that asks one node only and needs nobody's agreement."""

    def __init__(self, rpc: JsonRpc, alone: Callable[[JsonRpc], Chain], identify: Identify | None = None) -> None:
        self._rpc = rpc
        self._alone = alone
        self._identify = identify
        self._known: list[tuple[str, Node, Chain]] = []

    @property
    def members(self) -> list[tuple[str, Node, Chain]]:
        nodes = self._rpc.nodes
        if [node for _, node, _ in self._known] != list(nodes):
            names = [node.name for node in nodes]
            shown = [name if names.count(name) == 1 else f"{name} #{n + 1}" for n, name in enumerate(names)]
            self._known = [(name, node, self._alone(OneNode(node))) for name, node in zip(shown, nodes, strict=True)]
        return self._known

    async def poll(self, ask: Callable[[Chain], Awaitable[T]]) -> Poll[T]:
        members = self.members
        answers = await asyncio.gather(*(self._ask(node, chain, ask) for _, node, chain in members))
        words: dict[str, T] = {}
        absent: dict[str, Json] = {}
        known: set[str] = set()
        for (name, _, _), (who, answer) in zip(members, answers, strict=True):
            if isinstance(answer, Unavailable):
                absent[name] = f"no answer: {str(answer)[:200]}"
            elif who in known:
                absent[name] = "the same node as another endpoint"
            else:
                known.add(who)
                words[name] = answer
        return Poll(words, absent)

    async def _ask(self, node: Node, chain: Chain, ask: Callable[[Chain], Awaitable[T]]) -> tuple[str, T | Unavailable]:
        if not node.ready:
            return "", Unavailable("left alone for a moment after connection errors")
        try:
            answer = await ask(chain)
            key = await self._identify(node) if self._identify is not None else None
        except Unavailable as failure_:
            return "", failure_
        except Exception as error:  # an answer that nobody can read is that node's fault, and no word of it
            return "", Unavailable(f"its answer cannot be read ({type(error).__name__})")
        return key or origin(node.name), answer

    async def close(self) -> None:
        for _, _, chain in self._known:
            await chain.close()
