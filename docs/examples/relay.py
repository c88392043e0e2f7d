"""A relay of your own: what a wallet's backend puts in front of txmanager. Run several; none of them holds a key.

    pip install txmanager
    TXMANAGER_URL=http://127.0.0.1:8080 TXMANAGER_TOKEN=$(cat data/token) uvicorn relay:app

    POST /create_account  {"account_id": "alice", "public_key": "ed25519:..."}   sponsor an account
    POST /relay           {"signed_delegate_action": "<base64>"}                 pay for a user's own action
    GET  /status/{key}                                                           how an earlier request ended

A user who taps twice, a phone that retries on a bad network and a load balancer that sends the retry to another
process all get the same answer, because the key is derived from what they ask for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from txmanager.client import AsyncClient, ClientError, NotFound, Record, Refused, StillWaiting, Unreachable

WAIT_S = 20.0
"""How long a request waits for the chain; what takes longer is answered `pending` and goes on."""


def build(url: str, token: str, parent: str) -> Starlette:
    client = AsyncClient(url, token=token)

    async def create_account(request: Request) -> JSONResponse:
        told = await _object(request)
        name, public_key = told.get("account_id"), told.get("public_key")
        if not isinstance(name, str) or "." in name:
            return _problem(400, "account_id: must be a name without dots")
        if not isinstance(public_key, str):
            return _problem(400, "public_key: is required")
        return _answer(await client.create_account(f"{name}.{parent}", public_key, wait_s=WAIT_S))

    async def relay(request: Request) -> JSONResponse:
        delegate = (await _object(request)).get("signed_delegate_action")
        if not isinstance(delegate, str | dict):
            return _problem(400, "signed_delegate_action: is required, as base64 or JSON")
        return _answer(await client.relay(delegate, wait_s=WAIT_S))

    async def status(request: Request) -> JSONResponse:
        return _answer(await client.get(request.path_params["key"]))

    async def on_error(request: Request, error: Exception) -> JSONResponse:
        match error:
            case StillWaiting(record=record):
                return _answer(record)
            case NotFound():
                return _problem(404, "nothing was asked under this key")
            case Refused(status=400 | 409 | 413 | 422):
                return _problem(error.status, error.detail)
            case Unreachable() | Refused(status=429 | 503):
                # The client has retried already; a later retry of the same request is safe.
                return _problem(503, "busy; ask again")
        return _problem(500, "the relay is not set up correctly")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    routes = [
        Route("/create_account", create_account, methods=["POST"]),
        Route("/relay", relay, methods=["POST"]),
        Route("/status/{key:path}", status),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={ClientError: on_error})


async def _object(request: Request) -> dict[str, Any]:
    try:
        told = await request.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _answer(record: Record) -> JSONResponse:
    """What a wallet needs to know, and no more."""
    shown = {"key": record.idempotency_key, "transaction_hash": record.tx_hash}
    if record.done:
        return JSONResponse({**shown, "status": "done"})
    if record.final:
        why = (record.error or {}).get("message", "it failed")
        return JSONResponse({**shown, "status": record.status.value, "error": why}, 422)
    return JSONResponse({**shown, "status": "pending"}, 202)


def _problem(status: int, what: str) -> JSONResponse:
    return JSONResponse({"error": what}, status)


def _from_environment() -> Starlette:
    return build(
        os.environ.get("TXMANAGER_URL", "http://127.0.0.1:8080"),
        os.environ.get("TXMANAGER_TOKEN", ""),
        os.environ.get("RELAY_PARENT", "dev0.near"),
    )


app = _from_environment()
