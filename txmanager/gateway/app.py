"""The ASGI application of the gateway: paths, tokens, body rules, rates. JSON-RPC answers are HTTP 200, errors too.

Other statuses: 401 without a token, 403 for a foreign host name, 404, 405, 413, 415, and 429. No `Retry-After` goes
with it: a client reads it as milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from txmanager.api import bodies
from txmanager.api.bodies import Gone, Receive
from txmanager.api.call import Asgi, Send
from txmanager.api.metrics import ApiMetrics
from txmanager.api.problems import NotJson, TooLarge, TooSlow
from txmanager.gateway.answering import Answering
from txmanager.gateway.calls import NULL
from txmanager.gateway.doors import Header, Origins, Tokens, is_own_name
from txmanager.gateway.words import REQUEST, Refused, error_bytes, too_many_requests
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.node import GatewayNode
from txmanager.runtime.gateway.rates import Rates, client_address
from txmanager.settings.gateway import GatewaySettings

_JSON: Header = (b"content-type", b"application/json")
_PATH = re.compile(r"/(?:k/(?P<token>[^/]+)/?)?(?P<network>[^/]+)?/?\Z")
_BODY_TIMEOUT_S = 10.0


@dataclass(slots=True)
class _Reply:
    status: int
    body: bytes
    headers: list[Header] = field(default_factory=lambda: [_JSON])


class GatewayApp:
    """`stop` ends nothing early: a send that was begun is answered."""

    def __init__(self, nodes: Mapping[str, GatewayNode], settings: GatewaySettings, metrics: GatewayMetrics) -> None:
        self.metrics = ApiMetrics(metrics.registry)
        self._registry = metrics.registry
        self._settings = settings
        self._nodes = nodes
        allow = frozenset(settings.allow)
        each = {name: Answering(node, allow, settings.max_answer_bytes) for name, node in nodes.items()}
        self._by_path = {**{str(nodes[name].chain_id): one for name, one in each.items()}, **each}
        self._only = next(iter(each.values())) if len(each) == 1 else None
        self._tokens = Tokens([token.sha256 for token in settings.tokens])
        self._origins = Origins(settings.cors)
        self._clients = Rates(settings.per_second.client)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers, began = dict(scope["headers"]), perf_counter()
        with suppress(Gone):
            reply = await self._reply(scope, headers, receive)
            reply.headers += self._origins.headers(headers, scope["method"] == "OPTIONS")
            reply.headers.append((b"content-length", b"%d" % len(reply.body)))
            self.metrics.answered("gateway", reply.status, perf_counter() - began)
            await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
            await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, scope: Asgi, headers: Mapping[bytes, bytes], receive: Receive) -> _Reply:
        method, path = scope["method"], scope["path"]
        if method == "GET":
            return self._get(path)
        if method == "OPTIONS":
            return _Reply(204, b"", [])
        if method != "POST":
            return _refused(405, "send JSON-RPC with POST")
        if not self._settings.public and not is_own_name(headers.get(b"host", b"")):
            return _refused(403, "the header Host names another server; use the address, or set public = true")
        match = _PATH.match(path)
        if not self._tokens.admits(headers, match["token"] if match else None):
            return _refused(401, "unauthorized: add a token to the path (/k/TOKEN) or as Authorization: Bearer TOKEN")
        answering = self._only if match and match["network"] is None else None
        if match and match["network"] is not None:
            answering = self._by_path.get(match["network"])
        if answering is None:
            return _refused(404, f"no such network; there are {', '.join(sorted(self._by_path))}")
        client = scope.get("client")
        address = client_address(client[0] if client else "", headers, self._settings.trusted_proxies)
        if not self._clients.admits(address):
            return _Reply(429, error_bytes(NULL, too_many_requests()))
        return await self._rpc(answering, headers, receive, address)

    async def _rpc(
        self, answering: Answering, headers: Mapping[bytes, bytes], receive: Receive, address: str
    ) -> _Reply:
        try:
            bodies.check_type(headers)
            body = await bodies.read_body(headers, receive, self._settings.max_body_bytes, _BODY_TIMEOUT_S)
        except NotJson:
            return _refused(415, "the content type must be application/json, without compression")
        except TooLarge:
            return _refused(413, f"content length too large: at most {self._settings.max_body_bytes} bytes")
        except TooSlow:
            return _refused(408, "the body did not arrive in time")
        answer = await answering.answer(body, lambda calls: self._clients.charge(address, calls))
        return _Reply(200, answer)

    # -- for probes and Prometheus

    def _get(self, path: str) -> _Reply:
        if path == "/healthz":
            return _Reply(200, b'{"status":"ok"}')
        if path == "/readyz":
            degraded = sorted(name for name, node in self._nodes.items() if node.degraded)
            refuses = self._settings.on_store_failure == "refuse"
            body = {"status": "degraded" if degraded else "ok", "networks": {n: n not in degraded for n in self._nodes}}
            return _Reply(503 if degraded and refuses else 200, orjson.dumps(body))
        if path == "/metrics":
            return _Reply(200, generate_latest(self._registry), [(b"content-type", CONTENT_TYPE_LATEST.encode())])
        return _refused(405, "this is a JSON-RPC endpoint: send POST")


def _refused(status: int, message: str) -> _Reply:
    return _Reply(status, error_bytes(NULL, Refused(message, REQUEST)))
