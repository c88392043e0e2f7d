"""Reading a request's params, positional or named. Anything unexpected is a `ParseError` in words.

Nothing here trusts a type: a param may be missing, null, nested or huge.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import base58

from .errors import DecodeError, DevnetError
from .model import Tx
from .status import LEVELS, Level
from .validate import bad_account_id, is_account_id
from .wire import decode_base64

FINALITIES = ("optimistic", "near-final", "final")
_MAX_TEXT = 4_000_000


class ParseError(DevnetError):
    """Answered as PARSE_ERROR with HTTP 400."""


def named(params: Any, *positions: str) -> dict[str, Any]:
    """Params as names: a list gets the names of its positions."""
    if params is None:
        return {}
    if isinstance(params, dict):
        return params
    if isinstance(params, list):
        if len(params) > len(positions):
            raise ParseError(f"Failed parsing args: expected at most {len(positions)} positional params")
        return dict(zip(positions, params, strict=False))
    raise ParseError("Failed parsing args: params are an object or an array")


def text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ParseError(f"Failed parsing args: missing field `{name}`")
    return value


def account_id(params: dict[str, Any], name: str = "account_id") -> str:
    value = text(params, name)
    if not is_account_id(value):
        raise ParseError(f"Failed parsing args: {bad_account_id(value)}")
    return value


def public_key(params: dict[str, Any], name: str = "public_key") -> str:
    """With or without its curve's prefix: nearcore takes a bare key for ed25519."""
    value = text(params, name)
    curve, colon, data = value.rpartition(":")
    if colon and curve != "ed25519":
        return value  # well-formed on other chains of thought; simply not found here
    size = len(unbase58(data[:64], name))
    if size != 32:
        raise ParseError(
            f"Failed parsing args: invalid key length: expected the input of 32 bytes, but {size} was given"
        )
    return f"ed25519:{data}"


def key_order(public_key: str) -> tuple[str, bytes]:
    """How a node orders keys: by curve, then by their bytes."""
    curve, _, data = public_key.partition(":")
    return curve, _unbase58(data)


def count(params: dict[str, Any], name: str) -> int:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**32:
        raise ParseError(f"Failed parsing args: {name} is a positive number")
    return value


def unbase58(value: str, name: str) -> bytes:
    try:
        return _unbase58(value)
    except ValueError:
        raise ParseError(f"Failed parsing args: {name} is not base58") from None


@lru_cache(maxsize=4096)
def _unbase58(value: str) -> bytes:
    """Clients ask for the same keys and hashes over and over, and decoding is slow."""
    return base58.b58decode(value)


def hash_of(value: Any, name: str) -> bytes:
    # Long input is refused before decoding, whose cost grows with its square.
    if not isinstance(value, str) or not 32 <= len(value) <= 44:
        raise ParseError(f"Failed parsing args: {name} is not a hash")
    raw = unbase58(value, name)
    if len(raw) != 32:
        raise ParseError(f"Failed parsing args: {name} is not a hash")
    return raw


def block_id(value: Any) -> int | bytes:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ParseError("Failed parsing args: block_id is a height or a hash")
    if isinstance(value, str):
        return hash_of(value, "block_id")
    if not 0 <= value < 2**64:
        raise ParseError("Failed parsing args: block_id is out of range")
    return value


def wait_until(params: dict[str, Any]) -> Level:
    value = params.get("wait_until")
    if value is None:
        return "EXECUTED_OPTIMISTIC"
    if value not in LEVELS:
        raise ParseError("Failed parsing args: unknown wait_until")
    return value  # type: ignore[no-any-return]


def signed_tx(params: dict[str, Any]) -> Tx:
    try:
        return decode_base64(text(params, "signed_tx_base64"))
    except DecodeError as cause:
        raise ParseError(f"Failed parsing args: the value could not decoded from {cause}") from None
