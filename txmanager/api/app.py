"""The application: which path leads where, and which scope it takes. Builds no adapter and holds no key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import orjson
import structlog
from starlette.applications import Starlette
from starlette.routing import Route

from txmanager.api.audit import Auditor
from txmanager.api.auth import Gate, Right
from txmanager.api.bodies import Gone, Receive
from txmanager.api.docs_page import render
from txmanager.api.endpoint import Asgi, Call, Common, Endpoint, Handler, Reply, Send, problem_reply
from txmanager.api.health import Health, Probe
from txmanager.api.hosts import Hosts
from txmanager.api.intents import Intents
from txmanager.api.lanes import Lanes
from txmanager.api.letters import Letters
from txmanager.api.metrics import ApiMetrics
from txmanager.api.nonces import NonceRoutes
from txmanager.api.openapi import build_document
from txmanager.api.problems import ForeignHost, NoRoute
from txmanager.api.quotas import TokenQuotas
from txmanager.api.reservations import ReservationRoutes
from txmanager.api.streams import Streams
from txmanager.core.errors import TxManagerError
from txmanager.core.kinds import Kind
from txmanager.core.mailbox import Mailbox
from txmanager.runtime.acceptor import Acceptor
from txmanager.runtime.events import EventHub
from txmanager.runtime.manager import TxManager
from txmanager.runtime.nonces import Desk, Nonces
from txmanager.settings import Settings
from txmanager.wiring import build_kinds, open_mailbox

TYPED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "/v1/near/accounts": ("near.create_account", {"new_public_key": "public_key"}),
    "/v1/near/delegate-actions": ("near.delegate", {}),
    "/v1/near/transactions": ("near.transaction", {}),
    "/v1/near/recoveries": ("near.recovery", {}),
    "/v1/evm/transactions": ("evm.transaction", {}),
}
"""Routes whose body is the payload itself: the kind, and fields that have another name in the payload."""

App = Callable[[Asgi, Receive, Send], Awaitable[None]]


class Api:
    """An ASGI application; `stop` ends what would keep a server from stopping."""

    def __init__(
        self,
        router: App,
        intents: Intents,
        streams: Streams,
        hub: EventHub,
        metrics: ApiMetrics,
        hosts: Hosts | None,
    ) -> None:
        self.metrics = metrics
        self._router = router
        self._hosts = hosts
        self._intents = intents
        self._streams = streams
        self._hub = hub

    def stop(self) -> None:
        self._intents.stopping.set()
        self._streams.stop()

    def close(self) -> None:
        self._hub.close()

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        # paths are matched as they were sent: a key may hold a slash, as %2F
        if b"%" in scope["raw_path"]:
            scope["path"] = scope["raw_path"].decode("ascii", "replace")
        if self._hosts is not None:
            try:
                self._hosts.check(scope["headers"])
            except ForeignHost as error:
                self.metrics.answered("foreign", 403, 0.0)
                await _refuse(error, send)
                return
        with suppress(Gone):
            await self._router(scope, receive, send)


def build_app(
    manager: TxManager,
    settings: Settings,
    *,
    kinds: Mapping[str, Kind] | None = None,
    probes: Mapping[str, Probe] | None = None,
    mailbox: Mailbox | None = None,
    desks: Mapping[str, Desk] | None = None,
) -> Api:
    """`probes` ask each network for a sign of life; without them `/readyz` says nothing of chains. Without `desks` the
    nonce service knows no network."""
    kinds = build_kinds(settings) if kinds is None else kinds
    mailbox = open_mailbox(settings, manager.ledger) if mailbox is None else mailbox
    metrics, gate, pools, told = ApiMetrics(), Gate(settings.api.tokens), frozenset(settings.pools), settings.api
    acceptor = Acceptor(manager.producer, told.ledger_timeout_s)
    quotas = TokenQuotas(manager.ledger, told.ledger_timeout_s)
    audit = Auditor(manager.ledger, told.ledger_timeout_s)
    intents = Intents(manager, acceptor, kinds, pools, told, metrics, quotas, audit)
    hub = EventHub(manager.ledger)
    streams = Streams(hub, intents, metrics, told.max_streams, told.max_streams_per_token)
    common = Common(told, gate, metrics, audit, quotas, structlog.get_logger("api"))
    nonces = Nonces(manager.ledger, manager.producer, desks or {}, told.ledger_timeout_s)
    served = {name: pool.network for name, pool in settings.pools.items() if pool.keyless != "any"}
    health = Health(manager.ledger, served, probes or {}, metrics, gate, told.ledger_timeout_s)
    document = build_document(kinds, TYPED, told.max_wait_s)
    table: dict[str, dict[str, tuple[Handler, Right | None]]] = {
        **_intent_routes(intents, streams, kinds),
        **_lane_routes(Lanes(manager, intents), manager, intents),
        **_nonce_routes(NonceRoutes(manager, nonces, intents, metrics, told.max_wait_s)),
        **_letter_routes(Letters(mailbox, intents)),
        "/v1/audit": {"GET": (audit.list, "operate")},
        "/healthz": {"GET": (health.healthz, None)},
        "/readyz": {"GET": (health.readyz, None)},
        "/metrics": {"GET": (health.metrics, None)},
        "/openapi.json": {"GET": (_fixed(orjson.dumps(document), b"application/json"), None)},
        "/docs": {"GET": (_fixed(render(document), b"text/html; charset=utf-8"), None)},
    }
    app = Starlette(routes=[Route(path, Endpoint(common, path, **methods)) for path, methods in table.items()])
    app.router.redirect_slashes = False
    app.router.default = _no_route
    # with tokens a page of another site has nothing to send; without them its requests must not count as ours
    hosts = None if told.tokens else Hosts(told.allowed_hosts)
    return Api(app.router, intents, streams, hub, metrics, hosts)


Routes = dict[str, dict[str, tuple[Handler, Right | None]]]


def _intent_routes(intents: Intents, streams: Streams, kinds: Mapping[str, Kind]) -> Routes:
    one = "/v1/intents/{key}"
    typed: Routes = {
        path: {"POST": (intents.submit_as(kind, renamed), "submit")}
        for path, (kind, renamed) in TYPED.items()
        if kind in kinds
    }
    return {
        "/v1/intents": {"POST": (intents.submit, "submit")},
        **typed,
        one: {"GET": (intents.get, "read")},
        f"{one}/events": {"GET": (streams.intent, "read")},
        "/v1/pools/{pool}/events": {"GET": (streams.pool, "read")},
        f"{one}/cancel": {"POST": (intents.cancel, "cancel")},
        f"{one}/resolve": {"POST": (intents.resolve, "operate")},
    }


def _lane_routes(lanes: Lanes, manager: TxManager, intents: Intents) -> Routes:
    one = "/v1/lanes/{lane}"
    numbers = ReservationRoutes(manager, lanes, intents)
    return {
        "/v1/lanes": {"GET": (lanes.list, "read")},
        one: {"GET": (lanes.get, "read"), "DELETE": (lanes.delete, "steer")},
        f"{one}/reservations": {"GET": (numbers.list, "operate")},
        f"{one}/reservations/{{nonce}}/release": {"POST": (numbers.release, "operate")},
        f"{one}/pause": {"POST": (lanes.pause, "steer")},
        f"{one}/resume": {"POST": (lanes.verb(manager.resume), "steer")},
        f"{one}/drain": {"POST": (lanes.verb(manager.drain), "steer")},
        f"{one}/close": {"POST": (lanes.verb(manager.close_lane), "steer")},
        f"{one}/rebaseline": {"POST": (lanes.verb(manager.rebaseline), "steer")},
    }


def _nonce_routes(nonces: NonceRoutes) -> Routes:
    return {
        "/evm/address/nonce": {"POST": (nonces.reserve, "submit")},
        "/evm/address/nonce/recycle": {"POST": (nonces.recycle, "submit")},
        "/evm/address/nonce/lock": {"POST": (nonces.lock, "submit")},
        "/evm/address/nonce/unlock": {"POST": (nonces.unlock, "submit")},
        "/evm/transaction/sendRaw": {"POST": (nonces.send_raw, "submit")},
        "/evm/transaction/send": {"POST": (nonces.send, "submit")},
        "/evm/getCurrentFee": {"POST": (nonces.fees, "read")},
        "/evm/nonce/health": {"GET": (nonces.health, "read")},
    }


def _letter_routes(letters: Letters) -> Routes:
    return {
        "/v1/webhooks/dead": {"GET": (letters.list, "operate")},
        "/v1/webhooks/dead/{id}/retry": {"POST": (letters.retry, "operate")},
    }


def _fixed(body: bytes, content_type: bytes) -> Handler:
    async def handle(call: Call) -> Reply:
        return Reply(200, body, [(b"content-type", content_type)])

    return handle


async def _no_route(scope: Asgi, receive: Receive, send: Send) -> None:
    await _refuse(NoRoute(f"there is no path {scope['path'][:200]!r}"), send)


async def _refuse(error: TxManagerError, send: Send) -> None:
    reply: Reply = problem_reply(error)
    reply.headers.append((b"connection", b"close"))
    await reply.send(None, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
