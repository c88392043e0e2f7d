"""Accepts per second of `POST /v1/batches` against the single route, in one interleaved run on one API process.

    python -m bench.batches [ROUNDS]

Both send from one process over kept-alive connections: 32 at once on the single route, two batches of 500 at once on
the other. No worker runs: only acceptance is measured.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import time
from collections.abc import Sequence

import orjson

from tests.api.stage import Stage, bearer
from tests.devnet.process import Devnet
from tests.servers import DURABLE, Server, find_binaries

_SINGLE, _ABREAST, _BATCH = 1_000, 32, 500
_TOKEN = bearer()["Authorization"]


def _intent(key: str) -> dict[str, object]:
    return {
        "pool": "main",
        "kind": "near.transfer",
        "payload": {"receiver_id": "dev1.near", "amount": "1"},
        "metadata": {"k": key},
    }


class _Connection:
    """Kept alive, and as little work as a client can do: what is measured is the server."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port

    async def open(self) -> _Connection:
        self._reader, self._writer = await asyncio.open_connection(*self._address, limit=1 << 24)
        return self

    async def post(self, path: str, body: bytes, key: str = "") -> tuple[int, bytes]:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {_TOKEN}\r\nContent-Type: application/json\r\n"
        head += f"Idempotency-Key: {key}\r\n" if key else ""
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        told = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(told.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(told[9:12]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


async def _single(connections: Sequence[_Connection]) -> float:
    calls = [(key, orjson.dumps(_intent(key))) for key in (secrets.token_hex(8) for _ in range(_SINGLE))]
    waiting = iter(calls)

    async def caller(connection: _Connection) -> None:
        for key, body in waiting:
            status, answer = await connection.post("/v1/intents", body, key)
            assert status == 202, answer

    began = time.perf_counter()
    await asyncio.gather(*map(caller, connections))
    return _SINGLE / (time.perf_counter() - began)


async def _batches(connections: Sequence[_Connection]) -> float:
    def batch() -> bytes:
        keys = [secrets.token_hex(8) for _ in range(_BATCH)]
        return orjson.dumps({"intents": [{"idempotency_key": key, **_intent(key)} for key in keys]})

    bodies = [batch() for _ in range(4)]

    async def caller(connection: _Connection, mine: Sequence[bytes]) -> None:
        for body in mine:
            status, answer = await connection.post("/v1/batches", body)
            assert status == 200, answer[:300]
            assert answer.count(b'"result":"accepted"') == _BATCH, answer[:300]

    began = time.perf_counter()
    await asyncio.gather(caller(connections[0], bodies[:2]), caller(connections[1], bodies[2:]))
    return 4 * _BATCH / (time.perf_counter() - began)


async def _measure(port: int, rounds: int) -> None:
    connections = [await _Connection("127.0.0.1", port).open() for _ in range(_ABREAST)]
    ratios = []
    for _ in range(rounds):
        single, batches = await _single(connections), await _batches(connections)
        ratios.append(batches / single)
        print(f"single {single:7.0f}/s   batches {batches:7.0f}/s   {ratios[-1]:4.1f}x", flush=True)
    print(f"median {statistics.median(ratios):.1f}x over {rounds} rounds")
    for connection in connections:
        connection.close()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found = find_binaries().any
    assert found is not None, "no redis-server and no valkey-server"
    with (
        Server(found, config=DURABLE) as server,
        Devnet(block_ms=1000, accounts=8, keys=4) as devnet,
        Stage(server.url, f"b{secrets.token_hex(4)}", devnet, lanes=4) as stage,
    ):
        stage.start()
        stage.worker.kill()
        asyncio.run(_measure(stage.port, rounds))


if __name__ == "__main__":
    main()
