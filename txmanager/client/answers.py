"""The body of an answer: JSON, a problem, a block of server-sent events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from txmanager.client.errors import BadAnswer
from txmanager.client.http import Reply


def read_json(reply: Reply) -> Any:
    try:
        return orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        raise BadAnswer(f"what came back with status {reply.status} is not JSON") from None


def read_problem(reply: Reply) -> Mapping[str, Any]:
    try:
        problem = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return problem if isinstance(problem, dict) else {}


def read_sse(block: bytes) -> tuple[str | None, Any]:
    """The id and the data of one block, each None where it has none."""
    id: str | None = None
    data: list[str] = []
    for line in block.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            id = value
        elif name == "data":
            data.append(value)
    if not data:
        return id, None
    try:
        return id, orjson.loads("\n".join(data))
    except orjson.JSONDecodeError:
        raise BadAnswer("an event is not JSON") from None
