"""Request bodies: bounded in size and time, JSON read exactly. A number that cannot be kept as it is is refused."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from decimal import Decimal
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from txmanager.api.problems import Malformed, NotJson, TooLarge, TooSlow
from txmanager.core.errors import InvalidInput

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_LONG_NUMBER = re.compile(rb"[0-9][0-9.]{15}")
_JSON_TYPES = (b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8")


class Gone(Exception):
    """The client closed the connection before its request was complete; there is nobody to answer."""


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int, timeout_s: float) -> bytes:
    length = headers.get(b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise TooLarge(f"the body has {int(length)} bytes; the limit is {limit}")
    message = await receive()  # a body that never begins is the server's to end: see `Connection`
    if message["type"] == "http.disconnect":
        raise Gone
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        body = await _rest(body, receive, limit, timeout_s)
    if len(body) > limit:
        raise TooLarge(f"the body has more than {limit} bytes")
    return body


async def _rest(first: bytes, receive: Receive, limit: int, timeout_s: float) -> bytes:
    parts, size = [first], len(first)
    try:
        async with asyncio.timeout(timeout_s):
            while size <= limit:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {timeout_s:g} s") from None
    return b"".join(parts)


def check_type(headers: Mapping[bytes, bytes]) -> None:
    content_type = headers.get(b"content-type", b"")
    if content_type not in _JSON_TYPES and content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise NotJson(f"the content type is {content_type.decode('latin-1')[:100] or 'missing'!r}")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise NotJson("compressed bodies are not read", field="Content-Encoding")


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request, every number exactly as it was written."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error}" if body else "the body is empty; send a JSON object") from None
    if not isinstance(value, dict):
        raise Malformed("the body must be a JSON object")
    if _LONG_NUMBER.search(body):
        # orjson turns whole numbers beyond 64 bits into floats: money would silently change
        exact: dict[str, Any] = json.loads(body, parse_int=_whole, parse_float=_exact)
        return exact
    return value


def read_request(headers: Mapping[bytes, bytes], body: bytes, model: type[BaseModel]) -> dict[str, Any]:
    """A JSON body of that shape, as it was sent: no defaults filled in."""
    check_type(headers)
    value = read_object(body)
    check_shape(model, value)
    return value


def check_shape(model: type[BaseModel], value: Mapping[str, Any]) -> None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidInput(".".join(map(str, first["loc"])) or "body", first["msg"]) from None


def _whole(text: str) -> int:
    if len(text) > 20 or not -(1 << 63) <= (value := int(text)) < 1 << 64:
        raise InvalidInput("body", f"write {text[:40]} as a string: numbers beyond 64 bits do not survive JSON readers")
    return value


def _exact(text: str) -> float:
    value = float(text)
    if Decimal(text) != Decimal(repr(value)):
        raise InvalidInput("body", f"write {text[:40]} as a string: it has more digits than a JSON number keeps")
    return value
