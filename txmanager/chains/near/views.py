"""Questions to a node and their answers, checked: a wrong shape is a `BadAnswer`, a missing key never nonce 0."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from txmanager.chains.near.names import LaneId, b58
from txmanager.chains.near.policy import KeyView
from txmanager.core.errors import InvalidInput
from txmanager.rpc.errors import BadAnswer, RpcError, shown

_PAGE_OF_KEYS = 100

Ask = Callable[[str, Any], Awaitable[Any]]
"""A call bound to a node (or to any node) and a group."""


@dataclass(frozen=True, slots=True)
class BlockHead:
    height: int
    hash: bytes
    hash_text: str
    prev_hash: str
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class AccountView:
    amount: int
    locked: int
    used_bytes: int
    height: int


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadAnswer(f"{what} is not an object")
    return value


def number(value: Any, what: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 39:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadAnswer(f"{what} is not a whole number")
    return value


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise BadAnswer(f"{what} is not a string")
    return value


async def view_key(ask: Ask, account_id: str, public_key: str, block: Mapping[str, Any]) -> KeyView | None:
    """`block` is `{"finality": "final"}` or `{"block_id": hash}`. None: the chain says that there is no such key."""
    try:
        return read_key(await ask(*key_question(account_id, public_key, block)))
    except RpcError as error:
        if error.cause in ("UNKNOWN_ACCOUNT", "UNKNOWN_ACCESS_KEY"):
            return None
        raise


def key_question(account_id: str, public_key: str, block: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "query", {"request_type": "view_access_key", "account_id": account_id, "public_key": public_key, **block}


def read_key(result: Any) -> KeyView | None:
    answer = mapping(result, "an access key")
    if "error" in answer:
        # nearcore answers a missing key as a *result*; reading its absent nonce as 0 is a classic way to lose money.
        said = shown(answer["error"], 4_000)  # it names the key, and a post-quantum one has 2,700 letters
        if "does not exist" in said:
            return None
        raise BadAnswer(f"view_access_key failed: {said[:200]}")
    return _key(answer)


def _key(answer: Mapping[str, Any]) -> KeyView:
    permission = answer.get("permission")
    call, balance, allowance = None, None, None
    if isinstance(permission, Mapping):
        body = permission.get("FunctionCall") or permission.get("GasKeyFunctionCall")
        gas_key = permission.get("GasKeyFullAccess") or permission.get("GasKeyFunctionCall")
        if isinstance(gas_key, Mapping) and "balance" in gas_key:
            balance = number(gas_key["balance"], "a gas key's balance")
        if isinstance(body, Mapping):
            call = body
            if body.get("allowance") is not None:
                allowance = number(body["allowance"], "an allowance")
        elif gas_key is None:
            raise BadAnswer("an access key's permission is not known here")
    elif permission != "FullAccess":
        raise BadAnswer("an access key has no permission")
    return KeyView(
        nonce=number(answer.get("nonce"), "an access key's nonce"),
        height=number(answer.get("block_height"), "block_height"),
        block_hash=text(answer.get("block_hash"), "block_hash"),
        permission=call,
        allowance=allowance,
        gas_balance=balance,
        gas_key=isinstance(permission, Mapping) and any(name.startswith("GasKey") for name in map(str, permission)),
    )


async def view_lane(ask: Ask, lane: LaneId, block: Mapping[str, Any]) -> KeyView | None:
    """The lane's key with the nonce of the lane's own sequence (a gas key has many)."""
    key = await view_key(ask, lane.account_id, str(lane.public_key), block)
    if key is None or lane.nonce_index is None:
        return key
    # Both readings must speak of one block, or the height would vouch for a nonce of another.
    params = {
        "request_type": "view_gas_key_nonces",
        "account_id": lane.account_id,
        "public_key": str(lane.public_key),
        "block_id": key.block_hash,
    }
    try:
        answer = mapping(await ask("query", params), "a gas key's nonces")
    except RpcError as error:
        if error.cause == "UNKNOWN_GAS_KEY":
            return None
        raise
    nonces = answer.get("nonces")
    if "error" in answer or not isinstance(nonces, list) or lane.nonce_index >= len(nonces):
        return None
    own = number(nonces[lane.nonce_index], "a gas key's nonce")
    return replace(key, nonce=own)


async def view_account(ask: Ask, account_id: str) -> AccountView | None:
    params = {"request_type": "view_account", "account_id": account_id, "finality": "final"}
    try:
        answer = mapping(await ask("query", params), "an account")
    except RpcError as error:
        if error.cause == "UNKNOWN_ACCOUNT":
            return None
        raise
    return AccountView(
        number(answer.get("amount"), "an account's amount"),
        number(answer.get("locked", 0), "what an account has locked"),
        number(answer.get("storage_usage", 0), "an account's storage_usage"),
        number(answer.get("block_height", 0), "block_height"),
    )


async def list_keys(ask: Ask, account_id: str) -> dict[str, Mapping[str, Any]]:
    """Every access key of an account. A node lists at most a hundred at once; older ones know no pages, so they are
    asked for only when the node wants them."""
    params = {"request_type": "view_access_key_list", "account_id": account_id, "finality": "final"}
    try:
        found, _ = _key_page(await ask("query", params))
    except RpcError as error:
        if error.cause != "TOO_MANY_ACCESS_KEYS":
            raise
    else:
        return found
    found, last = {}, None
    while True:
        after: dict[str, Any] = {} if last is None else {"after_key": last}
        page, last = _key_page(await ask("query", {**params, "limit": _PAGE_OF_KEYS, **after}))
        if not page.keys() - found.keys():
            return found  # the end, or a node that would send us in circles
        found |= page
        if last is None:
            return found


def _key_page(result: Any) -> tuple[dict[str, Mapping[str, Any]], str | None]:
    """The keys of one answer, and where the next page begins, if there is one."""
    answer = mapping(result, "a list of access keys")
    keys, last = answer.get("keys"), answer.get("last_key")
    if not isinstance(keys, list):
        raise BadAnswer("a list of access keys has no keys")
    found = {}
    for entry in keys:
        one = mapping(entry, "an access key")
        found[text(one.get("public_key"), "public_key")] = mapping(one.get("access_key"), "access_key")
    return found, None if last is None else text(last, "last_key")


async def gas_price(ask: Ask) -> int:
    answer = mapping(await ask("gas_price", [None]), "a gas price")
    return number(answer.get("gas_price"), "gas_price")


async def view_block(ask: Ask, block: Mapping[str, Any]) -> tuple[BlockHead, list[Any]]:
    """The header of a block and the headers of its chunks."""
    answer = mapping(await ask("block", block), "a block")
    header = mapping(answer.get("header"), "a block's header")
    shown = text(header.get("hash"), "a block's hash")
    try:
        raw = b58("hash", shown, 32)
    except InvalidInput:
        raise BadAnswer("a block's hash is not base58 of 32 bytes") from None
    height = number(header.get("height"), "a block's height")
    chunks = answer.get("chunks")
    if not isinstance(chunks, list):
        raise BadAnswer("a block has no chunks")
    epoch = header.get("epoch_id", "")
    prev_hash = text(header.get("prev_hash"), "prev_hash")
    return BlockHead(height, raw, shown, prev_hash, epoch if isinstance(epoch, str) else ""), chunks


FINAL = {"finality": "final"}
OPTIMISTIC = {"finality": "optimistic"}
