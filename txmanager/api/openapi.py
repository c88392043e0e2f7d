"""The OpenAPI document, built from the same models that check requests and shape answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from txmanager.api.audit import AuditView
from txmanager.api.intents import Envelope, ResolveRequest
from txmanager.api.lanes import PauseRequest
from txmanager.api.letters import LetterView
from txmanager.api.nonce_paths import nonce_paths
from txmanager.api.nonce_shapes import REQUESTS, VIEWS
from txmanager.api.problems import ANSWERS, ApiError
from txmanager.api.records import EventView, LaneView, RecordView
from txmanager.api.reservations import ReservationView
from txmanager.core.kinds import Kind

Schema = dict[str, Any]
_REF = "#/components/schemas/{model}"
_KEY = r"^[\x21-\x7e]{1,255}$"
CODES = sorted({kind.code for kind in ANSWERS})
"""Every `code` a problem can have: clients make an error class of each."""


class Problem(BaseModel):
    """RFC 9457. `code` is stable; `kept` says what was stored, `do` what helps."""

    model_config = ConfigDict(extra="forbid")
    type: str
    title: str
    status: int
    detail: str
    code: str = Field(examples=["idempotency_key_reused"], json_schema_extra={"enum": [*CODES]})
    kept: str
    do: str
    field: str | None = None
    error: str | None = Field(default=None, description="NONCE_CONFLICT, where that is the problem.")
    currentNonce: int | None = Field(default=None, description="The address's next number.")
    attemptedNonce: int | None = None
    shouldRetry: bool | None = Field(default=None, description="Whether a new reservation and signature help.")
    lockId: str | None = Field(default=None, description="Your place in line.")
    ahead: int | None = Field(default=None, description="How many are before you.")


class LaneList(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lanes: list[LaneView]


class ReservationList(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reservations: list[ReservationView]


class Deleted(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lane: str
    deleted: bool


class DeadList(BaseModel):
    model_config = ConfigDict(extra="forbid")
    dead: list[LetterView]


class AuditList(BaseModel):
    model_config = ConfigDict(extra="forbid")
    audit: list[AuditView]


class Check(BaseModel):
    ok: bool
    reason: str | None = None
    detail: str | None = None
    workers: int | None = None
    lanes: dict[str, int] | None = None


class Readiness(BaseModel):
    status: str
    checks: dict[str, Check]


class Alive(BaseModel):
    status: str


_MODELS: tuple[type[BaseModel], ...] = (
    RecordView,
    EventView,
    LaneView,
    LaneList,
    LetterView,
    DeadList,
    AuditView,
    AuditList,
    ReservationView,
    ReservationList,
    Deleted,
    Problem,
    Readiness,
    Alive,
    Envelope,
    ResolveRequest,
    PauseRequest,
    *REQUESTS,
    *VIEWS,
)
_ALWAYS = (400, 401, 403, 405, 408, 413, 415, 422, 429, 500, 503)


def build_document(
    kinds: Mapping[str, Kind], typed: Mapping[str, tuple[str, Mapping[str, str]]], max_wait_s: float
) -> Schema:
    wanted: list[tuple[type[BaseModel], Any]] = [(model, "validation") for model in _MODELS]
    wanted += [(kind.model, "validation") for kind in kinds.values()]
    names, found = models_json_schema(wanted, ref_template=_REF)
    schemas: Schema = found["$defs"]

    def name_of(kind: Kind) -> str:
        return str(names[kind.model, "validation"]["$ref"]).rpartition("/")[2]

    envelope = schemas["Envelope"]["properties"]
    schemas["IntentRequest"] = {
        "title": "IntentRequest",
        "description": "An intent of any kind.",
        "oneOf": [_intent(kind.name, name_of(kind), envelope) for kind in kinds.values()],
        "discriminator": {"propertyName": "kind"},
    }
    paths: Schema = {"/v1/intents": {"post": _submit("submitIntent", "Submit an intent", "IntentRequest", max_wait_s)}}
    for path, (kind_name, renamed) in typed.items():
        if kind_name not in kinds:
            continue
        kind = kinds[kind_name]
        request = f"{name_of(kind)}Request"
        schemas[request] = _flat(schemas[name_of(kind)], envelope, renamed, request)
        words = (kind.model.__doc__ or kind_name).strip().split("\n")[0]
        paths[path] = {"post": _submit(f"submit{name_of(kind)}", words, request, max_wait_s)}
    paths |= _reading(max_wait_s) | _lanes() | nonce_paths(_ALWAYS, _json, _problems, _operation, _parameter) | _rest()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "txmanager",
            "version": version("txmanager"),
            "description": "Takes intents, gives each exactly one life, and drives it onto the chain in order.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic", "description": "Any name; the token as password."},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def _intent(kind: str, model: str, envelope: Schema) -> Schema:
    return {
        "type": "object",
        "title": kind,
        "properties": {"kind": {"const": kind}, "payload": {"$ref": _REF.format(model=model)}, **envelope},
        "required": ["kind", "payload"],
        "additionalProperties": False,
    }


def _flat(payload: Schema, envelope: Schema, renamed: Mapping[str, str], title: str) -> Schema:
    """A typed route's body: the payload's own fields and the envelope's, side by side."""
    flat = copy.deepcopy(payload)
    flat["title"] = title
    for theirs, ours in renamed.items():
        flat["properties"][theirs] = flat["properties"].pop(ours)
        flat["required"] = [theirs if name == ours else name for name in flat["required"]]
        for example in flat.get("examples", ()):
            example[theirs] = example.pop(ours)
    flat["properties"] |= envelope
    return flat


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(model=name)}


