"""The table of operations: every route of the API, in one place. `operation.py` says what a row is.

A new route is a handler and a row here. A kind of intent with a path of its own gets its row from the chain family
that offers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from txmanager.api.audit import AuditList, Auditor
from txmanager.api.batches import Batches, BatchItem, BatchLine, BatchRequest, BatchView
from txmanager.api.budgets import BudgetList, BudgetRoutes
from txmanager.api.dry_runs import DryRunView
from txmanager.api.health import Alive, Health, Readiness
from txmanager.api.intents import Intents, ResolveRequest
from txmanager.api.kind_schemas import ANY_INTENT, REF, payload_name, request_name
from txmanager.api.lanes import Deleted, LaneList, Lanes, PauseRequest, RebaselineRequest
from txmanager.api.letters import DeadList, Letters, LetterView
from txmanager.api.listing import LIST_PARAMETERS, IntentList, Listing
from txmanager.api.live import Live, LookView
from txmanager.api.nonce_shapes import (
    FeeRequest,
    FeeView,
    HealthView,
    LockedView,
    LockRequest,
    RecycledView,
    RecycleRequest,
    ReservedView,
    ReserveRequest,
    SendRawRequest,
    SendRequest,
    SentView,
    UnlockedView,
    UnlockRequest,
)
from txmanager.api.nonces import NonceRoutes
from txmanager.api.operation import Errors, Operation, Parameter, Success
from txmanager.api.problems import MissingKey, QuotaUsed, TooManyStreams, Unauthorized
from txmanager.api.purses import PurseList, PurseRoutes
from txmanager.api.records import EventView, LaneView, RecordView
from txmanager.api.reservations import ReservationList, ReservationRoutes, ReservationView
from txmanager.api.rest import LEDGER, row
from txmanager.api.sessions import (
    CallerView,
    CodeView,
    Ended,
    OpenedView,
    OpenRequest,
    SessionList,
    SessionRoutes,
)
from txmanager.api.streams import Streams
from txmanager.api.system import System, SystemView
from txmanager.api.usage import USAGE_PARAMETERS, UsageList, UsageRoutes
from txmanager.core.audit import AUDIT_LIMIT
from txmanager.core.errors import (
    BudgetExhausted,
    InvalidInput,
    InvalidKey,
    KeyReused,
    LaneClosed,
    NoLane,
    NonceConflict,
    NoRoom,
    NotAllowed,
    NotFound,
    OwnAccountRefused,
    PolicyRefused,
    QueueFull,
    ReservationOver,
    RolledBack,
    StaleClaim,
    TooManyHeld,
    TurnTaken,
    Unavailable,
)
from txmanager.core.kinds import Kind


@dataclass(frozen=True, slots=True)
class Handlers:
    """Who answers, by noun."""

    intents: Intents
    listing: Listing
    usage: UsageRoutes
    streams: Streams
    live: Live
    lanes: Lanes
    reservations: ReservationRoutes
    nonces: NonceRoutes
    letters: Letters
    audit: Auditor
    sessions: SessionRoutes
    system: System
    health: Health
    budgets: BudgetRoutes
    purses: PurseRoutes
    batches: Batches


def operations(
    handlers: Handlers, kinds: Mapping[str, Kind], max_wait_s: float, numbered: Iterable[str]
) -> list[Operation]:
    """`numbered`: the chains that give numbers to callers who sign themselves."""
    return [
        *_submits(handlers.intents, kinds, max_wait_s),
        *_intents(handlers.intents, handlers.listing, handlers.streams, max_wait_s),
        _live(handlers.live),
        *_lanes(handlers.lanes, handlers.reservations),
        *(row for chain in numbered for row in _nonces(handlers.nonces, chain)),
        _batches(handlers.batches),
        _budgets(handlers.budgets),
        _usage(handlers.usage),
        *_operating(handlers.letters, handlers.audit),
        *_sessions(handlers.sessions),
        row(
            "GET", "/v1/system", "getSystem", "Read what the installation consists of", "read", handlers.system.get,
            Success("Networks; for operators of all tenants also workers and signers.", SystemView), errors=LEDGER,
        ),
        row(
            "GET", "/v1/purses", "listPurses", "Read what lanes pay from, and how much is left", "read",
            handlers.purses.list, Success("Balances, at most a minute old.", PurseList), errors=LEDGER,
        ),
        *_health(handlers.health),
    ]  # fmt: skip


# -- parameters

_NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"}
_KEY = {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"}
_POOL = Parameter("pool", "query", _NAME, "Its pool.")
_TENANT = Parameter(
    "tenant", "query", _NAME, 'Whose intent; for tokens with tenant = "*", and needed there once there are several.'
)
_INTENT = Parameter("key", "path", _KEY, "Its idempotency key.", required=True)
_LIFE = Parameter("life", "query", _NAME, "One use of the key, an earlier one too; with its payload.")
_LANE = Parameter("lane", "path", {"type": "string", "minLength": 1, "maxLength": 255}, "Its id.", required=True)
_LAST_ID = Parameter("Last-Event-ID", "header", {"type": "string"}, "Go on after this id.")
_NEW_KEY = Parameter(
    "Idempotency-Key",
    "header",
    _KEY,
    "1 to 255 visible ASCII characters, the same on every retry. May be left out where the payload implies it.",
)
_REPLAYED = {"Idempotency-Replayed": {"schema": {"type": "string"}, "description": "`true` when the key was known."}}


def _wait(max_wait_s: float) -> Parameter:
    schema = {"type": "number", "minimum": 0, "maximum": max_wait_s}
    return Parameter("wait", "query", schema, "Wait up to so many seconds for the final state.")


# -- errors that several rows share

_SUBMIT: Errors = LEDGER | {
    BudgetExhausted,
    InvalidInput,
    InvalidKey,
    MissingKey,
    PolicyRefused,
    OwnAccountRefused,
    KeyReused,
    QueueFull,
    NoRoom,
    NoLane,
    StaleClaim,
}
_FIND_INTENT: Errors = LEDGER | {InvalidInput, InvalidKey, NotFound}
_FIND_LANE: Errors = LEDGER | {InvalidInput, NotFound}
_RESERVE: Errors = LEDGER | {ReservationOver, TooManyHeld, NotAllowed, NotFound, LaneClosed, RolledBack}

# -- rows


def _submits(intents: Intents, kinds: Mapping[str, Kind], max_wait_s: float) -> list[Operation]:
    answers = (
        Success(
            "The key was known, or the intent ended within `wait`; or the answer to a dry run.",
            RecordView,
            or_shape=DryRunView,
            headers=_REPLAYED,
        ),
        Success("Durably accepted.", RecordView, 202),
    )
    dry_run = Parameter(
        "dry_run", "query", {"type": "boolean"}, "Say what would happen, and write nothing. Counts as a request."
    )
    parameters = (_NEW_KEY, _TENANT, _wait(max_wait_s), dry_run)
    bodies = [("/v1/intents", "submitIntent", "Submit an intent", intents.submit, ANY_INTENT)]
    for kind in kinds.values():
        if kind.own_path is not None:
            words = (kind.model.__doc__ or kind.name).strip().split("\n")[0]
            handler = intents.submit_as(kind.name, kind.own_path.renamed)
            bodies.append((kind.own_path.path, f"submit{payload_name(kind)}", words, handler, request_name(kind)))
    return [
        row("POST", path, id, words, "submit", handler, *answers, errors=_SUBMIT, parameters=parameters, request=body)
        for path, id, words, handler, body in bodies
    ]


def _intents(intents: Intents, listing: Listing, streams: Streams, max_wait_s: float) -> list[Operation]:
    one, find, record = "/v1/intents/{key}", (_INTENT, _POOL, _TENANT), Success("The record.", RecordView)
    pool = Parameter("pool", "path", {"type": "string", "minLength": 1}, "Its name.", required=True)
    events = Success("Server-sent events named `intent`; `data` is an event.", content=_EVENTS)
    return [
        row(
            "GET", "/v1/intents", "listIntents", "List intents", "read", listing.list,
            Success("One page, newest first.", IntentList),
            errors=LEDGER | {InvalidInput}, parameters=(*LIST_PARAMETERS, _TENANT),
        ),
        row(
            "GET", one, "getIntent", "Read an intent", "read", listing.get, record,
            errors=_FIND_INTENT, parameters=(*find, _wait(max_wait_s), _LIFE),
        ),
        row(
            "GET", f"{one}/events", "followIntent", "Follow an intent to its end", "read", streams.intent, events,
            Success("The last event was sent before.", status=204),
            errors=_FIND_INTENT | {TooManyStreams}, parameters=(*find, _LAST_ID),
        ),
        row(
            "POST", f"{one}/cancel", "cancelIntent", "Cancel an intent", "cancel", intents.cancel, record,
            errors=_FIND_INTENT | {NotAllowed, RolledBack}, parameters=find,
        ),
        row(
            "POST", f"{one}/resolve", "resolveIntent", "Decide a held intent", "operate", intents.resolve, record,
            errors=_FIND_INTENT | {NotAllowed}, parameters=find, request=ResolveRequest,
        ),
        row(
            "GET", "/v1/pools/{pool}/events", "followPool", "Follow a pool", "read", streams.pool, events,
            errors=LEDGER | {InvalidInput, TooManyStreams}, parameters=(pool, _TENANT, _LAST_ID),
        ),
    ]  # fmt: skip


_EVENTS = {
    "text/event-stream": {
        "schema": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "Send the last one back as Last-Event-ID."},
                "event": {"const": "intent"},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": {"$ref": REF.format(model=EventView.__name__)},
                },
            },
        }
    }
}


def _live(live: Live) -> Operation:
    look = {
        "type": "object",
        "properties": {
            "event": {"const": "look"},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": REF.format(model=LookView.__name__)},
            },
        },
    }
    return row(
        "GET", "/v1/live", "followAll", "Follow all lanes and intents", "read", live.follow,
        Success(
            "Server-sent events named `look`, at most one a second; the first has all lanes.",
            content={"text/event-stream": {"schema": look}},
        ),
        errors=LEDGER | {TooManyStreams},
    )  # fmt: skip


def _usage(usage: UsageRoutes) -> Operation:
    return row(
        "GET", "/v1/usage", "listUsage", "What was spent, by whom and for what", "read", usage.list,
        Success("Exact sums of what ended, from the archive.", UsageList),
        errors=LEDGER | {InvalidInput, NotAllowed}, parameters=(*USAGE_PARAMETERS, _TENANT),
    )  # fmt: skip


def _batches(batches: Batches) -> Operation:
    return row(
        "POST", "/v1/batches", "submitBatch", "Submit many intents", "submit", batches.submit,
        Success("One result for each intent, in their order.", BatchView),
        errors=LEDGER | {InvalidInput, QuotaUsed, TooManyStreams}, parameters=(_TENANT,), request=BatchRequest,
        lines=(BatchItem, BatchLine),
    )  # fmt: skip


def _budgets(budgets: BudgetRoutes) -> Operation:
    key = Parameter(
        "budget_key",
        "query",
        {"type": "string", "pattern": "^[A-Za-z0-9_.:@-]{1,128}$"},
        "Show the budgets of this key in its pool instead.",
    )
    return row(
        "GET", "/v1/budgets", "listBudgets", "What may be spent, and what is left", "read", budgets.list,
        Success("Your token's, and your pools'.", BudgetList),
        errors=LEDGER | {InvalidInput}, parameters=(key, _POOL, _TENANT),
    )  # fmt: skip


def _lanes(lanes: Lanes, reservations: ReservationRoutes) -> list[Operation]:
    one, lane = "/v1/lanes/{lane}", Success("The lane.", LaneView)
    out = f"{one}/reservations"
    number = Parameter("nonce", "path", {"type": "integer", "minimum": 0}, "The number.", required=True)
    verbs = {
        "pause": (lanes.pause, "Sign no new intents", PauseRequest),
        "resume": (lanes.resume, "Work again", None),
        "drain": (lanes.drain, "Route nothing new here, finish what is there", None),
        "close": (lanes.close, "Close an empty lane for ever", None),
        "rebaseline": (lanes.rebaseline, "Vouch for the chain's nonce, then work again from there", RebaselineRequest),
    }
    return [
        row(
            "GET", "/v1/lanes", "listLanes", "List lanes", "read", lanes.list,
            Success("Every lane of the token's pools.", LaneList),
            errors=LEDGER | {InvalidInput}, parameters=(_POOL,),
        ),
        row("GET", one, "getLane", "Read a lane", "read", lanes.get, lane, errors=_FIND_LANE, parameters=(_LANE,)),
        row(
            "DELETE", one, "deleteLane", "Delete a keyless lane that nothing depends on", "steer", lanes.delete,
            Success("The lane is deleted.", Deleted),
            errors=_FIND_LANE | {NotAllowed}, parameters=(_LANE,),
        ),
        *(
            row(
                "POST", f"{one}/{verb}", f"{verb}Lane", words, "steer", handler, lane,
                errors=_FIND_LANE | {NotAllowed}, parameters=(_LANE,), request=body, body_optional=True,
            )
            for verb, (handler, words, body) in verbs.items()
        ),
        row(
            "GET", out, "listReservations", "List reserved numbers", "operate", reservations.list,
            Success("Numbers that are out, of the token's tenant.", ReservationList),
            errors=_FIND_LANE | {NotAllowed}, parameters=(_LANE,),
        ),
        row(
            "POST", f"{out}/{{nonce}}/release", "releaseReservation", "Take back an unsent number", "operate",
            reservations.release, Success("The reservation as it was.", ReservationView),
            errors=_FIND_LANE | {NotAllowed}, parameters=(_LANE, number),
        ),
    ]  # fmt: skip


def _nonces(nonces: NonceRoutes, chain: str) -> list[Operation]:
    own_key = Parameter("Idempotency-Key", "header", _KEY, "Required.")
    asked = (
        Parameter("networkId", "query", {"type": "string"}, "A network's name or chain id.", required=True),
        Parameter("address", "query", {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}, "Of whom.", required=True),
    )
    sent = LEDGER | {
        PolicyRefused, NonceConflict, LaneClosed, QueueFull, NoRoom, StaleClaim, KeyReused, NotAllowed,
    }  # fmt: skip
    return [
        row(
            "POST", f"/{chain}/address/nonce", "reserveNonce",
            "Reserve the next number of an address whose key is yours",
            "submit", nonces.reserve, Success("The number is reserved for you.", ReservedView),
            errors=_RESERVE, request=ReserveRequest,
        ),
        row(
            "POST", f"/{chain}/address/nonce/recycle", "recycleNonce", "Give back a number that was not sent",
            "submit", nonces.recycle, Success("The number can be reserved again.", RecycledView),
            errors=LEDGER | {ReservationOver, NotAllowed, NotFound}, request=RecycleRequest,
        ),
        row(
            "POST", f"/{chain}/address/nonce/lock", "lockNonce", "Wait for your turn; the number comes with it",
            "submit", nonces.lock, Success("It is your turn.", LockedView),
            errors=_RESERVE | {TurnTaken}, request=LockRequest,
        ),
        row(
            "POST", f"/{chain}/address/nonce/unlock", "unlockNonce", "End a turn, or leave the line",
            "submit", nonces.unlock, Success("Your turn is over.", UnlockedView),
            errors=LEDGER | {ReservationOver, NotFound}, request=UnlockRequest,
        ),
        row(
            "POST", f"/{chain}/transaction/sendRaw", "sendRaw",
            "Send bytes that you signed, at a number that you reserved", "submit", nonces.send_raw,
            Success("These bytes were accepted before.", SentView, headers=_REPLAYED),
            Success("Durably accepted.", SentView, 202),
            errors=sent, request=SendRawRequest,
        ),
        row(
            "POST", f"/{chain}/transaction/send", "sendTransaction", "Send a transaction that a lane of ours signs",
            "submit", nonces.send,
            Success("The key was known.", RecordView, headers=_REPLAYED), Success("Durably accepted.", RecordView, 202),
            errors=_SUBMIT, parameters=(own_key,), request=SendRequest,
        ),
        row(
            "POST", f"/{chain}/getCurrentFee", "currentFee", "What transactions cost now", "read", nonces.fees,
            Success("The current fees.", FeeView), errors=frozenset({Unavailable}), request=FeeRequest,
        ),
        row(
            "GET", f"/{chain}/nonce/health", "nonceHealth", "How an address stands", "read", nonces.health,
            Success("Its numbers and transactions.", HealthView), errors=_FIND_LANE, parameters=asked,
        ),
    ]  # fmt: skip


def _operating(letters: Letters, audit: Auditor) -> list[Operation]:
    dead, letter = "/v1/webhooks/dead", Parameter("id", "path", {"type": "string", "minLength": 1}, "Its id.", True)
    limit = {"type": "integer", "minimum": 1, "maximum": AUDIT_LIMIT}
    return [
        row(
            "GET", "/v1/audit", "listAudit", "Who asked for what", "operate", audit.list,
            Success("Newest first.", AuditList),
            errors=LEDGER | {InvalidInput}, parameters=(Parameter("count", "query", limit, "How many; 100."), _TENANT),
        ),
        row(
            "GET", dead, "listDead", "List undelivered events", "operate", letters.list,
            Success("Newest first.", DeadList), errors=LEDGER,
        ),
        row(
            "POST", f"{dead}/{{id}}/retry", "retryDead", "Deliver again", "operate", letters.retry,
            Success("The event is queued for delivery.", LetterView, 202),
            errors=LEDGER | {NotFound}, parameters=(letter,),
        ),
    ]  # fmt: skip


def _sessions(sessions: SessionRoutes) -> list[Operation]:
    id = Parameter("id", "path", {"type": "string", "minLength": 1}, "Its id.", required=True)
    return [
        row(
            "POST", "/v1/sessions/codes", "offerCode", "Get a code that opens one session", "read", sessions.offer,
            Success("It works once, within `lasts_s`.", CodeView), errors=LEDGER | {NotAllowed},
        ),
        row(
            "POST", "/v1/sessions", "openSession", "Log in with a code", None, sessions.open,
            Success("The session is open.", OpenedView, 201),
            errors=LEDGER | {Unauthorized, QuotaUsed}, request=OpenRequest,
        ),
        row(
            "GET", "/v1/sessions", "listSessions", "List open sessions", "operate", sessions.list,
            Success("Newest first, of the token's tenant.", SessionList), errors=LEDGER,
        ),
        row(
            "DELETE", "/v1/sessions/{id}", "endSession", "End a session", "operate", sessions.end,
            Success("The session is over.", Ended), errors=LEDGER | {NotFound}, parameters=(id,),
        ),
        row(
            "GET", "/v1/session", "whoami", "Read what the token allows", "read", sessions.who,
            Success("The token or session that asks.", CallerView),
        ),
        row(
            "DELETE", "/v1/session", "leave", "Log out", "read", sessions.leave,
            Success("The session is over.", Ended), errors=LEDGER | {NotAllowed},
        ),
    ]  # fmt: skip


def _health(health: Health) -> list[Operation]:
    purpose = Parameter("for", "query", {"enum": ["all", "submit"]}, "`submit`: only what accepting needs.")
    text = {"text/plain": {"schema": {"type": "string"}}}
    return [
        row("GET", "/healthz", "health", "The process runs", None, health.healthz, Success("Success.", Alive)),
        row(
            "GET", "/readyz", "ready", "Intents can be carried out", None, health.readyz,
            Success("Ready, perhaps degraded.", Readiness), Success("Not ready; the checks say why.", Readiness, 503),
            errors=frozenset({InvalidInput}), parameters=(purpose, _POOL),
        ),
        row("GET", "/metrics", "metrics", "Metrics", None, health.metrics, Success("Prometheus text.", content=text)),
    ]  # fmt: skip
