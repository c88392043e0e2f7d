"""Many questions in one request: a JSON-RPC batch, read back by id, with the failure of each kept apart.

A node that does not know batches answers one object (or no JSON at all): the caller then asks one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from txmanager.rpc.errors import BadAnswer, RpcError, RpcFailure
from txmanager.rpc.protocol import Json

MAX_BATCH = 100
"""Providers refuse larger ones, with errors of their own invention."""

Call = tuple[str, Json]


class NoBatches(BadAnswer):
    """The node answered a batch with something else."""


def encode(head: bytes, first: int, calls: Sequence[Call]) -> bytes:
    requests = [
        {"jsonrpc": "2.0", "id": first + n, "method": method, "params": params}
        for n, (method, params) in enumerate(calls)
    ]
    body = orjson.dumps(requests)
    return b"%s%d\r\n\r\n%s" % (head, len(body), body)


def decode(name: str, body: bytes, first: int, count: int) -> list[Json | RpcFailure]:
    """Answers in the order of the questions; one that is missing is a failure of its own."""
    try:
        replies = orjson.loads(body)
    except orjson.JSONDecodeError:
        replies = None
    if not isinstance(replies, list):
        raise NoBatches(f"{name}: answered a batch with something else")
    by_id = {one["id"]: one for one in replies if isinstance(one, dict) and type(one.get("id")) is int}
    answers: list[Json | RpcFailure] = []
    for number in range(first, first + count):
        one = by_id.get(number)
        if one is None:
            answers.append(BadAnswer(f"{name}: left one question of a batch unanswered"))
        elif one.get("error") is not None:
            answers.append(RpcError(one["error"]))
        elif "result" in one:
            answers.append(one["result"])
        else:
            answers.append(BadAnswer(f"{name}: answered with neither result nor error"))
    return answers
