"""From a request's bytes to calls: one or a batch, each with its id exactly as it was written.

Nodes disagree on how to read a member that is there twice, or written in another case. Such text could mean one thing
here and another there, so a call is only passed on as it came when it has the four known members, each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from txmanager.gateway.slices import TooMany, elements, members
from txmanager.gateway.words import Refused, invalid_request, parse_error

MAX_BATCH = 1_000
MAX_VALUES = 100_000
"""Brackets and commas of a body: what a parser has to build grows with them, not with the bytes alone."""
_KNOWN = frozenset({"jsonrpc", "id", "method", "params"})
NULL = b"null"


@dataclass(slots=True)
class Call:
    """`raw` is what a node may be given: the caller's own bytes, or the same call written anew."""

    number: bytes
    """The id as it was written; empty for a notification."""
    method: str
    params: Any
    raw: bytes

    @property
    def notifies(self) -> bool:
        return not self.number

    def with_id(self, number: int) -> bytes:
        """The same call under an id of ours."""
        params = _params(self.raw)
        more = b',"params":%s' % params if params is not None else b""
        return b'{"jsonrpc":"2.0","id":%d,"method":%s%s}' % (number, orjson.dumps(self.method), more)


@dataclass(slots=True)
class Wrong:
    """A call that cannot be made, and what its sender is told."""

    number: bytes
    error: Refused


Read = Call | Wrong


def read_body(body: bytes) -> tuple[bool, list[Read]]:
    """Whether it is a batch, and its calls; raises `Refused` when the whole request is wrong."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise invalid_request(f"more than {MAX_VALUES} values")
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise parse_error("the body is empty" if not body.strip() else str(error).split(":")[0]) from None
    if isinstance(request, dict):
        return False, [_read(body, request)]
    if not isinstance(request, list):
        raise invalid_request("must be an object or an array of objects")
    if not request:
        raise invalid_request("empty batch")
    if len(request) > MAX_BATCH:
        raise invalid_request(f"batch too large: at most {MAX_BATCH} calls")
    try:
        parts = elements(body, MAX_BATCH)
    except TooMany:
        raise invalid_request(f"batch too large: at most {MAX_BATCH} calls") from None
    return True, [_read(part, one) for part, one in zip(parts, request, strict=True)]


def _read(raw: bytes, fields: Any) -> Read:
    if not isinstance(fields, dict):
        return Wrong(NULL, invalid_request("a call must be an object"))
    plain = fields.keys() <= _KNOWN and b"\\" not in raw and raw.count(b'"method"') == 1
    parts = None if plain else members(raw)
    number = _id(raw, fields, plain)
    if parts is not None:
        names = [orjson.loads(name) for name, _, _ in parts]
        if len(set(names)) != len(names):
            return Wrong(number or NULL, invalid_request("a member is there twice"))
    if number is None:
        return Wrong(NULL, invalid_request("the id must be a string, a number or null"))
    method, version = fields.get("method"), fields.get("jsonrpc", "2.0")
    if version != "2.0":
        return Wrong(number or NULL, invalid_request('jsonrpc must be "2.0"'))
    if not isinstance(method, str) or not method:
        return Wrong(number or NULL, invalid_request("the method must be a string"))
    params = fields.get("params", [])
    if params is None:
        params = []
    if not isinstance(params, list | dict):
        return Wrong(number or NULL, Refused("non-array args", -32602))
    call = Call(number, method, params, raw)
    if parts is not None and not fields.keys() <= _KNOWN:
        call.raw = _rebuilt(raw, number, method)
    return call


def _id(raw: bytes, fields: dict[str, Any], plain: bool) -> bytes | None:
    """As it was written; empty when there is none, None when it is of a wrong type."""
    if "id" not in fields:
        return b""
    number = fields["id"]
    if isinstance(number, bool | list | dict):
        return None
    if type(number) is int and number > 0:
        return b"%d" % number
    if number is None or (isinstance(number, str) and plain):
        return orjson.dumps(number)
    return _member(raw, b'"id"') or NULL


def _member(raw: bytes, name: bytes) -> bytes | None:
    found = None
    for key, begin, end in members(raw):
        if key == name or (b"\\" in key and orjson.loads(key) == orjson.loads(name)):
            found = raw[begin:end]
    return found


def _params(raw: bytes) -> bytes | None:
    return _member(raw, b'"params"')


def _rebuilt(raw: bytes, number: bytes, method: str) -> bytes:
    params = _params(raw)
    parts = [b'"jsonrpc":"2.0"', *([b'"id":' + number] if number else []), b'"method":' + orjson.dumps(method)]
    if params is not None:
        parts.append(b'"params":' + params)
    return b"{" + b",".join(parts) + b"}"
