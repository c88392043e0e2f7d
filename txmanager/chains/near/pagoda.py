"""The routes of pagoda-relayer-rs, over the intents of NEAR (docs/doors.md).

An allowance is gas for ever. It is converted as that relayer does, at 10^9 yoctoNEAR for a unit of gas, and is the
budget of the sender's account: it pays for deposits, too.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from txmanager.chains.near.borsh import U64_MAX
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.names import check_account
from txmanager.core.doors import (
    DoorAnswer,
    DoorRequest,
    DoorRoute,
    Elsewhere,
    ReadAllowance,
    RelayerDoor,
    SetAllowance,
    StartAllowance,
    Submit,
)
from txmanager.core.errors import BudgetExhausted, InvalidInput
from txmanager.core.models import Json, Record
from txmanager.core.states import Status

YOCTO_PER_GAS = 10**9
_UNREADABLE = (InvalidInput.code, "malformed_request")


def relay(request: DoorRequest) -> Submit:
    """The borsh bytes of a signed delegate: as they are, or as a JSON array of numbers."""
    body = request.body
    if isinstance(body, list):
        if not all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= 255 for one in body):
            raise InvalidInput("body", "must be a list of bytes: whole numbers from 0 to 255")
        body = bytes(body)
    if not isinstance(body, bytes):
        raise InvalidInput("body", "must be the borsh bytes of a SignedDelegateAction, or a JSON array of them")
    return _delegate(base64.b64encode(body).decode(), "body")


def send_meta_tx(request: DoorRequest) -> Submit:
    return _delegate(_object(request), "body")


def create_account(request: DoorRequest) -> Submit:
    """A delegate that creates an account, with an allowance for it. One login pays for one account."""
    body = _object(request)
    wanted = _delegate(body.get("signed_delegate_action"), "signed_delegate_action")
    login = body.get("oauth_token")
    if not isinstance(login, str) or not login:
        raise InvalidInput("oauth_token", "must be a text that is not empty")
    reused = (
        f"Error: oauth_token {login[:200]} has already been used to register an account. "
        "You can only register 1 account per oauth_token"
    )
    return Submit(
        wanted.kind,
        wanted.payload,
        # not the login itself: it is a secret, and may be longer than a key
        key=f"oauth:{hashlib.sha256(login.encode()).hexdigest()}",
        reused=reused,
        budget_key=wanted.budget_key,
        start=StartAllowance(_account(body), _gas(body) * YOCTO_PER_GAS),
    )


def get_allowance(request: DoorRequest) -> ReadAllowance:
    return ReadAllowance(_account(request.query if request.body is None else _object(request)))


def update_allowance(request: DoorRequest) -> SetAllowance:
    body = _object(request)
    return SetAllowance(_account(body), _gas(body) * YOCTO_PER_GAS)


def _delegate(signed_delegate: object, field: str) -> Submit:
    signed = read_delegate(signed_delegate, field)
    return Submit("near.delegate", {"signed_delegate": signed_delegate}, budget_key=signed.delegate.sender_id)


def _object(request: DoorRequest) -> Mapping[str, Any]:
    if not isinstance(request.body, Mapping):
        raise InvalidInput("body", "must be a JSON object")
    return request.body


def _account(body: Mapping[str, Any]) -> str:
    return check_account("account_id", body.get("account_id"))


def _gas(body: Mapping[str, Any]) -> int:
    gas = body.get("allowance")
    if isinstance(gas, bool) or not isinstance(gas, int) or not 0 <= gas <= U64_MAX:
        raise InvalidInput("allowance", f"must be a whole number of gas from 0 to {U64_MAX}")
    return gas


# -- answers


def relayed(request: DoorRequest, record: Record) -> DoorAnswer:
    """As text, like everything this relayer says. Receipts are not kept: a node tells them by the hash."""
    outcome = record.outcome
    if not record.status.final or outcome is None:
        return _answer(202, "Accepted, and not final yet", "Started", record)
    if record.status is Status.DONE:
        value = (outcome.result or {}).get("value_base64") or ""
        return _answer(200, "Relayed and sent transaction", {"SuccessValue": value}, record)
    return _answer(
        500, "Error sending transaction", {"Failure": outcome.error or {"code": record.status.value}}, record
    )


def _answer(status: int, words: str, final: Json, record: Record) -> DoorAnswer:
    live = record.live
    hash = record.outcome.tx_hash if record.outcome is not None else live[-1].hash if live else None
    answer = {
        "message": words,
        "status": final,
        "Transaction Outcome": {"id": hash},
        "Receipts Outcome": [],
        "idempotency_key": record.id.key,
    }
    return DoorAnswer(status, json.dumps(answer))


def created(request: DoorRequest, record: Record) -> DoorAnswer:
    answer = relayed(request, record)
    if answer.status != 200:
        return answer
    body = request.body
    return DoorAnswer(
        201,
        f"Added Oauth token for account_id {body['account_id']} with allowance (in Gas) {body['allowance']} to Relayer "
        f"DB. Near onchain account creation response: {answer.body}",
    )


def allowance(request: DoorRequest, left: int) -> DoorAnswer:
    return DoorAnswer(200, str(left // YOCTO_PER_GAS))


def updated(request: DoorRequest, left: int) -> DoorAnswer:
    text = f"account_id: {request.body['account_id']}, allowance in Gas: {left // YOCTO_PER_GAS}"
    return DoorAnswer(201, f"Relayer DB updated for {text}")


def refuse(status: int, problem: Mapping[str, object]) -> DoorAnswer:
    """Text alone. Its clients know 400 for what is wrong with a request, and for an allowance that is used up."""
    code, words = problem["code"], str(problem["detail"])
    if code in _UNREADABLE:
        return DoorAnswer(400, f"Error deserializing payload data object: {words}")
    return DoorAnswer(400 if status == 422 or code == BudgetExhausted.code else status, words)


PAGODA = RelayerDoor(
    "pagoda-relayer-rs",
    (
        DoorRoute("POST", "/relay", "submit", relay, relayed, waits=True, takes_bytes=True),
        DoorRoute("POST", "/send_meta_tx", "submit", send_meta_tx, relayed, waits=True),
        DoorRoute("POST", "/create_account_atomic", "submit", create_account, created, waits=True),
        DoorRoute("GET", "/get_allowance", "read", get_allowance, allowance),
        DoorRoute("POST", "/update_allowance", "operate", update_allowance, updated),
    ),
    (
        Elsewhere("POST", "/send_meta_tx_async", "POST /v1/near/delegate-actions"),
        Elsewhere("POST", "/send_meta_tx_nopoll", "POST /v1/near/delegate-actions"),
        Elsewhere("POST", "/sign_meta_tx", "POST /v1/near/delegate-actions, which signs and sends"),
        Elsewhere("POST", "/sign_meta_tx_no_filter", "POST /v1/near/delegate-actions, which signs and sends"),
        Elsewhere("POST", "/update_all_allowances", "budget_per_key of the pool, or /update_allowance"),
        Elsewhere("POST", "/register_account", "POST /create_account_atomic"),
        Elsewhere("POST", "/register_account_and_allowance", "POST /create_account_atomic"),
    ),
    refuse,
)
