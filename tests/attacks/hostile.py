"""Nodes that answer bytes of their own choice, and one pass over every method of a chain that asks them.

`Draw(n)` picks a number below n: hypothesis, atheris and a seeded generator all drive the same fuzzer.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from tests.near.world import NearWorld, transfer
from txmanager.chains.evm.chain import EvmChain
from txmanager.chains.evm.names import LaneId
from txmanager.core.chain import Prepared, Sighting
from txmanager.core.errors import TxManagerError
from txmanager.core.models import Attempt, Intent, Purpose, new_intent
from txmanager.core.states import Status
from txmanager.rpc import batch as batches
from txmanager.rpc.connection import Response
from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import RpcFailure
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.node import HttpNode
from txmanager.signing import Secret
from txmanager.signing.evm import EvmSigner

Draw = Callable[[int], int]
Honest = Callable[[str, Any], Awaitable[Any]]
"""(method, params) to an answer: a dict with `result` or `error`."""

LEAVES: list[Any] = [
    None, True, -1, 2**63, 1.5, "", "x", "0x", "0xzz", "0x" + "f" * 5_000, "-1", "1" * 400, "9" * 39, "\x00", "ä" * 999,
    [], {}, [[]], [None, 3], {"": 0}, {"error": "x"}, {"error": {"a": 1}}, {"Failure": []}, {"name": {"b": []}},
    "FINAL", {"SuccessReceiptId": []},
    {"cause": {"name": [], "info": "x"}, "data": {"InvalidTxError": [1]}, "message": [{}]},
]  # fmt: skip


def deep(depth: int, end: bytes = b"1") -> bytes:
    return b"[" * depth + end + b"]" * depth


def hostile(draw: Draw, number: int, honest: Any) -> bytes:
    """One body in place of an honest answer."""
    head = b'{"jsonrpc":"2.0","id":%d,' % number
    depth = (3, 60, 300, 900, 1_000, 1_023, 5_000)[draw(7)]
    leaf = LEAVES[draw(len(LEAVES))]
    match draw(14):
        case 0:
            return deep(depth)
        case 1:
            return head + b'"result":' + deep(depth) + b"}"
        case 2:
            return head + b'"error":{"code":1,"message":' + deep(depth) + b',"data":' + deep(depth) + b"}}"
        case 3:
            return head + b'"error":{"data":{"TxExecutionError":{"InvalidTxError":' + deep(depth) + b"}}}}"
        case 4:
            return (b"", b"\xff\xfe\xfd", b'"\xc3\x28"', b"{", b"null", b"[]", b"<html>")[draw(7)]
        case 5:
            return head + b'"result":' + (b"NaN", b"Infinity", b"1e999", b"9" * 4_000, b'"\\ud800"')[draw(5)] + b"}"
        case 6:
            return b'{"jsonrpc":"2.0","id":' + (b"[[]]", b"{}", b'"1"', b"null", deep(500))[draw(5)] + b',"result":1}'
        case 7:
            return head + b'"result":' + orjson.dumps(leaf if leaf != 2**63 else "x") + b"}"
        case 8:
            return head + b'"error":' + orjson.dumps(leaf if leaf != 2**63 else "x") + b"}"
        case 9:
            return head + b'"result":"' + b"a" * 300_000 + b'"}'
        case 10:
            return orjson.dumps({"jsonrpc": "2.0", "id": number, "result": _damaged(draw, honest, leaf)})
        case 11:
            return orjson.dumps({"jsonrpc": "2.0", "id": number, "result": _damaged(draw, honest, _DELETE)})
        case 12:
            return orjson.dumps({"jsonrpc": "2.0", "id": number})
        case _:
            return orjson.dumps({"jsonrpc": "2.0", "id": number, "result": [honest] * 3})


_DELETE = object()


def _damaged(draw: Draw, honest: Any, leaf: Any) -> Any:
    """A true answer with one place that holds something else, or is not there."""
    told = copy.deepcopy(honest.get("result") if isinstance(honest, dict) else None)
    places = list(_places(told))
    if not places:
        return None if leaf is _DELETE else leaf
    *way, last = places[draw(len(places))]
    target = told
    for step in way:
        target = target[step]
    if leaf is _DELETE:
        del target[last]
    else:
        target[last] = leaf
    return told


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from _places(inner, (*path, name))


class BytesNode(HttpNode):
    """Everything of the real node but the socket: what it reads are the bytes that `answer` makes."""

    def __init__(self, answer: Callable[[int, str, Any], Awaitable[bytes]], name: str = "hostile") -> None:
        super().__init__(Endpoint("http://127.0.0.1:9/", direct=True, name=name), random.Random(1))
        self._answer = answer

    async def call(self, method: str, params: Any, *, group: str = "", timeout: float | None = None) -> Any:
        number = next(self._ids)
        return self._read(Response(200, await self._answer(number, method, params)), number)

    async def call_many(
        self, calls: Sequence[batches.Call], *, group: str = "", timeout: float | None = None
    ) -> list[Any]:
        first = next(self._ids)
        for _ in calls[1:]:
            next(self._ids)
        bodies = [await self._answer(first + n, *call) for n, call in enumerate(calls)]
        return batches.decode(self.name, b"[" + b",".join(bodies) + b"]", first, len(calls))

    async def call_each(
        self, calls: Sequence[batches.Call], *, group: str = "", timeout: float | None = None
    ) -> list[Any]:
        answers: list[Any] = []
        for method, params in calls:
            try:
                answers.append(await self.call(method, params))
            except RpcFailure as failure:
                answers.append(failure)
        return answers

    async def send(
        self, lane: str, method: str, batch: Sequence[Any], *, then: batches.Call | None = None
    ) -> list[Any]:
        answers = await self.call_each([(method, params) for params in batch] + ([then] if then else []))
        ends = next((n for n, answer in enumerate(answers) if isinstance(answer, RpcFailure)), len(answers))
        return answers[: ends + 1]


def rpc_of(*nodes: HttpNode) -> HttpRpc:
    rpc = HttpRpc([Endpoint("http://127.0.0.1:9/")], random.Random(1))
    rpc.nodes = nodes
    return rpc


def liar(draw: Draw, honest: Honest, one_in: int = 2) -> BytesNode:
    """Hostile one time in `one_in`, else as the honest node says."""

    async def answer(number: int, method: str, params: Any) -> bytes:
        told = await honest(method, params)
        if draw(one_in) == 0:
            return hostile(draw, number, told)
        return orjson.dumps({"jsonrpc": "2.0", "id": number, **told})

    return BytesNode(answer)


async def _ask_all(chain: Any, lane: str, intents: Sequence[Intent], attempts: Sequence[Attempt]) -> None:
    """Every method once. An error of our own tree is a fine answer; what landed is never dead, never failed."""

    async def ask(call: Awaitable[Any]) -> Any:
        try:
            return await call
        except TxManagerError:
            return None

    landed, missing = attempts
    view = await ask(chain.nonce(lane))
    if view is not None:
        await ask(chain.readings(lane, view))
    ready = [one for one in await ask(chain.prepare(lane, intents)) or [] if isinstance(one, Prepared)]
    await ask(chain.sign(lane, ready, 10**6, Purpose.FIRST, 0))
    await ask(chain.noop(lane, landed.nonce + 5, [], 0))
    await ask(chain.replace(lane, Prepared(intents[0], None), [landed], 0))
    await ask(chain.broadcast(lane, [landed, missing]))
    await ask(chain.probe(lane, missing))
    for sighting, attempt in zip(
        await ask(chain.look_up(lane, list(zip(intents, attempts, strict=True)))) or [], attempts, strict=False
    ):
        _check(sighting, attempt is landed)
    for proof in await ask(chain.prove_dead(lane, [landed])) or []:
        assert proof is None, "what landed is never dead"
    for name in ("gas_price", "quote", "facts"):
        if hasattr(chain, name):
            await ask(getattr(chain, name)())


def _check(sighting: Sighting, landed: bool) -> None:
    if sighting.where == "final":
        assert landed, "what was never sent is never final"
        assert sighting.outcome is not None
        assert sighting.outcome.status is Status.DONE, "no damage turns a success into a failure"


async def near_pass(draw: Draw) -> None:
    world = NearWorld(scan_blocks=0)
    intents, [landed, missing] = await world.signed(2)
    await world.chain.broadcast(world.lane, [landed])
    world.network.advance(12)
    world.chain._ask_of(rpc_of(liar(draw, world.node(0))))
    await _ask_all(world.chain, world.lane, [transfer("k0"), *intents[1:]], [landed, missing])
    await world.chain.close()


EVM = EvmSigner(Secret(b"\x07" * 32))


async def evm_pass(draw: Draw) -> None:
    lane = str(LaneId(31337, EVM.address))
    receipts: dict[str, Any] = {}

    async def honest(method: str, params: Any) -> Any:
        block = {"number": "0x64", "hash": "0x" + "ab" * 32, "timestamp": "0x1", "baseFeePerGas": "0x5"}
        answers: dict[str, Any] = {
            "eth_chainId": "0x7a69",
            "eth_getBlockByNumber": block,
            "eth_getTransactionCount": "0x1",
            "eth_getBalance": hex(10**20),
            "eth_feeHistory": {"baseFeePerGas": ["0x5", "0x6"], "gasUsedRatio": [0.5], "reward": [["0x2"]]},
            "eth_gasPrice": "0x9",
            "eth_maxPriorityFeePerGas": "0x2",
            "eth_estimateGas": "0x5208",
            "eth_call": "0x",
            "eth_blockNumber": "0x64",
        }
        if method == "eth_getTransactionReceipt":
            return {"result": receipts.get(params[0])}
        if method == "eth_sendRawTransaction":
            return {"error": {"code": -32000, "message": "already known"}}
        return {"result": answers[method]}

    async def body(number: int, method: str, params: Any) -> bytes:
        return orjson.dumps({"jsonrpc": "2.0", "id": number, **await honest(method, params)})

    chain = EvmChain(31337, signers={lane: EVM}, rpc=rpc_of(BytesNode(body)))
    payload = {"to": EVM.address, "value": "1"}
    intents = [new_intent(key=f"k{n}", pool="p", kind="evm.transfer", payload=payload) for n in range(2)]
    ready = [one for one in await chain.prepare(lane, intents) if isinstance(one, Prepared)]
    landed, missing = await chain.sign(lane, ready, 0, Purpose.FIRST, 0)
    receipts[landed.hash] = {
        "transactionHash": landed.hash,
        "blockNumber": "0x2",
        "blockHash": "0x" + "cd" * 32,
        "gasUsed": "0x5208",
        "effectiveGasPrice": "0x5",
        "status": "0x1",
        "logs": [],
    }
    chain._ask_of(rpc_of(liar(draw, honest)))
    await _ask_all(chain, lane, intents, [landed, missing])
    await chain.close()


def run(make: Callable[[Draw], Awaitable[None]], draw: Draw) -> None:
    async def main() -> None:
        await make(draw)

    asyncio.run(main())
