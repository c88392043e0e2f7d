"""`EvmUpstream`: an EVM node as the gateway asks it. Bytes are written once; questions are passed on as they came.

On a `strict` backend (no mempool, repeats are charged) a sender has one endpoint and nothing is sent twice by itself.
On `pool` every node gets the bytes, and any acceptance wins.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from txmanager.chains.evm.fees import number
from txmanager.chains.evm.names import checksummed
from txmanager.chains.evm.network import EvmNetwork
from txmanager.chains.evm.nodes import MOST_TELLING, SEND, ask_many, expect
from txmanager.chains.evm.objects import inspected, pending_object
from txmanager.chains.evm.offered import Rules, read_offered
from txmanager.chains.evm.verdicts import classify
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.errors import Misconfigured, Unavailable
from txmanager.core.given import Given
from txmanager.core.upstream import AnswerTooLong, Found, Seen
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import BadAnswer, NotSent, RpcError, RpcFailure, TooLong, shown
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.node import HttpNode

FORWARD_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 20.0
_PER_BATCH = 24
"""Senders looked at in one batch: three questions each stay below what providers take."""


class EvmUpstream:
    def __init__(
        self,
        chain_id: int,
        endpoints: Sequence[Endpoint],
        *,
        strict: bool,
        network: EvmNetwork | None = None,
        allow_unprotected: bool = False,
    ) -> None:
        self.chain_id = chain_id
        self.strict = strict
        self._strict = strict
        self._network = network or EvmNetwork()
        self._rules = Rules(chain_id, allow_unprotected, self._network.max_gas)
        self._rpc = HttpRpc(endpoints)
        self.resend_after_s = self._network.resend_after_s

    # -- bytes

    def read(self, text: str) -> Given:
        return read_offered(text, self._rules)

    def show(self, raw: bytes, sender: str) -> dict[str, Any]:
        return pending_object(raw, sender)

    def line(self, raw: bytes) -> str:
        to = pending_object(raw, "")["to"]
        return inspected(raw, checksummed(to) if to else None)

    def checksummed(self, address: str) -> str:
        return checksummed(address)

    # -- questions

    async def verify(self) -> None:
        failure: RpcFailure | None = None
        right = False
        for node in self._rpc.nodes:
            try:
                served = number(await node.call("eth_chainId", []), "eth_chainId")
            except RpcFailure as error:
                failure = error
                continue
            if served != self.chain_id:
                node.leave_out()
                failure = None
                last = f"{node.name} serves chain {served}, not {self.chain_id}; correct rpc or chain_id"
            else:
                right = True
        if right:
            return
        if failure is not None:
            raise Unavailable(f"no node of chain {self.chain_id} answers: {failure}")
        raise Misconfigured(last)

    async def height(self) -> int:
        return number(await self._rpc.call("eth_blockNumber", [], group="follow"), "a height")

    async def look(self, sender: str) -> Seen:
        return (await self.look_many([sender]))[sender]

    async def look_many(self, senders: Sequence[str]) -> dict[str, Seen]:
        """The block is read last: it is never older than the counts, so while it is canonical, so are they."""
        seen: dict[str, Seen] = {}
        for start in range(0, len(senders), _PER_BATCH):
            seen |= await self._look_some(senders[start : start + _PER_BATCH])
        return seen

    async def _look_some(self, senders: Sequence[str]) -> dict[str, Seen]:
        calls: list[tuple[str, Any]] = []
        for sender in senders:
            calls.append(("eth_getTransactionCount", [sender, "latest"]))
            calls.append(("eth_getBalance", [sender, "latest"]))
            if not self.strict:
                calls.append(("eth_getTransactionCount", [sender, "pending"]))
        calls.append(("eth_getBlockByNumber", ["latest", False]))
        if self.strict:
            answers = await self._node_of("").call_many(calls, group="look")
        else:
            answers = await ask_many(self._rpc, calls, "look")
        block = expect(answers[-1])
        if not isinstance(block, dict) or not isinstance(block.get("hash"), str):
            raise BadAnswer(f"the newest block is not one: {shown(block, 60)}")
        height = number(block.get("number"), "a height")
        if isinstance(block.get("gasLimit"), str):
            rules = self._rules
            limit = number(block["gasLimit"], "a gas limit") or None
            self._rules = Rules(rules.chain_id, rules.allow_unprotected, rules.max_gas, limit)
        each = 2 if self.strict else 3
        seen = {}
        for n, sender in enumerate(senders):
            part = answers[n * each : (n + 1) * each]
            pending = None if self.strict else _optional(part[2])
            count, balance = number(expect(part[0]), "a count"), number(expect(part[1]), "a balance")
            seen[sender] = Seen(block["hash"], height, count, balance, pending)
        return seen

    async def canonical(self, block_hash: str) -> bool:
        block = await self._rpc.call("eth_getBlockByHash", [block_hash, False], group="follow")
        if not isinstance(block, dict):
            return False
        at = await self._rpc.call("eth_getBlockByNumber", [block.get("number"), False], group="follow")
        return isinstance(at, dict) and at.get("hash") == block_hash

    async def settled(self, height: int) -> int:
        """The highest block that is final when the newest one is at `height`; -1 when none is."""
        finality = self._network.finality
        if isinstance(finality, int):
            return height - finality + 1
        block = await self._rpc.call("eth_getBlockByNumber", [finality, False], group="follow")
        return number(block.get("number"), "a height") if isinstance(block, dict) else -1

    async def count_at(self, sender: str, height: int) -> int:
        answer = await self._rpc.call("eth_getTransactionCount", [sender, hex(height)], group="follow")
        return number(answer, "a count")

    async def find(self, hashes: Sequence[str]) -> list[Found | None]:
        if not hashes:
            return []
        calls = [("eth_getTransactionByHash", [hash]) for hash in hashes]
        try:
            answers = await ask_many(self._rpc, calls, "look")
        except RpcFailure:
            return [None] * len(hashes)
        return [None if isinstance(answer, RpcFailure) else _found(answer) for answer in answers]

    # -- sends

    def _node_of(self, sender: str) -> HttpNode:
        nodes = self._rpc.nodes
        return nodes[zlib.crc32(sender.encode()) % len(nodes)] if sender else nodes[0]

    async def send(self, sender: str, raw: bytes, hash: str, may: Callable[[], bool]) -> SendReply:
        if self.strict:
            return await self._send_to(self._node_of(sender), raw, hash, may)
        ready = [node for node in self._rpc.nodes if node.ready] or [self._rpc.nodes[0]]
        if len(ready) == 1:
            return await self._send_to(ready[0], raw, hash, may)
        tasks = {asyncio.create_task(self._send_to(node, raw, hash, may)) for node in ready}
        replies: list[SendReply] = []
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            replies += [task.result() for task in done]
            if taken := next((reply for reply in replies if reply.verdict.sent), None):
                return taken
        return min(replies, key=lambda reply: MOST_TELLING.index(reply.verdict))

    async def _send_to(self, node: HttpNode, raw: bytes, hash: str, may: Callable[[], bool]) -> SendReply:
        try:
            answer = await node.send_once(SEND, ["0x" + raw.hex()], SEND_TIMEOUT_S, may)
        except NotSent as error:
            return SendReply(Verdict.BUSY, str(error))
        except RpcFailure as failure:
            return classify(failure)
        if isinstance(answer, str) and answer.lower() == hash:
            return SendReply(Verdict.ACCEPTED)
        return SendReply(Verdict.UNKNOWN, f"the node answered {shown(answer, 80)!r}")

    # -- proxy

    async def forward(self, body: bytes, *, pinned: bool = False) -> bytes:
        nodes = self._rpc.nodes[:1] if pinned else [node for node in self._rpc.nodes if node.ready]
        last: RpcFailure | None = None
        for node in nodes or self._rpc.nodes[:1]:
            try:
                response = await node.forward(body, FORWARD_TIMEOUT_S)
            except TooLong:
                raise AnswerTooLong(node.endpoint.max_body) from None
            except RpcFailure as failure:
                last = failure
                continue
            if response.body[:1] in (b"{", b"[") or not response.body.strip():
                return response.body
            last = BadAnswer(f"{node.name}: HTTP {response.status} without a JSON-RPC answer")
        raise last or Unavailable("no node answers")

    async def close(self) -> None:
        await self._rpc.close()


def _optional(answer: Any) -> int | None:
    """A node may have no pool to ask: that is no failure."""
    if isinstance(answer, RpcError):
        return None
    return number(expect(answer), "a pending count")


def _found(answer: Any) -> Found:
    if not isinstance(answer, dict):
        return Found(False, None)
    at = answer.get("blockNumber")
    return Found(True, number(at, "a height") if isinstance(at, str) else None)
