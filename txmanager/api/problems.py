"""Every error as RFC 9457 problem+json: one table, in which each class of the tree has exactly one line.

A problem says what happened (`detail`), a stable `code`, the `field` where there is one, what was kept and what to do.

TxManagerError
└── ApiError                    what only HTTP can get wrong
    ├── Malformed               not JSON, or not the shape of a request
    ├── MissingKey              no Idempotency-Key where nothing implies one
    ├── Unauthorized            no token, or one we do not know
    ├── Forbidden               a known token that may not do this
    ├── ForeignHost             without tokens: a request that a web page of another site makes
    ├── NoRoute                 no such path
    ├── WrongMethod             the path exists, the method does not
    ├── TooSlow                 the body did not arrive in time
    ├── TooLarge                the body is above the limit
    ├── HeadersTooLarge         the headers are above the limit
    ├── NotJson                 the content type is not JSON
    ├── QuotaUsed               the token's quota, or too many bad tokens from one address
    ├── TooManyStreams          every place for an event stream is taken
    └── TooManyConnections      every place for a connection is taken
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from pydantic import BaseModel, ConfigDict, Field

from txmanager.core import errors as core
from txmanager.core.errors import TxManagerError

NOTHING = "Nothing was accepted or changed."


class ApiError(TxManagerError):
    code = "request_refused"

    def __init__(self, message: str, *, field: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class Malformed(ApiError):
    code = "malformed_request"


class MissingKey(ApiError):
    code = "missing_idempotency_key"


class Unauthorized(ApiError):
    code = "unauthorized"


class Forbidden(ApiError):
    code = "forbidden"


class ForeignHost(ApiError):
    code = "foreign_host"


class NoRoute(ApiError):
    code = "no_route"


class WrongMethod(ApiError):
    code = "method_not_allowed"


class TooSlow(ApiError):
    code = "request_too_slow"


class TooLarge(ApiError):
    code = "body_too_large"


class HeadersTooLarge(ApiError):
    code = "headers_too_large"


class NotJson(ApiError):
    code = "unsupported_media_type"


class QuotaUsed(ApiError):
    code = "quota_used"
    retry_after_s = 1


class TooManyStreams(ApiError):
    code = "too_many_streams"
    retry_after_s = 5


class TooManyConnections(ApiError):
    code = "too_many_connections"
    retry_after_s = 1


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    title: str
    do: str
    kept: str = NOTHING


_LATER = "Retry the same request, with the same Idempotency-Key, after Retry-After seconds."
_OPERATOR = "Ask the operator; the logs of the API and the workers say more."

ANSWERS: dict[type[TxManagerError], Answer] = {
    core.TxManagerError: Answer(500, "Unexpected error", _OPERATOR, "Unknown; ask for the record by its key."),
    core.InvalidInput: Answer(422, "Invalid request", "Correct the named field and send the request again."),
    core.InvalidKey: Answer(400, "Invalid Idempotency-Key", "Send 1 to 255 visible ASCII characters, such as a UUID."),
    core.PolicyRefused: Answer(
        422, "Refused by the pool's policy", "Ask for less, or ask the operator to widen the pool's policy."
    ),
    core.OwnAccountRefused: Answer(
        403, "Acts on the pool's own account", "Ask the operator: the pool's policy must name it in own_account."
    ),
    core.InvalidSettings: Answer(500, "Invalid configuration", "The operator corrects the named setting."),
    core.KeyReused: Answer(
        422,
        "Idempotency-Key used for another request",
        "Use a new key for a new request, or the first payload to see its result.",
        "The first request with this key stands unchanged; this one was not accepted.",
    ),
    core.BudgetExhausted: Answer(
        403,
        "Budget exhausted",
        "Retry the same request, with the same key, after Retry-After seconds. Without that header it is more than the "
        "whole budget: ask for less under a new key, or ask the operator to raise the budget.",
    ),
    core.NotFound: Answer(404, "Not found", "Check the key, the pool and the token's tenant."),
    core.NotAllowed: Answer(409, "Not possible in this state", "Read the current state and decide again."),
    core.Outdated: Answer(409, "Changed meanwhile", "Read the current state and decide again."),
    core.ReservationOver: Answer(
        409, "Reservation over", "Reserve again, with a new reservation token.", "The number stands as it is."
    ),
    core.NonceConflict: Answer(
        409,
        "Nonce conflict",
        "Reserve a number again, sign with it, and send that.",
        "Nothing of these bytes was sent.",
    ),
    core.Busy: Answer(429, "Busy", _LATER),
    core.TurnTaken: Answer(429, "Not your turn yet", "Ask again with the same lockId after Retry-After seconds."),
    core.QueueFull: Answer(429, "Queue full", _LATER),
    core.NoRoom: Answer(429, "Too much of this token waits", _LATER),
    core.TooManyHeld: Answer(
        429, "Too much held", "Send or give back what is reserved; the operator can raise the limit."
    ),
    core.MemoryFull: Answer(429, "Ledger memory full", f"{_LATER} The operator raises maxmemory."),
    core.StaleClaim: Answer(
        503, "Not settled on a lane", _LATER, "At most the claim of the key, which the same key takes up again."
    ),
    core.LaneClosed: Answer(409, "Lane closed", "Use another lane; a closed one stays closed."),
    core.NoLane: Answer(503, "No active lane", f"{_LATER} The operator starts a worker or resumes a lane."),
    core.Fenced: Answer(503, "Lane owned by another", _LATER),
    core.Refused: Answer(409, "Refused by the ledger", "Read the current state and decide again."),
    core.KeyMissing: Answer(503, "Signing key not on chain", _OPERATOR),
    core.SignerFault: Answer(503, "The signer gave no signature", _OPERATOR, "Nothing was signed; the intent waits."),
    core.SignerAway: Answer(503, "The signer does not answer", _OPERATOR, "Nothing was signed; the intent waits."),
    core.SignerRefused: Answer(503, "The signer refuses", _OPERATOR, "Nothing was signed; the intent waits."),
    core.TransactionRefused: Answer(
        422,
        "The signer refuses this transaction",
        "Change the request, or the key's policy at the signer.",
        "Nothing was signed.",
    ),
    core.BadSignature: Answer(503, "Wrong signature", _OPERATOR, "Nothing was sent; the intent waits."),
    core.NotSigned: Answer(
        422, "Not signed", "Read the reason, then send a new request.", "Nothing was signed or spent."
    ),
    core.NotOurs: Answer(503, "Stored bytes are not ours", _OPERATOR, "The intent is held until an operator decides."),
    core.RolledBack: Answer(
        503, "Ledger rolled back", _OPERATOR, "Unknown: the lane is quarantined until an operator decides."
    ),
    core.Unavailable: Answer(
        503,
        "Ledger away",
        _LATER,
        "Nothing, or an acceptance we could not learn of: the same key finds it and never starts a second one.",
    ),
    core.Unconfirmed: Answer(
        503,
        "Not confirmed",
        _LATER,
        "Perhaps accepted: the same key finds out and never starts a second one.",
    ),
    core.Misconfigured: Answer(500, "Misconfigured server", _OPERATOR),
    ApiError: Answer(400, "Request refused", "Correct the request."),
    Malformed: Answer(400, "Malformed request", "Send one JSON object of the documented shape (/docs)."),
    MissingKey: Answer(
        400, "Missing Idempotency-Key", "Send the header Idempotency-Key: a new UUID per request, the same on retries."
    ),
    Unauthorized: Answer(401, "Unauthorized", "Send the header Authorization: Bearer with a valid token."),
    Forbidden: Answer(403, "Forbidden", "Use a token that allows it, or ask the operator to widen this one."),
    ForeignHost: Answer(
        403,
        "Foreign host",
        "Call it as localhost or 127.0.0.1, add the name to api.allowed_hosts, or configure [[api.tokens]].",
    ),
    NoRoute: Answer(404, "No such path", "See /docs for the paths there are."),
    WrongMethod: Answer(405, "Method not allowed", "Use a method named by the Allow header."),
    TooSlow: Answer(408, "Request too slow", "Send the whole body at once, on a new connection."),
    TooLarge: Answer(413, "Body too large", "Send less; the operator can raise api.max_body_bytes."),
    HeadersTooLarge: Answer(413, "Headers too large", "Send fewer; the operator can raise api.max_header_bytes."),
    NotJson: Answer(415, "Unsupported media type", "Send Content-Type: application/json, and no Content-Encoding."),
    QuotaUsed: Answer(429, "Too many requests", _LATER),
    TooManyConnections: Answer(503, "Too many connections", _LATER),
    TooManyStreams: Answer(429, "Too many streams", "Close streams, or read the record with ?wait= instead."),
}


SERVER_ERRORS: frozenset[type[TxManagerError]] = frozenset(
    {TxManagerError, core.Misconfigured, core.InvalidSettings, ApiError, ForeignHost, WrongMethod, TooSlow}
    | {HeadersTooLarge, TooManyConnections}
)
"""What a server may answer on every path, before it knows the operation or because it cannot work at all."""


class Problem(BaseModel):
    """RFC 9457. `code` is stable; `kept` says what was stored, `do` what helps."""

    model_config = ConfigDict(extra="forbid")
    type: str
    title: str
    status: int
    detail: str
    code: str = Field(
        examples=["idempotency_key_reused"], json_schema_extra={"enum": [*sorted(kind.code for kind in ANSWERS)]}
    )
    kept: str
    do: str
    field: str | None = None
    error: str | None = Field(default=None, description="NONCE_CONFLICT, where that is the problem.")
    currentNonce: int | None = Field(default=None, description="The address's next number.")
    attemptedNonce: int | None = None
    shouldRetry: bool | None = Field(default=None, description="Whether a new reservation and signature help.")
    budget: str | None = Field(default=None, description="The budget that does not pay for it.")
    left: str | None = Field(default=None, description="What is left of it, in the chain's smallest unit.")
    needs: str | None = Field(default=None, description="What the intent costs at worst, in the same unit.")
    lockId: str | None = Field(default=None, description="Your place in line.")
    ahead: int | None = Field(default=None, description="How many are before you.")


def line_of(error: TxManagerError) -> type[TxManagerError]:
    """The class whose line in the table answers it: its own, or of an adapter's error the nearest one above it."""
    return next(kind for kind in type(error).__mro__ if kind in ANSWERS)


