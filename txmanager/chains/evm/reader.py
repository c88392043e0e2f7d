"""`EvmReader`: an EVM chain for a monitor: every node is asked, the newest answer counts, no key is near.

All answers of a node come in one batch, counts first: a transaction of ours that the count includes is then known to
the same node. A node that hangs or is of another chain costs its answer, nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from txmanager.chains.evm.fees import number
from txmanager.chains.evm.names import LaneId
from txmanager.chains.evm.nodes import Call, expect
from txmanager.core.errors import Misconfigured, Unavailable
from txmanager.core.health import Reading
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import RpcFailure
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.protocol import JsonRpc, Node

TIMEOUT_S = 5.0


class EvmReader:
    def __init__(self, chain_id: int, endpoints: Sequence[Endpoint] = (), *, rpc: JsonRpc | None = None) -> None:
        self.chain_id = chain_id
        self._rpc: JsonRpc = rpc if rpc is not None else HttpRpc(endpoints)

    async def read(self, lane: str, hashes: Sequence[str]) -> Reading:
        address = LaneId.parse(lane).address
        nodes = [node for node in self._rpc.nodes if node.ready]
        answers = await asyncio.gather(*(self._ask(node, address, hashes) for node in nodes), return_exceptions=True)
        readings: list[Reading] = []
        for answer in answers:
            if isinstance(answer, Reading):
                readings.append(answer)
            elif not isinstance(answer, RpcFailure | Unavailable):
                raise answer
        if not readings:
            raise Unavailable(f"no node of chain {self.chain_id} answers")
        newest = max(readings, key=lambda r: r.height)
        pools = [r.pool for r in readings if r.pool is not None]
        return Reading(
            latest=max(r.latest for r in readings),
            balance=newest.balance,
            height=newest.height,
            pool=max(pools, default=None),
            known=frozenset().union(*(r.known for r in readings)),
        )

    async def _ask(self, node: Node, address: str, hashes: Sequence[str]) -> Reading:
        calls: list[Call] = [
            ("eth_chainId", []),
            ("eth_blockNumber", []),
            ("eth_getTransactionCount", [address, "latest"]),
            ("eth_getTransactionCount", [address, "pending"]),
            ("eth_getBalance", [address, "latest"]),
            *(("eth_getTransactionByHash", [hash]) for hash in hashes),
        ]
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answers = await node.call_many(calls, group="monitor", timeout=TIMEOUT_S)
        except TimeoutError:
            raise Unavailable(f"{node.name} did not answer within {TIMEOUT_S} s") from None
        served = number(expect(answers[0]), "eth_chainId")
        if served != self.chain_id:
            raise Misconfigured(f"{node.name} serves chain {served}, not {self.chain_id}; correct rpc or chain_id")
        # A question that a node does not answer says nothing about the transaction.
        known = (hash for hash, answer in zip(hashes, answers[5:], strict=True) if answer is not None)
        return Reading(
            latest=number(expect(answers[2]), "a count"),
            balance=number(expect(answers[4]), "a balance"),
            height=number(expect(answers[1]), "a height"),
            pool=_pool(answers[3]),
            known=frozenset(known),
        )

    async def close(self) -> None:
        await self._rpc.close()


def _pool(answer: Any | RpcFailure) -> int | None:
    return None if isinstance(answer, RpcFailure) else number(answer, "a count")
