"""The transaction routes of OpenZeppelin Relayer, over the intents of EVM (docs/doors.md).

A relayer's id is the name of a pool, a transaction's id is its idempotency key. What the answers repeat of a request is
kept in the intent's metadata, because a final record keeps no payload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from txmanager.chains.evm.intents import Gas, Wei
from txmanager.chains.evm.names import LaneId
from txmanager.core.doors import DoorAnswer, DoorRequest, DoorRoute, Elsewhere, Read, RelayerDoor, Submit
from txmanager.core.errors import InvalidInput
from txmanager.core.models import Json, Record
from txmanager.core.states import Status

_KEPT = ("to", "value", "gas_limit", "gas_price", "max_fee_per_gas", "max_priority_fee_per_gas", "speed")
_STATUS = {Status.QUEUED: "pending", Status.DONE: "confirmed", Status.FAILED: "failed", Status.CANCELLED: "canceled"}
_TOO_OLD = "max_age"
"""The code of what was not signed in time."""


class TransactionRequest(BaseModel):
    """The fields of its `EvmTransactionRequest`. Prices are the network's own: `speed` and `max_priority_fee_per_gas`
    are taken and change nothing, a price is the most that is paid."""

    model_config = ConfigDict(extra="forbid", strict=True)
    value: Wei
    to: str | None = None
    data: str | None = None
    gas_limit: Gas | None = None
    gas_price: Wei | None = None
    max_fee_per_gas: Wei | None = None
    max_priority_fee_per_gas: Wei | None = None
    speed: str | None = Field(default=None, pattern="^(fastest|fast|average|safeLow)$")
    valid_until: str | None = None


def send(request: DoorRequest) -> Submit:
    body = _read(request.body)
    if body.to is None and body.data is None:
        raise InvalidInput("to", "is missing, and so is data; at least one of them has to be set")
    priced = (body.speed, body.gas_price, body.max_fee_per_gas or body.max_priority_fee_per_gas)
    if sum(one is not None for one in priced) != 1:
        raise InvalidInput("speed", "set one of speed, gas_price, or max_fee_per_gas with max_priority_fee_per_gas")
    most = body.gas_price if body.gas_price is not None else body.max_fee_per_gas
    payload: dict[str, Json] = {"value": str(body.value), "type": 0 if body.gas_price is not None else 2}
    for name, given in (("to", body.to), ("data", _hex(body.data)), ("gas", body.gas_limit)):
        if given is not None:
            payload[name] = given
    if most is not None:
        payload["max_fee_per_gas"] = str(most)
    kept = {name: getattr(body, name) for name in _KEPT if getattr(body, name) is not None}
    kept |= {name: str(number) for name, number in kept.items() if isinstance(number, int) and name != "gas_limit"}
    left = _seconds_left(body.valid_until, request.now_ms)
    over = left is not None and left < 1
    return Submit(
        "evm.transaction",
        payload,
        pool=request.path["relayer_id"],
        max_age_s=None if over else left,
        metadata={"transaction": kept},
        late=InvalidInput("valid_until", "cannot be in the past") if over else None,
    )


def _read(body: object) -> TransactionRequest:
    try:
        return TransactionRequest.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise InvalidInput(field, first["msg"].removeprefix("Value error, ")) from None


def _hex(data: str | None) -> str | None:
    return data if data is None or data.startswith("0x") else f"0x{data}"


def _seconds_left(until: str | None, now_ms: int) -> int | None:
    if until is None:
        return None
    try:
        at = datetime.fromisoformat(until)
    except ValueError:
        raise InvalidInput("valid_until", "must be a time of RFC 3339, such as 2030-01-01T00:00:00Z") from None
    if at.tzinfo is None:
        raise InvalidInput("valid_until", "needs an offset from UTC, such as Z")
    return math.floor(at.timestamp() - now_ms / 1000)


def find(request: DoorRequest) -> Read:
    return Read(request.path["transaction_id"], request.path["relayer_id"])


# -- answers


def shown(request: DoorRequest, record: Record) -> DoorAnswer:
    return DoorAnswer(200, {"success": True, "data": transaction(record), "error": None})


def transaction(record: Record) -> dict[str, Json]:
    """A record as its `EvmTransactionResponse`. `mined` is never said: what is not final may still be undone."""
    outcome, live, first = record.outcome, record.live, record.attempts[0] if record.attempts else None
    error = outcome.error if outcome is not None else None
    hash, nonce = (live[-1].hash, live[-1].nonce) if live else (None, None)
    if outcome is not None:
        hash, nonce = outcome.tx_hash, outcome.nonce
    status = _STATUS.get(record.status) or ("submitted" if first is not None else "pending")
    if error is not None and error.get("code") == _TOO_OLD:
        status = "expired"
    payload = record.intent.payload
    noted = record.intent.metadata.get("transaction")
    kept: Mapping[str, Any] = noted if isinstance(noted, Mapping) else {}
    fields: dict[str, Json] = {
        "id": record.id.key,
        "hash": hash,
        "status": status,
        "status_reason": error.get("message") if error is not None else None,
        "created_at": _instant(record.created_at),
        "sent_at": _instant(first.signed_at) if first is not None else None,
        "confirmed_at": _instant(record.updated_at) if record.status is Status.DONE else None,
        "gas_price": None,
        "gas_limit": None,
        "nonce": nonce,
        "value": str(payload.get("value", "0")),
        "from": LaneId.parse(record.lane).address,
        "to": payload.get("to"),
        "relayer_id": record.id.pool,
        "data": payload.get("data"),
        "max_fee_per_gas": None,
        "max_priority_fee_per_gas": None,
        "signature": None,
        "speed": None,
        "is_canceled": record.cancel_requested or record.status is Status.CANCELLED,
    }
    return fields | {name: kept[name] for name in _KEPT if name in kept}


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def refuse(status: int, problem: Mapping[str, object]) -> DoorAnswer:
    answer = {"success": False, "data": None, "error": problem["detail"], "code": problem["code"]}
    return DoorAnswer(400 if status == 422 else status, answer)


_ROOT = "/api/v1/relayers"
_ONE = f"{_ROOT}/{{relayer_id}}"
_ALL = f"{_ONE}/transactions"
_CONFIGURED = "[pools.NAME] of the configuration"

OPENZEPPELIN = RelayerDoor(
    "OpenZeppelin Relayer",
    (
        DoorRoute("POST", _ALL, "submit", send, shown, makes_key=True),
        DoorRoute("GET", f"{_ALL}/{{transaction_id}}", "read", find, shown),
    ),
    (
        Elsewhere("GET", _ALL, "GET /v1/intents?pool="),
        Elsewhere("GET", f"{_ALL}/", "GET /v1/intents?pool="),
        Elsewhere("DELETE", f"{_ALL}/{{transaction_id}}", "POST /v1/intents/{key}/cancel"),
        Elsewhere("PUT", f"{_ALL}/{{transaction_id}}", "nothing: a lane raises prices by itself"),
        Elsewhere("GET", f"{_ALL}/by-nonce/{{nonce}}", "GET /v1/intents?pool="),
        Elsewhere("POST", f"{_ALL}/sponsored/quote", "POST /v1/evm/transactions?dry_run=true"),
        Elsewhere("POST", f"{_ALL}/sponsored/build", "POST /v1/evm/transactions"),
        Elsewhere("GET", _ROOT, "GET /v1/system"),
        Elsewhere("POST", _ROOT, _CONFIGURED),
        Elsewhere("GET", _ONE, "GET /v1/lanes?pool="),
        Elsewhere("PATCH", _ONE, _CONFIGURED),
        Elsewhere("DELETE", _ONE, _CONFIGURED),
        Elsewhere("GET", f"{_ONE}/status", "GET /v1/lanes?pool="),
        Elsewhere("GET", f"{_ONE}/balance", "`txmanager treasury`, or the metric txmanager_purse_balance"),
        Elsewhere("POST", f"{_ONE}/sign", "nothing: a lane signs transactions only"),
        Elsewhere("POST", f"{_ONE}/sign-typed-data", "nothing: a lane signs transactions only"),
        Elsewhere("POST", f"{_ONE}/sign-transaction", "POST /v1/evm/transactions, which signs and sends"),
        Elsewhere("POST", f"{_ONE}/rpc", "the gateway (docs/gateway.md)"),
    ),
    refuse,
)
