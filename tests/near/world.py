"""A devnet under the test's own hands: the real state machine in this process, real bytes, blocks made on demand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.devnet.world import GENESIS
from txmanager.chains.near import LaneId, NearChain, NearNetwork, NearPolicy, PublicKey
from txmanager.core.chain import Prepared
from txmanager.core.models import Attempt, Intent, Purpose, new_intent
from txmanager.devnet import Config, Network
from txmanager.devnet.rpc import Rpc, RpcError, Wait
from txmanager.rpc import InProcessNode, InProcessRpc
from txmanager.signing import Ed25519Signer, Secret

ALICE, BOB, CAROL = GENESIS.users
Handler = Callable[[str, Any], Any]


def lane_of(account: Any, index: int = 0, network: str = "localnet") -> tuple[str, Ed25519Signer]:
    signer = Ed25519Signer.parse(Secret(account.keys[index].private_key))
    return str(LaneId(network, account.account_id, PublicKey.parse(signer.public_key))), signer


class NearWorld:
    """`nodes`: how each node of the chain is seen, as (direct, archival); `nodes=()` is node 0, direct."""

    def __init__(
        self,
        *,
        handlers: Sequence[tuple[Handler, bool, bool]] = (),
        epoch_blocks: int = 20_000,
        scan_blocks: int = 2_000,
        finality: str = "FINAL",
        policy: NearPolicy | None = None,
        seed: int = 0,
        **config: Any,
    ) -> None:
        config.setdefault("delay_ms", (0.0, 0.0))
        self.network = Network(GENESIS, Config(**config), random.Random(seed))
        self._rpc = Rpc(self.network)
        self.lane, signer = lane_of(ALICE)
        seen = handlers or [(self.node(0), True, False)]
        self.rpc = InProcessRpc(
            [InProcessNode(h, f"node{i}", direct, archival) for i, (h, direct, archival) in enumerate(seen)]
        )
        settings = NearNetwork(
            self.network.config.validity,
            epoch_blocks,
            finality,
            head_fresh_s=0.0,
            head_max_age_s=0.0,
            scan_blocks=scan_blocks,
        )
        self.chain = NearChain("localnet", (), {self.lane: signer}, rpc=self.rpc, settings=settings, policy=policy)
        self.calls: list[str] = []

    def node(self, number: int, name: str | None = None) -> Handler:
        async def handle(method: str, params: Any) -> Any:
            self.calls.append(method)
            try:
                answer = self._rpc.call(method, params, number)
                while isinstance(answer, Wait):
                    await asyncio.sleep(0)
                    self.network.advance(1)
                    answer = self._rpc.poll(answer) or answer
            except RpcError as error:
                return {"error": error.body}
            if method == "status":
                # Every node has a key of its own: what tells one node from a balancer.
                answer = {**answer, "node_public_key": f"ed25519:{name or f'node{number}'}"}
            return {"result": answer}

        return handle

    def see(self, *handlers: tuple[Handler, bool, bool]) -> None:
        """Look at the same chain through other nodes from now on: (handler, direct, archival)."""
        self.rpc.nodes = tuple(
            InProcessNode(h, f"seen{i}", direct, archival) for i, (h, direct, archival) in enumerate(handlers)
        )

    async def signed(self, count: int = 1, first: int | None = None) -> tuple[list[Intent], list[Attempt]]:
        intents = [transfer(f"k{i}") for i in range(count)]
        if first is None:
            first = (await self.chain.nonce(self.lane)).next_nonce
        ready = [p for p in await self.chain.prepare(self.lane, intents) if isinstance(p, Prepared)]
        assert len(ready) == count
        return intents, await self.chain.sign(self.lane, ready, first, Purpose.FIRST, 0)

    async def run(self, intent: Intent, blocks: int = 12) -> Any:
        """Prepare, sign, send and finish one intent; answers its outcome."""
        [ready] = await self.chain.prepare(self.lane, [intent])
        assert isinstance(ready, Prepared), ready
        view = await self.chain.nonce(self.lane)
        [attempt] = await self.chain.sign(self.lane, [ready], view.next_nonce, Purpose.FIRST, 0)
        [reply] = await self.chain.broadcast(self.lane, [attempt])
        assert reply.verdict.sent
        self.network.advance(blocks)
        [sighting] = await self.chain.look_up(self.lane, [(intent, attempt)])
        assert sighting.where == "final"
        return sighting.outcome


def transfer(key: str, amount: str = "1") -> Intent:
    return intent(key, "near.transfer", {"receiver_id": BOB.account_id, "amount": amount})


def intent(key: str, kind: str, payload: dict[str, Any]) -> Intent:
    return new_intent(key=key, pool="p", kind=kind, payload=payload)
