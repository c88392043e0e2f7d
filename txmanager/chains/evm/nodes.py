"""Several URLs as one chain: a question goes to the first healthy node, bytes go to all of them.

Any acceptance wins. A node that hangs or lags costs nothing while another one takes the bytes, and what a node says
about a nonce or a price never counts against its health: only connection errors do, in the transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from txmanager.chains.evm.verdicts import classify
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.models import Attempt
from txmanager.rpc.errors import CircuitOpen, RpcFailure, shown
from txmanager.rpc.protocol import JsonRpc, Node

SEND = "eth_sendRawTransaction"
Call = tuple[str, Any]

# When no node took the bytes, the first of these that any said is the answer: what needs a look-up before what needs
# a new price, and a verdict of death only when nobody said anything milder.
MOST_TELLING = (
    Verdict.NONCE_TOO_LOW,
    Verdict.NONCE_GAP,
    Verdict.REPLACEMENT_UNDERPRICED,
    Verdict.UNDERPRICED,
    Verdict.INVALID_FEE,
    Verdict.INSUFFICIENT_FUNDS,
    Verdict.FEE_CAP_EXCEEDED,
    Verdict.ONE_AT_A_TIME,
    Verdict.BUSY,
    Verdict.UNKNOWN,
    Verdict.PERMANENT,
    Verdict.RATE_LIMITED,
    Verdict.UNAVAILABLE,
)


async def ask_many(rpc: JsonRpc, calls: Sequence[Call], group: str) -> list[Any | RpcFailure]:
    """All answers from one and the same URL, so that they belong together."""
    last: RpcFailure = CircuitOpen("every endpoint is left alone for a moment after connection errors")
    for node in rpc.nodes:
        if not node.ready:
            continue
        try:
            return await node.call_many(calls, group=group)
        except RpcFailure as failure:
            last = failure
    raise last


def expect(answer: Any | RpcFailure) -> Any:
    if isinstance(answer, RpcFailure):
        raise answer
    return answer


class Broadcaster:
    def __init__(self, rpc: JsonRpc) -> None:
        self._rpc = rpc
        self._busy: dict[tuple[str, str], asyncio.Task[list[Any | RpcFailure]]] = {}
        """Sends that a node has not answered yet, by (node, channel): it is not given the next before."""

    async def send(self, channel: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        """In nonce order on each node. Answers a prefix that ends with the first bytes no node took."""
        batch = [["0x" + attempt.raw.hex()] for attempt in attempts]
        ready = [node for node in self._rpc.nodes if node.ready]
        free = [node for node in ready if (node.name, channel) not in self._busy]
        if not free and ready:
            busy = [self._busy[node.name, channel] for node in ready]
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
            free = [node for node in ready if (node.name, channel) not in self._busy]
        if not free:
            return [SendReply(Verdict.UNAVAILABLE, "every endpoint is left alone for a moment")]
        tasks = {self._start(node, channel, batch) for node in free}
        by_node: list[list[SendReply]] = []
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            by_node += [_replies(attempts, task.result()) for task in done]
            together = _together(by_node, len(attempts))
            if len(together) == len(attempts) and all(reply.verdict.sent for reply in together):
                return together
        return _together(by_node, len(attempts))

    def _start(self, node: Node, channel: str, batch: Sequence[Any]) -> asyncio.Task[list[Any | RpcFailure]]:
        key = (node.name, channel)
        task = self._busy[key] = asyncio.create_task(_send_all(node, channel, batch))

        def free(ended: asyncio.Task[list[Any | RpcFailure]]) -> None:
            if self._busy.get(key) is ended:
                del self._busy[key]

        task.add_done_callback(free)
        return task

    async def close(self) -> None:
        tasks = list(self._busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send_all(node: Node, channel: str, batch: Sequence[Any]) -> list[Any | RpcFailure]:
    """Bytes that a node already has are refused with an error, which is no reason to stop there."""
    answers: list[Any | RpcFailure] = []
    while len(answers) < len(batch):
        more = await node.send(channel, SEND, batch[len(answers) :])
        answers += more
        last = answers[-1] if more else None
        if not isinstance(last, RpcFailure) or not classify(last).verdict.sent:
            break
    return answers


def _replies(attempts: Sequence[Attempt], answers: Sequence[Any | RpcFailure]) -> list[SendReply]:
    replies = []
    for attempt, answer in zip(attempts, answers, strict=False):
        if isinstance(answer, RpcFailure):
            replies.append(classify(answer))
        elif isinstance(answer, str) and answer.lower() == attempt.hash:
            replies.append(SendReply(Verdict.ACCEPTED))
        else:
            replies.append(SendReply(Verdict.UNKNOWN, f"the node answered {shown(answer, 80)!r} to {attempt.hash}"))
        if not replies[-1].verdict.sent:
            break
    return replies


def _together(by_node: Sequence[Sequence[SendReply]], count: int) -> list[SendReply]:
    replies = []
    for position in range(count):
        said = [one[position] for one in by_node if len(one) > position]
        if not said:
            break
        taken = next((reply for reply in said if reply.verdict.sent), None)
        replies.append(taken or min(said, key=lambda reply: MOST_TELLING.index(reply.verdict)))
        if taken is None:
            break
    return replies