def _json(name: str, words: str) -> Schema:
    return {"description": words, "content": {"application/json": {"schema": _ref(name)}}}


def _problems(*statuses: int) -> Schema:
    titles = {answer.status: answer.title for kind, answer in ANSWERS.items() if kind is not ApiError}
    content = {"application/problem+json": {"schema": _ref("Problem")}}
    found: Schema = {}
    for status in statuses:
        found[str(status)] = {"description": titles[status], "content": content}
        if status in (429, 503):
            found[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "string"}, "required": True}}
    return found


def _parameter(name: str, where: str, schema: Schema, words: str, *, required: bool = False) -> Schema:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": words}


def _wait(max_wait_s: float) -> Schema:
    schema = {"type": "number", "minimum": 0, "maximum": max_wait_s}
    return _parameter("wait", "query", schema, "Wait up to so many seconds for the final state.")


_POOL = _parameter("pool", "query", {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"}, "Its pool.")
_TENANT = _parameter(
    "tenant",
    "query",
    {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"},
    'Whose intent; for tokens with tenant = "*", and needed there once there are several.',
)
_INTENT = _parameter("key", "path", {"type": "string", "pattern": _KEY}, "Its idempotency key.", required=True)
_LANE = _parameter("lane", "path", {"type": "string", "minLength": 1, "maxLength": 255}, "Its id.", required=True)
_LAST = _parameter("Last-Event-ID", "header", {"type": "string"}, "Go on after this id.")
_STREAM = {
    "200": {
        "description": "Server-sent events named `intent`; `data` is an Event.",
        "content": {
            "text/event-stream": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Send the last one back as Last-Event-ID."},
                        "event": {"const": "intent"},
                        "data": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "contentSchema": {"$ref": _REF.format(model="EventView")},
                        },
                    },
                }
            }
        },
    }
}


def _operation(id: str, words: str, scope: str | None, answers: Schema, parameters: list[Schema]) -> Schema:
    operation: Schema = {"operationId": id, "summary": words, "responses": answers}
    if parameters:
        operation["parameters"] = parameters
    if scope is None:
        operation["security"] = []
    else:
        operation["description"] = f"Needs the scope `{scope}`."
    return operation


def _submit(id: str, words: str, request: str, max_wait_s: float) -> Schema:
    known = {"Idempotency-Replayed": {"schema": {"type": "string"}, "description": "`true` when the key was known."}}
    answers = {
        "200": {**_json("RecordView", "A known key, or final within `wait`."), "headers": known},
        "202": _json("RecordView", "Durably accepted."),
        **_problems(*_ALWAYS),
    }
    words_for_key = (
        "1 to 255 visible ASCII characters, the same on every retry. May be left out where the payload implies it "
        "(accounts, recoveries, delegates)."
    )
    key = _parameter("Idempotency-Key", "header", {"type": "string", "pattern": _KEY}, words_for_key)
    operation = _operation(id, words, "submit", answers, [key, _TENANT, _wait(max_wait_s)])
    operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(request)}}}
    return operation


