"""A gateway in the test's own loop: the real server, a real node, the memory mempool unless another one is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.gateway.senders import CHAIN_ID
from tests.waiting import until
from txmanager.api.server import ApiServer
from txmanager.chains.evm.network import PRESETS
from txmanager.chains.evm.upstream import EvmUpstream
from txmanager.core.admission import Limits, Mempool
from txmanager.gateway import GatewayApp
from txmanager.ledger.memory.mempool import MemoryMempool
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.gateway.build import limits_of, options_of, rules_of, terms_of
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.node import GatewayNode
from txmanager.runtime.gateway.rates import Rates
from txmanager.settings import ApiSettings
from txmanager.settings.gateway import GatewaySettings


class RpcError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")


class Client:
    """Plain JSON-RPC over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(timeout=60.0, limits=httpx.Limits(max_connections=500))

    async def post(self, body: bytes | str, path: str = "/", **headers: str) -> httpx.Response:
        told = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return await self.http.post(self.url + path, content=body, headers=told)

    async def ask(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        told = (await self.http.post(self.url, json=body)).json()
        if "error" in told:
            raise RpcError(told["error"])
        return told["result"]

    async def send(self, raw: str) -> str:
        hash: str = await self.ask("eth_sendRawTransaction", raw)
        return hash

    async def count(self, address: str, tag: str = "pending") -> int:
        return int(await self.ask("eth_getTransactionCount", address, tag), 16)

    async def status(self, hash: str) -> dict[str, Any]:
        told: dict[str, Any] = await self.ask("txm_getTransactionStatus", hash)
        return told


class Gateway(Client):
    def __init__(self, url: str, node: GatewayNode, metrics: GatewayMetrics) -> None:
        super().__init__(url)
        self.node = node
        self.metrics = metrics

    def value(self, name: str, **labels: str) -> float:
        told = self.metrics.registry.get_sample_value(f"txmanager_gateway_{name}", {"chain": str(CHAIN_ID), **labels})
        return told or 0.0


@asynccontextmanager
async def gateway(
    machine: Any,
    mempool: Callable[[Limits], Mempool] = MemoryMempool,
    *,
    lanes: Callable[[], frozenset[str]] = frozenset,
    finality: str = "anvil",
    **told: Any,
) -> AsyncIterator[Gateway]:
    """`gateway(anvil, mode="async")`; `strict` is the backend of a strict node unless told otherwise."""
    told.setdefault("backend", "strict" if type(machine).__name__ == "Strict" else "pool")
    told.setdefault("store", "memory")
    settings = GatewaySettings(port=0, **told)
    strict = settings.backend == "strict"
    upstream = EvmUpstream(
        getattr(machine, "chain_id", CHAIN_ID),
        [Endpoint(machine.url, max_body=settings.max_answer_bytes)],
        strict=strict,
        network=PRESETS[finality],
        allow_unprotected=settings.allow_unprotected,
    )
    limits, metrics = limits_of(settings, strict, 3.0), GatewayMetrics()
    store = mempool(limits)
    node = GatewayNode(
        "anvil",
        upstream,
        store,
        options_of(settings),
        rules_of(settings, strict),
        terms_of(settings),
        metrics,
        lanes=lanes,
        admits=Rates(settings.per_second.sender).admits,
        local=lambda: MemoryMempool(limits_of(settings, strict, 3.0, local=True)),
        follow_every_s=0.1,
    )
    app = GatewayApp({"anvil": node}, settings, metrics)
    server = ApiServer(app, ApiSettings(host="127.0.0.1", port=0))
    ready = asyncio.Event()
    await node.start()
    running = asyncio.create_task(server.run(ready.set))
    client = None
    try:
        async with asyncio.timeout(30):
            await ready.wait()
        client = Gateway(f"http://127.0.0.1:{server.port}", node, metrics)
        yield client
    finally:
        if client is not None:
            await client.http.aclose()
        server.stop()
        await asyncio.gather(running, return_exceptions=True)
        await node.stop()
        await upstream.close()
        await store.close()


async def drained(gateway: Gateway, timeout: float = 60.0) -> None:
    """Everything ended and every gauge is back to 0."""

    async def empty() -> bool:
        totals = await gateway.node.mempool.totals()
        return not (totals.waiting + totals.processing + totals.unsure + totals.sent + totals.landed)

    await until(empty, timeout, every=0.1, what="an empty mempool")
    states = ("waiting", "gapped", "processing", "unsure", "sent", "landed")
    await until(
        lambda: not sum(gateway.value("transactions", state=state) for state in states) + gateway.value("held"),
        timeout,
        what="gauges at 0",
    )
