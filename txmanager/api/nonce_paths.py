"""The nonce service's part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Shape,
    UnlockedView,
    UnlockRequest,
)

Schema = dict[str, Any]
Json = Callable[[str, str], Schema]
Problems = Callable[..., Schema]
Operation = Callable[[str, str, str | None, Schema, list[Schema]], Schema]

_POSTS: tuple[tuple[str, str, str, type[Shape], str, tuple[int, ...]], ...] = (
    ("/evm/address/nonce", "reserveNonce", "submit", ReserveRequest, ReservedView.__name__, (409,)),
    ("/evm/address/nonce/recycle", "recycleNonce", "submit", RecycleRequest, RecycledView.__name__, (404, 409)),
    ("/evm/address/nonce/lock", "lockNonce", "submit", LockRequest, LockedView.__name__, (409,)),
    ("/evm/address/nonce/unlock", "unlockNonce", "submit", UnlockRequest, UnlockedView.__name__, (404, 409)),
    ("/evm/transaction/sendRaw", "sendRaw", "submit", SendRawRequest, SentView.__name__, (409,)),
    ("/evm/transaction/send", "sendTransaction", "submit", SendRequest, "RecordView", (409,)),
    ("/evm/getCurrentFee", "currentFee", "read", FeeRequest, FeeView.__name__, ()),
)
_ACCEPTS = ("sendRaw", "sendTransaction")


def nonce_paths(
    always: tuple[int, ...], as_json: Json, problems: Problems, operation: Operation, parameter: Callable[..., Schema]
) -> Schema:
    paths: Schema = {}
    key = parameter("Idempotency-Key", "header", {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"}, "Required.")
    for path, id, scope, request, view, more in _POSTS:
        words = (request.__doc__ or id).strip().split("\n")[0]
        answers = {"200": as_json(view, "It is so."), **problems(*always, *more)}
        if id in _ACCEPTS:
            answers["202"] = as_json(view, "Durably accepted.")
        described = operation(id, words, scope, answers, [key] if id == "sendTransaction" else [])
        schema = {"$ref": f"#/components/schemas/{request.__name__}"}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths[path] = {"post": described}
    asked = [
        parameter("networkId", "query", {"type": "string"}, "A network's name or chain id.", required=True),
        parameter("address", "query", {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}, "Of whom.", required=True),
    ]
    answers = {"200": as_json(HealthView.__name__, "How it stands."), **problems(*always, 404)}
    paths["/evm/nonce/health"] = {"get": operation("nonceHealth", "How an address stands", "read", answers, asked)}
    return paths
