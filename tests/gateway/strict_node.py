"""A node without a mempool, as Hedera's: a proxy before anvil that refuses and charges every wrong nonce.

It handles the requests of one connection side by side, delays each send by 0 to 50 ms before it looks at the nonce,
and shows counts, receipts and transactions 2 to 5 seconds late. A block is shown when all that it contains is: else a
client that finds its transaction in a block gets no receipt. It writes down what it saw: the judge of every test.

`python -m tests.gateway.strict_node --node URL --port N` runs it. Control methods over the same JSON-RPC:
`strict_log`, `strict_hang [n]` (the next n sends are taken and never answered), `strict_refuse [n, message]`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import httptools
import httpx
import orjson
import rlp
import uvloop
from eth_account import Account
from eth_utils import keccak

CHARGED = ("wrong_nonce", "repeat")


def read_raw(text: str) -> tuple[str, int, str]:
    """(sender, nonce, hash), read by eth-account and not by the code under test."""
    raw = bytes.fromhex(text.removeprefix("0x"))
    legacy = raw[0] >= 0xC0
    parts = rlp.decode(raw if legacy else raw[1:])
    nonce = int.from_bytes(parts[0 if legacy else 1], "big")
    return Account.recover_transaction(text).lower(), nonce, "0x" + keccak(raw).hex()


class StrictNode:
    def __init__(self, node: str, lag_s: tuple[float, float], delay_s: float, seed: int) -> None:
        self._node = node
        self._lag_s = lag_s
        self._delay_s = delay_s
        self._random = random.Random(seed)
        self._http = httpx.AsyncClient(timeout=30.0, limits=httpx.Limits(max_connections=64))
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._count: dict[str, int] = {}
        self._shown: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        """By sender: when a count becomes visible."""
        self._visible: dict[str, float] = {}
        """By hash: when it can be looked up."""
        self._late: dict[str, int | None] = {}
        """What cannot be looked up yet, and its block once that is known."""
        self._log: list[dict[str, Any]] = []
        self._hang = 0
        self._refuse: list[str] = []

    async def ask(self, method: str, params: list[Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        told: dict[str, Any] = (await self._http.post(self._node, json=body)).json()
        return told

    async def answer(self, request: Any) -> Any:
        if isinstance(request, list):
            return [answer for one in request if (answer := await self.answer(one)) is not None]
        method, params = request["method"], request.get("params") or []
        own = getattr(self, f"_{method}", None)
        told = await own(*params) if own else await self.ask(method, params)
        kept = {name: told[name] for name in ("result", "error") if name in told}
        return {"jsonrpc": "2.0", "id": request.get("id"), **kept}

    # -- sends

    async def _eth_sendRawTransaction(self, text: str) -> dict[str, Any]:
        arrived = time.time()
        sender, nonce, name = read_raw(text)
        await asyncio.sleep(self._random.uniform(0, self._delay_s))
        async with self._locks[sender]:
            expected = await self._expected(sender)
            entry = {"at": arrived, "sender": sender, "nonce": nonce, "hash": name, "expected": expected}
            if self._refuse:
                words = self._refuse.pop()
                self._log.append({**entry, "what": "told"})
                return {"error": {"code": -32000, "message": words}}
            if name in self._visible:
                self._log.append({**entry, "what": "repeat"})
                return {"error": {"code": -32000, "message": "DUPLICATE_TRANSACTION: already known"}}
            if nonce != expected:
                self._log.append({**entry, "what": "wrong_nonce"})
                low = nonce < expected
                words = f"Nonce too {'low' if low else 'high'}. Provided nonce: {nonce}, current nonce: {expected}"
                return {"error": {"code": 32001 if low else 32002, "message": words}}
            self._visible[name], self._late[name] = float("inf"), None  # before anybody finds it in a block
            told = await self.ask("eth_sendRawTransaction", [text])
            if "error" in told:
                del self._visible[name], self._late[name]
                self._log.append({**entry, "what": "refused", "words": told["error"].get("message")})
                return told
            self._log.append({**entry, "what": "taken"})
            self._take(sender, nonce, name)
        if self._hang:
            self._hang -= 1
            await asyncio.Event().wait()
        return told

    async def _expected(self, sender: str) -> int:
        if sender not in self._count:
            told = await self.ask("eth_getTransactionCount", [sender, "latest"])
            self._count[sender] = int(told["result"], 16)
            self._shown[sender].append((0.0, self._count[sender]))
        return self._count[sender]

    def _take(self, sender: str, nonce: int, name: str) -> None:
        self._count[sender] = nonce + 1
        at = max(time.time() + self._random.uniform(*self._lag_s), self._shown[sender][-1][0])
        self._shown[sender].append((at, nonce + 1))
        self._visible[name] = at

    # -- what lags

    async def _eth_getTransactionCount(self, address: str, block: Any = "latest") -> dict[str, Any]:
        sender = address.lower()
        if block not in ("latest", "pending") or sender not in self._count:
            return await self.ask("eth_getTransactionCount", [address, block])
        now = time.time()
        return {"result": hex(max(count for at, count in self._shown[sender] if at <= now))}

    async def _eth_getTransactionByHash(self, name: str) -> dict[str, Any]:
        return await self._hidden_or("eth_getTransactionByHash", name)

    async def _eth_getTransactionReceipt(self, name: str) -> dict[str, Any]:
        return await self._hidden_or("eth_getTransactionReceipt", name)

    async def _hidden_or(self, method: str, name: str) -> dict[str, Any]:
        if self._visible.get(name.lower(), 0.0) > time.time():
            return {"result": None}
        return await self.ask(method, [name])

    async def _height(self) -> int:
        """The newest block below every transaction that cannot be looked up yet."""
        height = int((await self.ask("eth_blockNumber", []))["result"], 16)
        for name in list(self._late):
            if self._visible.get(name, 0.0) <= time.time():
                self._late.pop(name, None)
            elif (block := self._late.get(name) or await self._block_of(name)) is not None:
                height = min(height, block - 1)
        return height

    async def _block_of(self, name: str) -> int | None:
        receipt = (await self.ask("eth_getTransactionReceipt", [name])).get("result")
        block = int(receipt["blockNumber"], 16) if receipt else None
        if name in self._late:
            self._late[name] = block
        return block

    async def _eth_blockNumber(self) -> dict[str, Any]:
        return {"result": hex(await self._height())}

    async def _eth_getBlockByNumber(self, block: str, whole: bool = False) -> dict[str, Any]:
        height = await self._height()
        if block in ("latest", "pending"):
            block = hex(height)
        if block.startswith("0x") and int(block, 16) > height:
            return {"result": None}
        return await self.ask("eth_getBlockByNumber", [block, whole])

    async def _eth_getBlockByHash(self, block: str, whole: bool = False) -> dict[str, Any]:
        height = await self._height()
        told = await self.ask("eth_getBlockByHash", [block, whole])
        found = told.get("result")
        return {"result": None} if found and int(found["number"], 16) > height else told

    # -- control

    async def _strict_log(self) -> dict[str, Any]:
        return {"result": self._log}

    async def _strict_hang(self, times: int) -> dict[str, Any]:
        self._hang = times
        return {"result": True}

    async def _strict_refuse(self, times: int, words: str) -> dict[str, Any]:
        self._refuse = [words] * times
        return {"result": True}


class _Connection(asyncio.Protocol):
    """Requests of one connection run side by side; their answers leave in the order of the requests, as HTTP asks."""

    def __init__(self, answer: Callable[[Any], Awaitable[Any]]) -> None:
        self._answer = answer
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._tasks: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._writer = asyncio.create_task(self._write())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        self._tasks.put_nowait(asyncio.create_task(self._answer(orjson.loads(body))))

    async def _write(self) -> None:
        while True:
            body = orjson.dumps(await (await self._tasks.get()))
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._writer is not None:
            self._writer.cancel()


async def serve(options: argparse.Namespace) -> None:
    node = StrictNode(options.node, (options.lag[0], options.lag[1]), options.delay, options.seed)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(node.answer), "127.0.0.1", options.port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--lag", type=float, nargs=2, default=(2.0, 5.0))
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
