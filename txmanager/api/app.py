"""The application: the handlers, and a router over the table of operations. Builds no adapter and holds no key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import orjson
from starlette.applications import Starlette
from starlette.routing import Route

from txmanager.api.audit import Auditor
from txmanager.api.auth import Gate
from txmanager.api.batches import Batches
from txmanager.api.bodies import Gone, Receive
from txmanager.api.budgets import BudgetRoutes
from txmanager.api.call import Asgi, Call, Handler, Reply, Send, problem_reply
from txmanager.api.console_files import console_rows
from txmanager.api.docs_page import render
from txmanager.api.doors import Doors, door_surface
from txmanager.api.dry_runs import DryRuns
from txmanager.api.endpoint import Endpoint, Surface
from txmanager.api.health import Health, Probe
from txmanager.api.hosts import Hosts
from txmanager.api.intents import Intents
from txmanager.api.lanes import Lanes
from txmanager.api.letters import Letters
from txmanager.api.listing import Listing
from txmanager.api.live import Live
from txmanager.api.metrics import ApiMetrics
from txmanager.api.nonces import NonceRoutes
from txmanager.api.openapi import build_document
from txmanager.api.operation import Operation, Schema
from txmanager.api.problems import ForeignHost, NoRoute
from txmanager.api.purses import Look, PurseRoutes
from txmanager.api.quotas import TokenQuotas
from txmanager.api.reservations import ReservationRoutes
from txmanager.api.rest import Rest, row
from txmanager.api.sessions import Door, SessionRoutes
from txmanager.api.streams import Streams
from txmanager.api.system import System
from txmanager.api.table import Handlers, operations
from txmanager.api.usage import UsageRoutes
from txmanager.core.errors import TxManagerError
from txmanager.core.kinds import Kind
from txmanager.core.trace import Tracer
from txmanager.runtime.accept.acceptor import Acceptor
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.accept.dry_run import DryRun
from txmanager.runtime.accept.nonces import NonceDesk
from txmanager.runtime.history import reads_receivers
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.wiring import build_kinds

App = Callable[[Asgi, Receive, Send], Awaitable[None]]


class Api:
    """An ASGI application; `stop` ends what would keep a server from stopping."""

    def __init__(
        self,
        router: App,
        intents: Intents,
        streams: Streams,
        ends: Sequence[Callable[[], None]],
        metrics: ApiMetrics,
        hosts: Hosts | None,
        document: Schema,
    ) -> None:
        self.metrics = metrics
        self.document = document
        self._router = router
        self._hosts = hosts
        self._intents = intents
        self._streams = streams
        self._ends = ends

    def stop(self) -> None:
        self._intents.stopping.set()
        self._streams.stop()

    def close(self) -> None:
        for end in self._ends:
            end()

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
        try:
            await self._router(scope, receive, send)
        except Gone:
            return


def build_app(
    manager: TxManager,
    settings: Settings,
    *,
    kinds: Mapping[str, Kind] | None = None,
    probes: Mapping[str, Probe] | None = None,
    desks: Mapping[str, NonceDesk] | None = None,
    dry_run: DryRun | None = None,
    tracer: Tracer | None = None,
    purses: Look | None = None,
) -> Api:
    """`probes` ask each network for a sign of life; without them `/readyz` says nothing of chains. Without `desks` the
    nonce service knows no network, and without `purses` no balance is shown."""
    kinds = build_kinds(settings) if kinds is None else kinds
    metrics, gate, pools, api = ApiMetrics(), Gate(settings.api.tokens), frozenset(settings.pools), settings.api
    acceptor = Acceptor(manager, api.ledger_timeout_s, tracer)
    quotas = TokenQuotas(manager.quotas, api.ledger_timeout_s)
    audit = Auditor(manager.audits, api.ledger_timeout_s)
    door = Door(gate, manager.sessions, api.ledger_timeout_s)
    billing = build_billing(settings)
    dry_runs = DryRuns(dry_run or manager.dry_run(), quotas, billing)
    intents = Intents(manager, acceptor, kinds, pools, api, metrics, quotas, audit, billing, dry_runs)
    hub, board, balances = manager.events(), manager.board(), PurseRoutes(purses)
    streams = Streams(manager, hub, intents, metrics, api.max_streams, api.max_streams_per_token)
    nonces = manager.nonces(desks or {}, api.ledger_timeout_s)
    lanes, budgets = Lanes(manager, intents), BudgetRoutes(manager, intents, billing, metrics)
    served = {name: pool.network for name, pool in settings.pools.items() if pool.callers_sign != "any"}
    history = manager.history(reads_receivers(kinds))
    indexed = settings.archive.index_metadata if settings.archive is not None else frozenset()
    handlers = Handlers(
        intents=intents,
        listing=Listing(history, intents, indexed),
        usage=UsageRoutes(history, intents),
        streams=streams,
        live=Live(board, streams, door),
        lanes=lanes,
        reservations=ReservationRoutes(manager, lanes, intents),
        nonces=NonceRoutes(manager, nonces, intents, metrics, api.max_wait_s),
        letters=Letters(manager.mailbox, intents),
        audit=audit,
        sessions=SessionRoutes(door, audit),
        system=System(manager, intents, settings),
        health=Health(manager, served, probes or {}, metrics, gate, api.ledger_timeout_s, budgets.measure),
        budgets=budgets,
        purses=balances,
        batches=Batches(manager, intents, quotas, billing, metrics, audit, streams, api),
    )
    numbered = [name for name, family in settings.families().items() if family.numbers is not None]
    table = operations(handlers, kinds, api.max_wait_s, numbered)
    document = build_document(table, kinds)
    table += _documentation(document) + console_rows()
    # with tokens a page of another site has nothing to send; without them its requests must not count as ours
    hosts = None if api.tokens else Hosts(api.allowed_hosts)
    rest = Rest(api, door, metrics, audit, quotas)
    parts: list[tuple[Surface, Iterable[Operation]]] = [(rest, table)]
    doors = Doors(manager, intents, billing, audit, api)
    offered = {name: words for family in settings.families().values() for name, words in family.doors.items()}
    for name, door_settings in api.doors.items():
        parts.append((door_surface(rest, door_settings, offered[name], gate), doors.rows(door_settings, offered[name])))
    router = _router(parts, tracer)
    return Api(router, intents, streams, [hub.close, board.close, balances.close], metrics, hosts, document)


def _router(parts: Iterable[tuple[Surface, Iterable[Operation]]], tracer: Tracer | None) -> App:
    endpoints: dict[str, App] = {}
    for surface, table in parts:
        paths: dict[str, list[Operation]] = {}
        for operation in table:
            paths.setdefault(operation.path, []).append(operation)
        endpoints |= {path: Endpoint(surface, rows, tracer) for path, rows in paths.items()}
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in endpoints.items()])
    app.router.redirect_slashes = False
    app.router.default = _no_route
    by_pattern, by_path = app.router, {path: one for path, one in endpoints.items() if "{" not in path}

    def route(scope: Asgi, receive: Receive, send: Send) -> Awaitable[None]:
        endpoint = by_path.get(scope["path"])
        if endpoint is None:
            return by_pattern(scope, receive, send)
        scope["path_params"] = {}
        return endpoint(scope, receive, send)

    return route


def _documentation(document: Schema) -> list[Operation]:
    fixed = {
        "/openapi.json": (orjson.dumps(document), b"application/json"),
        "/docs": (render(document), b"text/html; charset=utf-8"),
    }
    return [row("GET", path, "", "", None, _fixed(*body)) for path, body in fixed.items()]


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
