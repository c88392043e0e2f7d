"""The application: which path leads where, and which scope it takes. Builds no adapter and holds no key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import structlog
from starlette.applications import Starlette
from starlette.routing import Route

from txmanager.api.auth import Gate
from txmanager.api.bodies import Gone, Receive
from txmanager.api.endpoint import Asgi, Common, Endpoint, Reply, Send, problem_reply
from txmanager.api.health import Health, Probe
from txmanager.api.intents import Intents
from txmanager.api.lanes import Lanes
from txmanager.api.metrics import ApiMetrics
from txmanager.api.problems import NoRoute
from txmanager.core.kinds import Kind
from txmanager.runtime.acceptor import Acceptor
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.wiring import build_kinds

TYPED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "/v1/near/accounts": ("near.create_account", {"new_public_key": "public_key"}),
    "/v1/near/delegate-actions": ("near.delegate", {}),
    "/v1/near/transactions": ("near.transaction", {}),
    "/v1/near/recoveries": ("near.recovery", {}),
}
"""Routes whose body is the payload itself: the kind, and fields that have another name in the payload."""

App = Callable[[Asgi, Receive, Send], Awaitable[None]]


def build_app(
    manager: TxManager,
    settings: Settings,
    *,
    kinds: Mapping[str, Kind] | None = None,
    probes: Mapping[str, Probe] | None = None,
) -> App:
    """`probes` ask each network for a sign of life; without them `/readyz` says nothing of chains."""
    kinds = build_kinds(settings) if kinds is None else kinds
    metrics, gate, pools = ApiMetrics(), Gate(settings.api.tokens), frozenset(settings.pools)
    acceptor = Acceptor(manager.producer, settings.api.ledger_timeout_s)
    intents = Intents(manager, acceptor, kinds, pools, settings.api, metrics)
    lanes = Lanes(manager, intents)
    health = Health(manager.ledger, pools, probes or {}, metrics, gate, settings.api.ledger_timeout_s)
    common = Common(settings.api, gate, metrics, structlog.get_logger("api"))

    def route(path: str, **handlers: object) -> Route:
        return Route(path, Endpoint(common, path, **handlers))  # type: ignore[arg-type]

    lane = "/v1/lanes/{lane}"
    intent = "/v1/intents/{key}"
    routes = [
        route("/v1/intents", POST=(intents.submit, "submit")),
        *(route(path, POST=(intents.submit_as(*typed), "submit")) for path, typed in TYPED.items()),
        route(intent, GET=(intents.get, "read")),
        route(f"{intent}/cancel", POST=(intents.cancel, "submit")),
        route(f"{intent}/resolve", POST=(intents.resolve, "operate")),
        route("/v1/lanes", GET=(lanes.list, "read")),
        route(lane, GET=(lanes.get, "read")),
        route(f"{lane}/pause", POST=(lanes.pause, "operate")),
        route(f"{lane}/resume", POST=(lanes.verb(manager.resume), "operate")),
        route(f"{lane}/drain", POST=(lanes.verb(manager.drain), "operate")),
        route(f"{lane}/close", POST=(lanes.verb(manager.close_lane), "operate")),
        route(f"{lane}/rebaseline", POST=(lanes.verb(manager.rebaseline), "operate")),
        route("/healthz", GET=(health.healthz, None)),
        route("/readyz", GET=(health.readyz, None)),
        route("/metrics", GET=(health.metrics, None)),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.router.default = _no_route
    return _Raw(app.router)


class _Raw:
    """Match paths as they were sent: a key may hold a slash, as %2F."""

    def __init__(self, router: App) -> None:
        self._router = router

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if b"%" in scope["raw_path"]:
            scope["path"] = scope["raw_path"].decode("ascii", "replace")
        try:
            await self._router(scope, receive, send)
        except Gone:
            return


async def _no_route(scope: Asgi, receive: Receive, send: Send) -> None:
    reply: Reply = problem_reply(NoRoute(f"there is no path {scope['path'][:200]!r}"))
    reply.headers.append((b"connection", b"close"))
    await reply.send(None, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
