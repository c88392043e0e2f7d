"""A real node behind rules of another client: what anvil would take, somebody else's node refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.evm.machines import Machine
from tests.evm.test_nodes import node

Rule = Callable[[str, list[Any]], str | None]
"""(method, parameters) to a refusal's words, or None: the node decides."""


@asynccontextmanager
async def middleman(machine: Machine, rule: Rule) -> AsyncIterator[Any]:
    with httpx.Client(timeout=10.0) as http:

        def one(request: dict[str, Any]) -> Any:
            words = rule(request["method"], request.get("params") or [])
            if words is not None:
                return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": words}}
            return http.post(machine.url, json=request).json()

        def answer(body: Any) -> Any:
            return [one(request) for request in body] if isinstance(body, list) else one(body)

        async with node(answer) as server:
            yield server
