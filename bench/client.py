"""`python -m bench.client`: what a request costs a caller through our Python client, and through httpx.

Both read the same record from the same server, one request after the other and 32 at a time, in turn, on kept
connections. The figure is processor time of the calling process, which a busy machine does not change.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import httpx

from txmanager.client import AsyncClient, Client

_REQUESTS = 2_000
_ROUNDS = 5
_ABREAST = 32
RECORD = {
    "idempotency_key": "order-42",
    "kind": "near.transfer",
    "pool": "default",
    "lane": "near:localnet:dev0.near:ed25519:3aJNmAJQpVJGVwcbrs4zBhNbbTZxYNUicPjG5id9S2et",
    "status": "done",
    "tx_hash": "9jzu",
    "nonce": 1,
    "attempts": [],
    "outcome": {"status": "done", "result": None},
    "error": None,
    "created_at": "2026-11-18T20:00:00.000Z",
    "updated_at": "2026-11-18T20:00:00.000Z",
    "metadata": {},
}


def serve(told: Connection) -> None:
    body = json.dumps(RECORD).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(head + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def one_by_one(ask: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(_REQUESTS):
        ask()
    return (time.process_time() - began) / _REQUESTS * 1e6


async def abreast(ask: Callable[[], Awaitable[object]]) -> float:
    async def caller() -> None:
        for _ in range(_REQUESTS // _ABREAST):
            await ask()

    began = time.process_time()
    await asyncio.gather(*(caller() for _ in range(_ABREAST)))
    return (time.process_time() - began) / _REQUESTS * 1e6


async def both_abreast(url: str, read: str) -> tuple[float, float]:
    async with AsyncClient(url) as ours, httpx.AsyncClient() as theirs:
        return await abreast(lambda: ours.get("order-42")), await abreast(lambda: theirs.get(read))


def imports(module: str) -> float:
    code = f"import time; b = time.process_time(); import {module}; print((time.process_time() - b) * 1000)"
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(_ROUNDS)
    )


def main() -> None:
    heard, told = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(told,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{heard.recv()}"
    read = f"{url}/v1/intents/order-42"
    rows: dict[str, list[tuple[float, float]]] = {"one after the other": [], f"{_ABREAST} at a time": []}
    with Client(url) as ours, httpx.Client() as theirs:
        for _ in range(_ROUNDS):
            pair = one_by_one(lambda: ours.get("order-42")), one_by_one(lambda: theirs.get(read))
            rows["one after the other"].append(pair)
            rows[f"{_ABREAST} at a time"].append(asyncio.run(both_abreast(url, read)))
    server.terminate()
    print("| | ours | httpx | httpx / ours |\n|---|---|---|---|")
    for name, pairs in rows.items():
        mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"| {name}, us per request | {mine:.0f} | {other:.0f} | {other / mine:.1f}x |")
    mine, other = imports("txmanager.client"), imports("httpx")
    print(f"| import, ms | {mine:.0f} | {other:.0f} | {other / mine:.1f}x |")


if __name__ == "__main__":
    main()
