"""The work every peer does per job: build and sign one NEAR function call of 200 bytes, POST it, look its outcome up.

The outcome is what the queue stores. With `--work send` a job ends after the POST, and its hash is stored. The module
imports nothing of txmanager. It posts with aiohttp, as its users do, or (`--http bare`) on a bare keep-alive
connection, which measures the queue alone.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import http.client
import json
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

KEYS = 8
_BLOCK = bytes(32)
POLL_S = 0.005
"""How often a caller asks for its result, where the queue has nothing better than asking."""


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<I", len(raw)) + raw


class Key:
    """One relayer key with its nonces, kept by the process that works its queue."""

    def __init__(self, number: int) -> None:
        self._public, self._secret = crypto_sign_seed_keypair(hashlib.sha256(b"bench %d" % number).digest())
        self._nonce = 1_000

    def request(self, job: int) -> bytes:
        self._nonce += 1
        return self.request_at(job, self._nonce)

    def request_at(self, job: int, nonce: int) -> bytes:
        args = json.dumps({"receiver_id": "bob.near", "amount": str(job), "memo": "x" * 140}).encode()
        call = b"\x02" + _text("ft_transfer") + struct.pack("<I", len(args)) + args
        call += struct.pack("<Q", 30 * 10**12) + (1).to_bytes(16, "little")
        body = _text("relayer.near") + b"\0" + self._public + struct.pack("<Q", nonce)
        body += _text("ft.near") + _BLOCK + struct.pack("<I", 1) + call
        signed = body + b"\0" + crypto_sign(hashlib.sha256(body).digest(), self._secret)[:64]
        params = [base64.b64encode(signed).decode()]
        told = json.dumps({"jsonrpc": "2.0", "id": job, "method": "broadcast_tx_async", "params": params}).encode()
        return told


def look_up(job: int, hash: str) -> bytes:
    params = {"tx_hash": hash, "sender_account_id": "relayer.near", "wait_until": "NONE"}
    return json.dumps({"jsonrpc": "2.0", "id": job, "method": "EXPERIMENTAL_tx_status", "params": params}).encode()


def outcome(told: Any) -> str:
    """What a caller wants to know of it."""
    assert told["final_execution_status"] == "FINAL"
    return json.dumps({"status": told["status"], "gas": told["transaction_outcome"]["outcome"]["gas_burnt"]})


class Link(Protocol):
    async def post(self, body: bytes) -> Any: ...


class SessionLink:
    """What an application has: one aiohttp session for everything."""

    _session: Any = None

    def __init__(self, port: int) -> None:
        import aiohttp  # here, before any clock starts: only who takes it needs it

        self._url = f"http://127.0.0.1:{port}/"
        self._new_session = aiohttp.ClientSession

    async def post(self, body: bytes) -> Any:
        if SessionLink._session is None:
            SessionLink._session = self._new_session()
        async with SessionLink._session.post(self._url, data=body) as response:
            return (await response.json())["result"]

    @classmethod
    async def close(cls) -> None:
        await cls._session.close()


class BareLink:
    """A keep-alive connection to the sink, without a client around it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> Any:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(b"POST / HTTP/1.1\r\nHost: sink\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return json.loads(await reader.readexactly(length))["result"]


class BlockingLink:
    def __init__(self, port: int) -> None:
        self._link = http.client.HTTPConnection("127.0.0.1", port)

    def post(self, body: bytes) -> Any:
        self._link.request("POST", "/", body)
        return json.loads(self._link.getresponse().read())["result"]


class Bench:
    """Counts jobs that ended, and how long each took since it was enqueued."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.keys = [Key(n) for n in range(KEYS)]
        self.links = [self.link() for _ in range(KEYS)]
        self.left = options.jobs
        self.ended = asyncio.Event()
        self.sent: dict[int, float] = {}
        self.took: list[float] = []

    def link(self) -> Link:
        return (BareLink if self.options.http == "bare" else SessionLink)(self.options.sink)

    async def work(self, job: int) -> str:
        key = job % KEYS
        told = await self.pay(self.links[key], self.keys[key].request(job), job)
        self.count(job)
        return told

    async def pay(self, link: Link, request: bytes, job: int) -> str:
        hash = str(await link.post(request))
        return hash if self.options.work == "send" else outcome(await link.post(look_up(job, hash)))

    def count(self, job: int) -> None:
        if job in self.sent:
            self.took.append(time.perf_counter() - self.sent.pop(job))
        self.left -= 1
        if self.left == 0:
            self.ended.set()

    async def drain(self, enqueue: Callable[[int], Awaitable[Any]], start: Callable[[], Any]) -> None:
        for first in range(0, self.options.jobs, 200):
            await asyncio.gather(*(enqueue(n) for n in range(first, min(first + 200, self.options.jobs))))
        began, spent, jobs = time.perf_counter(), time.process_time(), self.options.jobs
        started = start()
        await self.ended.wait()
        seconds, spent = time.perf_counter() - began, time.process_time() - spent
        del started
        told = {"seconds": seconds, "per_s": jobs / seconds, "cpu_us": spent / jobs * 1e6}
        print(json.dumps(told), flush=True)

    async def latency(
        self,
        enqueue: Callable[[int], Awaitable[Any]],
        start: Callable[[], Any],
        result: Callable[[Any], Awaitable[Any]],
    ) -> None:
        """Until a caller that waits for it holds the result; and, as a second figure, until the job's body ended."""
        started = start()
        await asyncio.sleep(1.0)
        loop = asyncio.get_running_loop()
        held: list[float] = []

        async def call(job: int) -> None:
            began = self.sent[job] = time.perf_counter()
            assert await result(await enqueue(job)), "a result was stored"
            held.append(time.perf_counter() - began)

        due, tasks = loop.time(), []
        for job in range(self.options.jobs):
            due += 1 / self.options.rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            tasks.append(asyncio.ensure_future(call(job)))
        await asyncio.gather(*tasks)
        del started
        told = {"latencies_ms": held, "body_ms": self.took}
        print(json.dumps({name: [round(s * 1000, 3) for s in took] for name, took in told.items()}), flush=True)

    async def run(
        self,
        enqueue: Callable[[int], Awaitable[Any]],
        start: Callable[[], Any],
        result: Callable[[Any], Awaitable[Any]],
    ) -> None:
        """`enqueue` answers what `result` waits with, as the queue's own API has it."""
        if self.options.mode == "drain":
            await self.drain(enqueue, start)
        else:
            await self.latency(enqueue, start, result)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("drain", "latency", "work"))
    parser.add_argument("--redis", required=True)
    parser.add_argument("--sink", type=int, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--queue", default="")
    parser.add_argument("--http", choices=("aiohttp", "bare"), default="aiohttp")
    parser.add_argument("--work", choices=("whole", "send"), default="whole")
    return parser.parse_args()
