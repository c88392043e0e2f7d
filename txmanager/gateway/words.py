"""Errors of the JSON-RPC surface. Their words are geth's: wallets and SDKs match them, so each stands here once.

Every message begins in lower case. The code is -32000 unless the error is about the request itself.
"""

from __future__ import annotations

import orjson

from txmanager.core.values import value

SERVER, PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32000, -32700, -32600, -32601, -32602, -32603
TOO_LARGE, LIMITED = -32003, -32005


class Refused(Exception):
    """What a caller is told instead of a result."""

    def __init__(self, message: str, code: int = SERVER, data: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


@value(frozen=True, slots=True)
class Result:
    value: object


Answer = Result | Refused


def parse_error(why: str) -> Refused:
    return Refused(f"parse error: {why}", PARSE)


def invalid_request(why: str) -> Refused:
    return Refused(f"invalid request: {why}", REQUEST)


def invalid_params(why: str) -> Refused:
    return Refused(why, PARAMS)


def no_method(name: str) -> Refused:
    return Refused(f"the method {name[:100]} does not exist/is not available", METHOD)


def too_large(most: int) -> Refused:
    return Refused(f"response too large: more than {most} bytes", TOO_LARGE)


def too_many_requests() -> Refused:
    return Refused("too many requests: slow down and send again", LIMITED)


def store_unavailable() -> Refused:
    return Refused("store unavailable, nothing accepted", INTERNAL)


def outcome_unknown() -> Refused:
    return Refused("unknown, send the same bytes again", INTERNAL)


def node_unavailable() -> Refused:
    return Refused("the node does not answer; try again", INTERNAL)


def own_lane() -> Refused:
    return Refused("invalid sender: this address is a lane of this installation; submit an intent instead")


def result_bytes(number: bytes, result: object) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (number, orjson.dumps(result))


def error_bytes(number: bytes, error: Refused) -> bytes:
    fields: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        fields["data"] = error.data
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (number, orjson.dumps(fields))


def answer_bytes(number: bytes, answer: Answer) -> bytes:
    return error_bytes(number, answer) if isinstance(answer, Refused) else result_bytes(number, answer.value)
