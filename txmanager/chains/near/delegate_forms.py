"""The forms in which a signed delegate arrives: base64 of its borsh bytes or nearcore's JSON. Errors name the field."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from txmanager.chains.near import actions as act
from txmanager.chains.near.borsh import U64_MAX
from txmanager.chains.near.limits import MAX_GAS_KEY_NONCES, check_actions
from txmanager.chains.near.names import CURVES, SIGNATURE_SIZES, PublicKey, b58, check_account
from txmanager.core.errors import InvalidInput

_MAX_TEXT = 3_000_000
_TAGS = (bytes((act.SignedDelegate.tag,)), bytes((act.SignedDelegate.second_tag,)))


def read_delegate(value: object, field: str = "signed_delegate") -> act.SignedDelegate:
    """Base64 of the borsh bytes (with or without the action's own first byte), or nearcore's JSON."""
    if isinstance(value, str):
        signed = _from_base64(value, field)
    elif isinstance(value, Mapping):
        signed = _from_json(value, field)
    else:
        raise InvalidInput(field, "must be base64 of the signed delegate, or its JSON object")
    check_account(f"{field}.sender_id", signed.delegate.sender_id)
    check_account(f"{field}.receiver_id", signed.delegate.receiver_id)
    check_actions(signed.delegate.actions, f"{field}.actions")
    return signed


def _from_base64(text: str, field: str) -> act.SignedDelegate:
    if len(text) > _MAX_TEXT:
        raise InvalidInput(field, f"is longer than {_MAX_TEXT} characters")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(field, "is not base64") from None
    # near-api-js sends the bare struct, some relayers the action with its discriminant. A bare first form begins with
    # the length of an account id, at most 64: where 8 or 14 is not followed by three zeros, it is a discriminant.
    if raw[:1] in _TAGS and int.from_bytes(raw[:4], "little") > 64:
        raw = raw[1:]
    return act.decode_signed_delegate(raw, field)


def _from_json(value: Mapping[str, Any], field: str) -> act.SignedDelegate:
    fields = value.get("delegate_action")
    where = f"{field}.delegate_action"
    second = isinstance(fields, Mapping) and set(fields) == {"V2"}
    if isinstance(fields, Mapping) and second:
        fields, where = fields["V2"], f"{where}.V2"
    if not isinstance(fields, Mapping):
        raise InvalidInput(field, "must have `delegate_action` and `signature` (nearcore's JSON), or be base64")
    nonce, index = _nonce(fields.get("nonce"), f"{where}.nonce") if second else (fields.get("nonce"), None)
    actions = fields.get("actions")
    if not isinstance(actions, list):
        raise InvalidInput(f"{where}.actions", "must be a list")
    curve, signature = _signature(value.get("signature"), f"{field}.signature")
    delegate = act.DelegateAction(
        sender_id=check_account(f"{where}.sender_id", fields.get("sender_id")),
        receiver_id=check_account(f"{where}.receiver_id", fields.get("receiver_id")),
        actions=tuple(_json_action(a, f"{where}.actions[{i}]") for i, a in enumerate(actions)),
        nonce=_number(nonce, f"{where}.nonce"),
        max_block_height=_number(fields.get("max_block_height"), f"{where}.max_block_height"),
        public_key=PublicKey.parse(fields.get("public_key"), f"{where}.public_key"),
        second=second,
        nonce_index=index,
    )
    return act.SignedDelegate(delegate, curve, signature)


def _nonce(value: object, field: str) -> tuple[object, int | None]:
    """`{"Nonce": {"nonce": 1}}` or `{"GasKeyNonce": {"nonce": 1, "nonce_index": 0}}`."""
    [(name, body)] = value.items() if isinstance(value, Mapping) and len(value) == 1 else [("", None)]
    if name == "Nonce" and isinstance(body, Mapping):
        return body.get("nonce"), None
    if name == "GasKeyNonce" and isinstance(body, Mapping):
        return body.get("nonce"), _number(body.get("nonce_index"), f"{field}.nonce_index", MAX_GAS_KEY_NONCES - 1)
    raise InvalidInput(field, 'must be {"Nonce": {...}} or {"GasKeyNonce": {...}}')


def _signature(value: object, field: str) -> tuple[int, bytes]:
    name, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if name not in CURVES:
        raise InvalidInput(field, "must be a string like ed25519:5w...")
    curve = CURVES[name][0]
    return curve, b58(field, rest, SIGNATURE_SIZES[curve])


def _number(value: object, field: str, limit: int = U64_MAX) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 39:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise InvalidInput(field, f"must be a whole number from 0 to {limit}")
    return value


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field, "must be a string")
    return value


def _base64(value: object, field: str) -> bytes:
    try:
        return base64.b64decode(_text(value, field), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(field, "is not base64") from None


def _json_action(value: object, field: str) -> act.PlainAction:
    """One action in nearcore's JSON: `"CreateAccount"`, `{"Transfer": {"deposit": "1"}}`, ..."""
    name, body = _name_and_body(value, field)
    where = f"{field}.{str(name)[:40]}"

    def money(key: str) -> int:
        return _number(body.get(key), f"{where}.{key}", (1 << 128) - 1)

    def key() -> PublicKey:
        return PublicKey.parse(body.get("public_key"), f"{where}.public_key")

    match name:
        case "CreateAccount":
            return act.CreateAccount()
        case "DeployContract":
            return act.DeployContract(_base64(body.get("code"), f"{where}.code"))
        case "FunctionCall":
            method = _text(body.get("method_name"), f"{where}.method_name")
            args = _base64(body.get("args"), f"{where}.args")
            return act.FunctionCall(method, args, _number(body.get("gas"), f"{where}.gas"), money("deposit"))
        case "Transfer":
            return act.Transfer(money("deposit"))
        case "Stake":
            return act.Stake(money("stake"), key())
        case "AddKey":
            return _json_add_key(key(), body.get("access_key"), f"{where}.access_key")
        case "DeleteKey":
            return act.DeleteKey(key())
        case "DeleteAccount":
            return act.DeleteAccount(_text(body.get("beneficiary_id"), f"{where}.beneficiary_id"))
        case "TransferToGasKey":
            return act.TransferToGasKey(key(), money("deposit"))
        case "WithdrawFromGasKey":
            return act.WithdrawFromGasKey(key(), money("amount"))
    raise InvalidInput(field, f"action {str(name)[:40]!r} is not supported")


def _name_and_body(value: object, field: str) -> tuple[object, Mapping[str, object]]:
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, Mapping) or len(value) != 1:
        raise InvalidInput(field, 'must look like {"FunctionCall": {...}}')
    name, body = next(iter(value.items()))
    if not isinstance(body, Mapping):
        raise InvalidInput(field, f"{str(name)[:40]} must hold an object")
    return name, body


def _json_add_key(key: PublicKey, value: object, field: str) -> act.AddKey:
    fields = value if isinstance(value, Mapping) else {}
    nonce, permission = _number(fields.get("nonce"), f"{field}.nonce"), fields.get("permission")
    where = f"{field}.permission"
    if permission == "FullAccess":
        return act.AddKey(key, nonce=nonce)
    call = permission.get("FunctionCall") if isinstance(permission, Mapping) else None
    if not isinstance(call, Mapping):
        raise InvalidInput(where, 'must be "FullAccess" or {"FunctionCall": {...}}')
    allowance, names = call.get("allowance"), call.get("method_names")
    if not isinstance(names, list):
        raise InvalidInput(f"{where}.method_names", "must be a list")
    return act.AddKey(
        key,
        act.CallPermission(
            _text(call.get("receiver_id"), f"{where}.receiver_id"),
            tuple(_text(n, f"{where}.method_names") for n in names),
            None if allowance is None else _number(allowance, f"{where}.allowance", (1 << 128) - 1),
        ),
        nonce=nonce,
    )
