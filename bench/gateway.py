"""The gateway against what it replaces, all in one run, interleaved; writes `docs/performance/gateway.md`.

    python -m bench.gateway [--repeats 3] [--quick]

Five figures, each a ratio: a proxied read against a bare proxy, an asynchronous send with and without Redis, many
senders against direct sends to the node, and one sender on a node without a mempool, in order and shuffled, against a
relay with a polled lock and against sending one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench.processes import ROOT, redis_server
from bench.report import Goal, goals_table, table
from tests.evm.machines import Anvil
from tests.gateway.strict import Strict, judge
from txmanager.chains.evm.transaction import DYNAMIC, Body, Fees, sign_any
from txmanager.rpc.connection import Connection, connect
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret

CHAIN_ID, GWEI = 31337, 10**9
LINKS = 64
OF_ONE = 32
"""Requests that one sender has under way at once."""
PAGE = ROOT / "docs" / "performance" / "gateway.md"
READ = b'{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x%s","latest"]}' % (b"11" * 20)
_HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_METHOD = """\
The gateway is the production program on the embedded Valkey (AOF, fsync at every write), with its default settings but
for `mode` and `backend`. The node is anvil with a block every second. The strict node takes 0 to 50 ms for each send,
refuses every nonce but the next one, and shows counts 2 to 5 s late. The bare proxy has the gateway's server and its
connection to the node, and nothing in between. The polled lock is a relay with a lock in Redis for each sender and a
look at the queue every 50 ms; it sends in order of arrival. Its caller sends again what was refused, and is stopped
after 20 s where the order is shuffled. One sender has 32 requests under way at once."""
Samples = dict[str, list[float]]


# -- senders


class Sender:
    def __init__(self) -> None:
        self._signer = EvmSigner(Secret(secrets.token_bytes(32)))
        self.address = self._signer.address

    def send(self, nonce: int) -> bytes:
        """The body of a request that sends 1 wei."""
        body, fees = Body(b"\x11" * 20, 1, b"", 21_000, DYNAMIC), Fees(10 * GWEI, GWEI)
        raw = sign_any(CHAIN_ID, nonce, fees, body, self._signer).raw.hex()
        return b'{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x%s"]}' % raw.encode()


def funded(anvil: Anvil, many: int) -> list[Sender]:
    senders = [Sender() for _ in range(many)]
    for sender in senders:
        anvil.fund(sender.address)
    return senders


# -- loads


class Load:
    """Requests over keep-alive connections, each with one request at a time."""

    def __init__(self, url: str, links: int = LINKS) -> None:
        self._port = int(url.rpartition(":")[2])
        self._many = links

    async def run(self, bodies: Sequence[bytes], again: Callable[[bytes], bool] = lambda told: False) -> float:
        """Seconds until each one was answered; `again` says which answers mean that the same is sent once more."""
        links = [await connect("127.0.0.1", self._port, None, None, "load", 1 << 22, 10.0) for _ in range(self._many)]
        left, repeated = list(reversed(bodies)), set[bytes]()
        began = time.perf_counter()

        async def work(link: Connection) -> None:
            while left:
                body = left.pop()
                told = (await link.request(_HEAD % (len(body), body))).body
                if b'"error"' not in told or b"already known" in told or (body in repeated and b"too low" in told):
                    continue
                if b"-32603" in told:  # too busy to answer in time: the same bytes again
                    repeated.add(body)
                elif not again(told):
                    raise RuntimeError(told[:300].decode())
                left.insert(0, body)

        try:
            async with asyncio.TaskGroup() as group:
                for link in links:
                    group.create_task(work(link))
            return time.perf_counter() - began
        finally:
            for link in links:
                link.abort()


# -- who is measured


@contextlib.contextmanager
def _serving(command: Sequence[str], env: dict[str, str] | None = None) -> Iterator[str]:
    told = {**os.environ, "TXMANAGER_LOG_LEVEL": "error", **(env or {})}
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, cwd=ROOT, env=told)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def gateway(node: str, redis_url: str = "", **settings: Any) -> Iterator[str]:
    """The production program; without a Redis its mempool is in memory."""
    settings |= {} if redis_url else {"store": "memory"}
    lines = [
        "[ledger]",
        f'url = "{redis_url or "memory://"}"',
        "[networks.node]",
        'chain = "evm"',
        f"chain_id = {CHAIN_ID}",
        "fees = { resend_after_s = 60 }",  # as on most networks; the preset of anvil says 3
        f'rpc = [{{ url = "{node}", direct = true }}]',
        "[gateway]",
        "port = 0",
        "max_connections = 2000",
        "store_timeout_ms = 20000",  # a busy machine is no outage
        *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
    ]
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder:
        config = Path(folder, "gateway.toml")
        config.write_text("\n".join(lines) + "\n")
        with _serving(["-m", "consumers.gateway"], {"TXMANAGER_CONFIG": str(config)}) as url:
            yield url


def bare_proxy(node: str) -> contextlib.AbstractContextManager[str]:
    return _serving(["-m", "bench.peers.bare_proxy", node])


def polled_lock(node: str, redis_url: str) -> contextlib.AbstractContextManager[str]:
    return _serving(["-m", "bench.peers.polled_lock", node, redis_url])


# -- figures: per second each


async def reads(url: str, many: int) -> float:
    load = Load(url)
    await load.run([READ] * (many // 10))
    return many / await load.run([READ] * many)


async def sends(url: str, anvil: Anvil, senders: int, each: int) -> float:
    people = funded(anvil, senders)
    bodies = [person.send(nonce) for nonce in range(each) for person in people]
    return len(bodies) / await Load(url).run(bodies)


def refused(told: bytes) -> bool:
    return b"nonce" in told


async def in_order(url: str, strict: Strict, many: int, *, links: int, shuffled: bool, limit_s: float) -> float:
    """Transactions of one sender that the node took, per second, until it has all of them or the time is over."""
    [sender] = funded(strict.anvil, 1)
    bodies = [sender.send(nonce) for nonce in range(many)]
    if shuffled:
        random.Random(7).shuffle(bodies)
    before, began = len(strict.log()), time.perf_counter()
    loading = asyncio.create_task(Load(url, links).run(bodies, again=refused))

    async def taken() -> int:
        log = (await asyncio.to_thread(strict.log))[before:]
        return len(judge(log).taken.get(sender.address, []))

    try:
        while (found := await taken()) < many and time.perf_counter() - began < limit_s:
            if loading.done() and (error := loading.exception()) is not None:
                raise error
            await asyncio.sleep(0.05)
        return found / (time.perf_counter() - began)
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)


# -- one run


class Run:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.samples: Samples = {}

    async def take(self, name: str, measure: Awaitable[float]) -> None:
        found = await measure
        self.samples.setdefault(name, []).append(found)
        print(f"{name}: {found:,.1f}/s", flush=True)

    async def all(self, repeats: int) -> None:
        quick = self._options.quick
        for _ in range(repeats):
            with Anvil("--block-time", "1") as anvil:
                await self.reads(anvil, 500 if quick else 6_000)
                await self.sends(anvil, 20 if quick else 300)
                await self.many(anvil, 20 if quick else 1_000)
        with Anvil() as anvil, Strict(anvil, lag=(2.0, 5.0)) as strict:
            await self.one_sender(strict, 20 if quick else 500, 10.0 if quick else 20.0)

    async def reads(self, anvil: Anvil, many: int) -> None:
        with bare_proxy(anvil.url) as url:
            await self.take("read, bare proxy", reads(url, many))
        with redis_server("always") as redis, gateway(anvil.url, redis.url) as url:
            await self.take("read, gateway", reads(url, many))

    async def sends(self, anvil: Anvil, senders: int) -> None:
        with gateway(anvil.url, mode="async") as url:
            await self.take("async send, memory", sends(url, anvil, senders, 10))
        with redis_server("always") as redis, gateway(anvil.url, redis.url, mode="async") as url:
            await self.take("async send, Redis", sends(url, anvil, senders, 10))

    async def many(self, anvil: Anvil, senders: int) -> None:
        await self.take("many senders, direct", sends(anvil.url, anvil, senders, 10))
        with redis_server("always") as redis, gateway(anvil.url, redis.url) as url:
            await self.take("many senders, gateway", sends(url, anvil, senders, 10))

    async def one_sender(self, strict: Strict, many: int, limit_s: float) -> None:
        ordered = {"links": OF_ONE, "shuffled": False, "limit_s": 600.0}
        serial = in_order(strict.url, strict, many, links=1, shuffled=False, limit_s=600.0)
        await self.take("one sender, one after the other", serial)
        settings = {"backend": "strict", "mode": "async"}
        with redis_server("always") as redis, gateway(strict.url, redis.url, **settings) as url:
            await asyncio.sleep(12.0)  # a new store is quiet at first
            await self.take("one sender, gateway", in_order(url, strict, many, **ordered))
            shuffled = in_order(url, strict, many, links=OF_ONE, shuffled=True, limit_s=600.0)
            await self.take("one sender shuffled, gateway", shuffled)
        with redis_server() as redis, polled_lock(strict.url, redis.url) as url:
            await self.take("one sender, polled lock", in_order(url, strict, many, **ordered))
            shuffled = in_order(url, strict, many, links=OF_ONE, shuffled=True, limit_s=limit_s)
            await self.take("one sender shuffled, polled lock", shuffled)


def goals(samples: Samples) -> list[Goal]:
    def ratio(ours: str, other: str) -> float:
        """Of the medians of one run."""
        return median(samples[ours]) / median(samples[other])

    read = ratio("read, gateway", "read, bare proxy")
    stored = ratio("async send, Redis", "async send, memory")
    many = ratio("many senders, gateway", "many senders, direct")
    lock = ratio("one sender, gateway", "one sender, polled lock")
    serial = ratio("one sender, gateway", "one sender, one after the other")
    shuffled = ratio("one sender shuffled, gateway", "one sender shuffled, polled lock")
    rows = (
        ("a proxied read, against a bare proxy", ">= 70 % (aim 90 %)", f"{read:.0%}", read >= 0.7),
        ("asynchronous sends, against the same without Redis", ">= 50 % (aim 80 %)", f"{stored:.0%}", stored >= 0.5),
        ("1,000 senders x 10, against direct sends to the node", ">= 30 % (aim 50 %)", f"{many:.0%}", many >= 0.3),
        ("one sender x 500 on a strict node, against the polled lock", ">= 2x", f"{lock:.1f}x", lock >= 2),
        ("the same, against one after the other", ">= 80 % (aim 90 %)", f"{serial:.0%}", serial >= 0.8),
        ("the same shuffled, against the polled lock", ">= 10x (aim 30x)", f"{shuffled:.1f}x", shuffled >= 10),
    )
    return [Goal(*row) for row in rows]


def page(samples: Samples, repeats: int) -> str:
    rows = [
        [name, f"{median(found):,.1f}", f"{min(found):,.1f} to {max(found):,.1f}"] for name, found in samples.items()
    ]
    return "\n".join(
        [
            "# Performance of the gateway",
            "",
            "Written by `txmanager bench gateway`. Ratios decide; absolute figures only say what this machine did.",
            "",
            f"Medians of {repeats} interleaved repeats; one sender once, with 500 sends each.",
            _METHOD,
            f"The load average of the {os.cpu_count()} cores at the end was {os.getloadavg()[0]:.0f}: where it is far",
            "above the number of cores, everything that needs more steps looks slower than it is.",
            "",
            goals_table(goals(samples)),
            table(["", "per second", "lowest to highest"], rows),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="of all but the figures of one sender")
    parser.add_argument("--quick", action="store_true", help="a few of each, once: whether it runs, not how fast")
    options = parser.parse_args()
    run, repeats = Run(options), 1 if options.quick else options.repeats
    uvloop.run(run.all(repeats))
    for goal in goals(run.samples):
        print(f"{goal.what}: {goal.found} ({goal.must})")
    if not options.quick:
        PAGE.write_text(page(run.samples, repeats))
        print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