def answer_to(error: TxManagerError) -> Answer:
    return ANSWERS[line_of(error)]


def problem(error: TxManagerError, instance: str | None = None) -> tuple[int, dict[str, object]]:
    """Status and body. Errors of our own making show their words; what is ours alone to know stays in the log."""
    line = line_of(error)
    answer = ANSWERS[line]
    body: dict[str, object] = {
        "type": f"/docs#{line.code}",
        "title": answer.title,
        "status": answer.status,
        "detail": str(error) if answer.status != 500 else "The server could not answer; its log has the details.",
        "code": line.code,
        "kept": answer.kept,
        "do": answer.do,
    }
    if (field := getattr(error, "field", None)) is not None:
        body["field"] = field
    if instance is not None:
        body["instance"] = instance
    body |= getattr(error, "more", {})
    return answer.status, body


def retry_after(error: TxManagerError) -> int | None:
    if isinstance(error, core.BudgetExhausted):
        return error.retry_after_s
    status = answer_to(error).status
    return int(getattr(error, "retry_after_s", 1)) if status in (429, 503) else None


def encoded(error: TxManagerError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    status, body = problem(error)
    headers = [(b"content-type", b"application/problem+json")]
    if (seconds := retry_after(error)) is not None:
        headers.append((b"retry-after", str(seconds).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return status, orjson.dumps(body, default=str), headers
