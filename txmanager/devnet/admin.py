"""The admin route: faults, and the few things no client of a real network could do.

Requests that change something must be `application/json`, so that a web page in a browser on the same
machine cannot send one without asking first, and no page is ever told it may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import orjson

from . import views
from .errors import Unknown
from .faults import KINDS, Fault
from .http import Request, Response
from .network import Network

MAX_ADVANCE = 100_000


class Admin:
    def __init__(self, network: Network, after_advance: Callable[[], None]) -> None:
        self._network = network
        self._after_advance = after_advance

    def handle(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if request.method in ("POST", "PUT", "PATCH") and request.content_type != "application/json":
            return _answer(415, {"error": "send application/json"})
        try:
            return self._route(request.method, path, request)
        except (ValueError, Unknown) as wrong:
            return _answer(400, {"error": str(wrong)})

    def _route(self, method: str, path: str, request: Request) -> Response:
        if method == "GET" and path == "/admin":
            return _answer(200, self._summary())
        if method == "GET" and path == "/admin/accounts":
            accounts = self._network.chain.genesis.accounts.values()
            return _answer(200, [account.describe() for account in accounts])
        if path == "/admin/faults" or path.startswith("/admin/faults/"):
            return self._faults(method, path, request)
        if method != "POST":
            return _answer(404, {"error": "no such admin request"})
        fields = _object(request.body)
        if path == "/admin/advance":
            blocks = _number(fields, "blocks", 1, MAX_ADVANCE)
            self._network.advance(blocks)
            self._after_advance()
            return _answer(200, self._summary())
        if path == "/admin/reorg":
            orphans = self._network.reorg(_number(fields, "depth", 1, self._network.config.finality_lag))
            return _answer(200, {"orphaned": [block.height for block in orphans]})
        if path == "/admin/foreign":
            hashes = self._network.foreign_use(
                _text(fields, "account_id"),
                _text(fields, "public_key"),
                _number(fields, "by", 1, 1_000_000, default=1),
                _number(fields, "count", 1, 1_000, default=1),
            )
            return _answer(200, {"hashes": [views.b58(digest) for digest in hashes]})
        return _answer(404, {"error": "no such admin request"})

    def _faults(self, method: str, path: str, request: Request) -> Response:
        faults = self._network.faults
        if method == "GET":
            return _answer(200, {"active": [f.describe() for f in faults.active], "kinds": KINDS})
        if method == "POST" and path == "/admin/faults":
            return _answer(200, faults.set(Fault.parse(_object(request.body))).describe())
        if method == "DELETE":
            number = path.removeprefix("/admin/faults").strip("/")
            if number:
                return _answer(200, {"cleared": faults.clear(fault_id=int(number))})
            kind = parse_qs(request.query.decode("latin-1")).get("kind", [None])[0]
            return _answer(200, {"cleared": faults.clear(kind=kind)})
        return _answer(405, {"error": "GET, POST or DELETE"})

    def _summary(self) -> dict[str, Any]:
        network = self._network
        blocks = network.chain.blocks
        return {
            "chain_id": network.config.chain_id,
            "head": blocks[-1].height,
            "final": blocks[max(0, len(blocks) - 1 - network.config.finality_lag)].height,
            "block_ms": network.config.block_ms,
            "nodes": network.config.nodes,
            "pools": [len(pool) for pool in network.pools],
            "in_transit": len(network.in_transit),
            "transactions": len(network.chain.records),
            "burnt": str(network.chain.burnt),
            "refused": dict(network.chain.refused),
            "faults": [fault.describe() for fault in network.faults.active],
        }


def _answer(status: int, content: Any) -> Response:
    return Response(status, orjson.dumps(content), cors=False)


def _object(body: bytes) -> dict[str, Any]:
    fields = orjson.loads(body or b"{}")
    if not isinstance(fields, dict):
        raise ValueError("send a JSON object")
    return fields


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is a string")
    return value


def _number(fields: dict[str, Any], name: str, low: int, high: int, default: int | None = None) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} is a whole number from {low} to {high}")
    return value
