"""The devnet as a server: a clock for the network, JSON-RPC for every node, an admin route.

One process, one loop, one network: a request sees the state between two blocks, never within one.
`/` is node 0, `/node/N` is node N, `/any` a balancer that asks a node drawn anew for each request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import orjson

from .admin import Admin
from .block_views import status_view
from .faults import Fault
from .http import Connection, Reply, Request, Response
from .journal import Journal
from .network import Network
from .rpc import Rpc, RpcError, Wait, internal_error, parse_error, timeout_error, untracked_error

REQUEST_TIMEOUT_MS = 10_000.0
_LONGEST_NAP_MS = 100.0
_MISSED_BLOCKS = 20  # a gap this long was a suspended process, not a slow loop


_STARTED_S = time.time() - time.monotonic()


def wall_clock_ms() -> float:
    """The time of day when the process started, carried on by a clock that nobody sets back."""
    return (_STARTED_S + time.monotonic()) * 1000


class Server:
    def __init__(
        self,
        network: Network,
        *,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
        clock: Callable[[], float] = wall_clock_ms,
        journal: Journal | None = None,
    ) -> None:
        self.network = network
        self.rpc = Rpc(network)
        self.timeout_ms = timeout_ms
        self.port = 0
        self._clock = clock
        self._journal = journal
        self._admin = Admin(network, self._after_advance)
        self._waits: dict[Wait, tuple[Any, Reply, float]] = {}
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._ticker: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def node_urls(self) -> list[str]:
        return [f"{self.url}/node/{node}" for node in range(self.network.config.nodes)]

    async def start(self, port: int = 0) -> None:
        """Listen on the loopback address only: this network has no secrets and no guards."""
        loop = asyncio.get_running_loop()
        self.network.resume(self._clock())
        self._listener = await loop.create_server(
            lambda: Connection(self.handle, self._connections), "127.0.0.1", port, backlog=1024
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self._ticker = asyncio.create_task(self._tick_forever())

    async def until(self, stopped: asyncio.Event) -> None:
        """Serve until told to stop. A chain that can no longer go on ends the server with its reason."""
        assert self._ticker is not None
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({stopping, self._ticker}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._ticker.done():
            self._ticker.result()

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.close()
        if self._journal is not None:
            self._journal.close()

    async def _tick_forever(self) -> None:
        network = self.network
        while True:
            now = self._clock()
            # Never long: a waiting request may run out of time before the next block, or `advance` move it.
            await asyncio.sleep(max(0.0, min(network.next_block_at - now, _LONGEST_NAP_MS)) / 1000)
            now = self._clock()
            if now - network.next_block_at > _MISSED_BLOCKS * network.config.block_ms:
                network.resume(now)
            network.tick(now)
            self._after_blocks()

    def _after_blocks(self) -> None:
        """Answer the waiting requests that a new block settled, and those that waited too long."""
        now = self._clock()
        for wait in list(self._waits):
            request_id, reply, deadline = self._waits[wait]
            try:
                answer = self.rpc.poll(wait)
                if answer is None and now >= deadline:
                    observed = self.network.status(wait.tx_hash, wait.node) is not None
                    raise timeout_error("PENDING" if observed else "NOT_OBSERVED")
            except RpcError as error:
                answer = None
                reply(_failure(request_id, error))
            else:
                if answer is None:
                    continue
                reply(_success(request_id, answer))
            del self._waits[wait]
        if self._journal is not None:
            self._journal.compact(self.network)

    def _after_advance(self) -> None:
        self.network.resume(self._clock())  # else no block would come until the clock caught up
        self._after_blocks()

    # requests

    def handle(self, request: Request, reply: Reply) -> None:
        """Every request is answered, whatever it holds: a bug of ours is an INTERNAL_ERROR, not a hang."""
        try:
            self._route(request, reply)
        except Exception as bug:
            reply(_failure(None, internal_error(f"{type(bug).__name__}: {bug}")))

    def _route(self, request: Request, reply: Reply) -> None:
        path = request.path.rstrip("/")
        if path == "/admin" or path.startswith("/admin/"):
            reply(self._admin.handle(request))
            return
        node, rest = self._node_of(path)
        if node is None:
            reply(Response(404, b'{"error":"no such path"}'))
        elif request.method == "OPTIONS":
            reply(Response(204))
        elif request.method == "GET" and rest == "/status":
            reply(Response(200, orjson.dumps(status_view(self.network, self.network.view(node)))))
        elif request.method == "GET" and rest in ("/health", ""):
            reply(Response(200, b"null" if rest else b""))
        elif request.method == "POST" and rest == "":
            self._json_rpc(request.body, node, reply)
        else:
            reply(Response(405 if rest in ("", "/status", "/health") else 404, b'{"error":"not here"}'))

    def _node_of(self, path: str) -> tuple[int | None, str]:
        nodes = self.network.config.nodes
        if path == "/any" or path.startswith("/any/"):
            return self.network.rng.randrange(nodes), path[4:]
        if path.startswith("/node/"):
            number, slash, rest = path[6:].partition("/")
            node = int(number) if number.isdecimal() and len(number) < 6 else nodes
            return (node if node < nodes else None), slash + rest
        return 0, path

    def _json_rpc(self, body: bytes, node: int, reply: Reply) -> None:
        try:
            call = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            words = f"Failed to parse the request body as JSON: {error.msg}"
            reply(Response(400, words.encode(), b"text/plain; charset=utf-8"))
            return
        if not _is_call(call):
            reply(_failure(None, parse_error("JSON RPC Request format was expected")))
            return
        request_id, method = call["id"], call["method"]
        faults = self.network.faults
        struck = faults.before(method, node) if faults.active else None
        if struck is not None:
            reply(_refusal(struck, request_id))
            return
        self.network.tick(self._clock())
        hidden = faults.after(method, node) if faults.active else None
        try:
            answer = self.rpc.call(method, call.get("params"), node)
        except RpcError as error:
            response = _failure(request_id, error)
        else:
            if isinstance(answer, Wait) and hidden is None:
                self._waits[answer] = (request_id, reply, self._clock() + self.timeout_ms)
                return
            response = _success(request_id, answer) if hidden is None else Response(200)
        if hidden is None:
            reply(response)
        elif hidden.kind == "disconnect":
            reply(Response(200, hang_up=True))
        else:
            late = _failure(request_id, timeout_error())
            asyncio.get_running_loop().call_later(hidden.ms / 1000, reply, late)


def _is_call(call: Any) -> bool:
    """A node takes single calls with an id; batches and notifications are no requests to it."""
    if not isinstance(call, dict) or "id" not in call:
        return False
    return isinstance(call.get("method"), str) and call.get("jsonrpc") == "2.0"


def _success(request_id: Any, result: Any) -> Response:
    return Response(200, orjson.dumps({"jsonrpc": "2.0", "result": result, "id": request_id}))


def _failure(request_id: Any, error: RpcError) -> Response:
    return Response(error.http, orjson.dumps({"jsonrpc": "2.0", "error": error.body, "id": request_id}))


def _refusal(fault: Fault, request_id: Any) -> Response:
    """The answer of a request that was not carried out. Gateways in front of a node speak no JSON."""
    if fault.kind == "error":
        return _failure(request_id, internal_error("a fault was asked for"))
    if fault.kind == "untracked":
        return _failure(request_id, untracked_error())
    status = 429 if fault.kind == "rate_limit" else fault.status
    return Response(status, b"<html><body>refused by a fault</body></html>", b"text/html")
