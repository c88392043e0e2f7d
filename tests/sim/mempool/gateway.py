"""A gateway of the simulation: the real engine (heart, intake, submitter, dispatcher, follower) on a simulated store
and node, in a process that can be killed or frozen at every await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.sim.loop import Process
from tests.sim.mempool.nodes import Node
from tests.sim.mempool.store import Line
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.errors import Unavailable
from txmanager.core.given import Given
from txmanager.core.upstream import Found, Seen
from txmanager.runtime.gateway.dispatch import Rules
from txmanager.runtime.gateway.engine import Engine, Seam
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.sends import Sends
from txmanager.runtime.gateway.submit import Answer, Terms

if TYPE_CHECKING:
    from tests.sim.mempool.world import World

LAG_MS = 6_000
METRICS = GatewayMetrics()
"""One for all: nobody reads it."""
LOST_READS = 0.02


class NodeAway(Unavailable):
    code = "rpc_unavailable"


class Upstream:
    """A node as one gateway sees it: each question takes its time, and some get no answer."""

    chain_id = 1
    resend_after_s = 8.0

    def __init__(self, world: World, node: Node, *, strict: bool) -> None:
        self._world = world
        self._node = node
        self.strict = strict
        self.owner = ""

    @property
    def _now(self) -> float:
        return self._world.loop.time()

    async def _asked(self) -> int:
        """The height that the answer is given at."""
        await asyncio.sleep(self._world.dice.uniform(0, 0.02))
        if self._world.store.faulty and self._world.dice.random() < LOST_READS:
            raise NodeAway("no answer")
        return self._node.visible(self._now)

    async def height(self) -> int:
        return await self._asked()

    async def look(self, sender: str) -> Seen:
        return (await self.look_many([sender]))[sender]

    async def look_many(self, senders: Sequence[str]) -> dict[str, Seen]:
        height, node = await self._asked(), self._node
        return {
            one: Seen(node.block(height), height, node.count(one, height), 10**30, node.pending(one, height))
            for one in senders
        }

    async def settled(self, height: int) -> int:
        return min(await self._asked(), self._node.final(self._now))

    async def count_at(self, sender: str, height: int) -> int:
        await self._asked()
        return self._node.count(sender, height)

    async def canonical(self, block_hash: str) -> bool:
        await self._asked()
        return block_hash not in self._node.orphans

    async def find(self, hashes: Sequence[str]) -> list[Found | None]:
        try:
            height = await self._asked()
        except Unavailable:
            return [None] * len(hashes)
        places = [self._node.where(hash, height) for hash in hashes]
        return [Found(at is not None or self._node.waits(hash), at) for hash, at in zip(hashes, places, strict=True)]

    async def send(self, sender: str, raw: bytes, hash: str, may: Callable[[], bool]) -> SendReply:
        await asyncio.sleep(self._world.dice.choice([0.0, 0.01, 0.02, 2.0]))  # a connection may take its time
        if not may():
            return SendReply(Verdict.BUSY, "too late")
        nonce = int(raw.decode().split()[1])
        self._world.wrote(self.owner, sender, nonce, hash)
        reply, heard = self._node.send(self._now, sender, nonce, hash)
        await asyncio.sleep(self._world.dice.uniform(0, 0.05))
        return reply if heard else SendReply(Verdict.UNAVAILABLE, "no answer")


class Gateway:
    def __init__(self, world: World, name: str) -> None:
        self.process = Process(world.loop, name)
        upstream = Upstream(world, world.node, strict=world.strict)
        seam = Seam(
            upstream,  # type: ignore[arg-type]
            Sends(upstream, world.loop.time),  # type: ignore[arg-type]
            Rules(world.strict, LAG_MS, executors=world.limits.executors),
            Terms(waits=world.waits),
            METRICS,
            frozenset,
            lambda sender: True,
            lambda sender: 0,
            world.loop.time,
        )
        self.engine = Engine(Line(world.store), seam)
        self.engine.heart.owner = upstream.owner = name
        self.process.spawn(self.engine.start())

    async def serve(self, given: Given) -> Answer:
        """As a request: whoever asked gives up when nobody answers."""
        task: asyncio.Task[list[Answer]] = self.process.spawn(self.engine.submitter.submit([given]))
        done, _ = await asyncio.wait([task], timeout=12)
        if not done:
            raise Unavailable("the gateway died or hangs")
        [told] = task.result()
        return told