def _reading(max_wait_s: float) -> Schema:
    record = {"200": _json("RecordView", "The record."), **_problems(*_ALWAYS, 404)}
    changed = {**record, **_problems(409)}
    get = _operation("getIntent", "Read an intent", "read", record, [_INTENT, _POOL, _TENANT, _wait(max_wait_s)])
    stream = {**_STREAM, "204": {"description": "Everything was told already."}, **_problems(*_ALWAYS, 404)}
    follow = _operation("followIntent", "Follow an intent to its end", "read", stream, [_INTENT, _POOL, _TENANT, _LAST])
    cancel = _operation("cancelIntent", "Cancel an intent", "submit` or `operate", changed, [_INTENT, _POOL, _TENANT])
    resolve = _operation("resolveIntent", "Decide a held intent", "operate", changed, [_INTENT, _POOL, _TENANT])
    resolve["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref("ResolveRequest")}}}
    pool = _parameter("pool", "path", {"type": "string", "minLength": 1}, "Its name.", required=True)
    events = {**_STREAM, **_problems(*_ALWAYS, 404)}
    return {
        "/v1/intents/{key}": {"get": get},
        "/v1/intents/{key}/events": {"get": follow},
        "/v1/intents/{key}/cancel": {"post": cancel},
        "/v1/intents/{key}/resolve": {"post": resolve},
        "/v1/pools/{pool}/events": {
            "get": _operation("followPool", "Follow a pool", "read", events, [pool, _TENANT, _LAST])
        },
    }


_STEER = ' Once the tokens have several tenants, it needs one with tenant = "*".'
_VERBS = {
    "pause": "Sign no new intents",
    "resume": "Work again",
    "drain": "Route nothing new here, finish what is there",
    "close": "Close an empty lane for ever",
    "rebaseline": "Vouch for the chain's nonce, pause there",
}


def _lanes() -> Schema:
    one = {"200": _json("LaneView", "The lane."), **_problems(*_ALWAYS, 404)}
    listed = {"200": _json("LaneList", "Every lane of the token's pools."), **_problems(*_ALWAYS)}
    paths: Schema = {
        "/v1/lanes": {"get": _operation("listLanes", "List lanes", "read", listed, [_POOL])},
        "/v1/lanes/{lane}": {"get": _operation("getLane", "Read a lane", "read", one, [_LANE])},
    }
    gone = {"200": _json("Deleted", "It is gone."), **_problems(*_ALWAYS, 404, 409)}
    delete = _operation("deleteLane", "Delete a keyless lane that nothing depends on", "operate", gone, [_LANE])
    delete["description"] += _STEER
    paths["/v1/lanes/{lane}"]["delete"] = delete
    out = {
        "200": _json("ReservationList", "Numbers that are out, of the token's tenant."),
        **_problems(*_ALWAYS, 404, 409),
    }
    number = _parameter("nonce", "path", {"type": "integer", "minimum": 0}, "The number.", required=True)
    freed = {"200": _json("ReservationView", "As it was."), **_problems(*_ALWAYS, 404, 409)}
    reservations = _operation("listReservations", "List reserved numbers", "operate", out, [_LANE])
    release = _operation("releaseReservation", "Take back an unsent number", "operate", freed, [_LANE, number])
    paths["/v1/lanes/{lane}/reservations"] = {"get": reservations}
    paths["/v1/lanes/{lane}/reservations/{nonce}/release"] = {"post": release}
    for verb, words in _VERBS.items():
        operation = _operation(f"{verb}Lane", words, "operate", {**one, **_problems(409)}, [_LANE])
        operation["description"] += _STEER
        paths[f"/v1/lanes/{{lane}}/{verb}"] = {"post": operation}
    body = {"required": False, "content": {"application/json": {"schema": _ref("PauseRequest")}}}
    paths["/v1/lanes/{lane}/pause"]["post"]["requestBody"] = body
    return paths


def _rest() -> Schema:
    dead = {"200": _json("DeadList", "Newest first."), **_problems(*_ALWAYS)}
    again = {"202": _json("LetterView", "It is delivered again."), **_problems(*_ALWAYS, 404)}
    letter = _parameter("id", "path", {"type": "string", "minLength": 1}, "Its id.", required=True)
    text = {"200": {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}}
    purpose = _parameter("for", "query", {"enum": ["all", "submit"]}, "`submit`: only what accepting needs.")
    ready = {
        "200": _json("Readiness", "Ready, perhaps degraded."),
        "503": _json("Readiness", "Not ready; the checks say why."),
    }
    entries = {"200": _json("AuditList", "Newest first."), **_problems(*_ALWAYS)}
    count = _parameter("count", "query", {"type": "integer", "minimum": 1, "maximum": 10_000}, "How many; 100.")
    return {
        "/v1/audit": {"get": _operation("listAudit", "Who asked for what", "operate", entries, [count, _TENANT])},
        "/v1/webhooks/dead": {"get": _operation("listDead", "List undelivered events", "operate", dead, [])},
        "/v1/webhooks/dead/{id}/retry": {"post": _operation("retryDead", "Deliver again", "operate", again, [letter])},
        "/healthz": {"get": _operation("health", "The process runs", None, {"200": _json("Alive", "It does.")}, [])},
        "/readyz": {
            "get": _operation(
                "ready", "Intents can be carried out", None, {**ready, **_problems(405, 422, 500)}, [purpose, _POOL]
            )
        },
        "/metrics": {"get": _operation("metrics", "Metrics", None, text, [])},
    }
