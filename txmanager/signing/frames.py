"""How a worker and `txmanager signer` talk: frames of JSON, each with its length in four bytes before it.

A question has an `id`, and so has its answer; many may be on their way on one connection. Both sides bound what they
read, so that neither can fill the other's memory.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from txmanager.core.errors import SignerAway, SignerFault, SignerRefused, TransactionRefused
from txmanager.signing.signer import Answer, SigningRequest

MAX_FRAME = 4 << 20
MAX_BATCH = 64
_BATCH_BYTES = 1 << 20
"""Of unsigned bytes in one frame; a larger transaction travels alone."""

_FAULTS: Mapping[str, type[SignerFault]] = {
    "away": SignerAway,
    "refused": SignerRefused,
    "transaction": TransactionRefused,
}


class BadFrame(Exception):
    """What arrived is not of this protocol: the connection is over."""


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame, None at the end."""
    first = await reader.read(1)
    return await read_rest(reader, first) if first else None


async def read_rest(reader: asyncio.StreamReader, first: bytes, within_s: float | None = None) -> dict[str, Any]:
    """The frame that begins with this byte. It must have arrived `within_s`."""
    try:
        async with asyncio.timeout(within_s):
            size = int.from_bytes(first + await reader.readexactly(3), "big")
            if size > MAX_FRAME:
                raise BadFrame(f"a frame of {size} bytes; the limit is {MAX_FRAME}")
            body = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise BadFrame("the connection ended within a frame") from None
    except TimeoutError:
        raise BadFrame(f"a frame took longer than {within_s} s") from None
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadFrame("a frame that is not JSON") from None
    if not isinstance(message, dict):
        raise BadFrame("a frame that is not an object")
    return message


def frame(content: Mapping[str, Any]) -> bytes:
    body = orjson.dumps(content)
    return len(body).to_bytes(4, "big") + body


def batches(requests: Sequence[SigningRequest]) -> Iterator[Sequence[SigningRequest]]:
    """The requests in their order, in parts that fit into a frame each."""
    start = size = 0
    for n, request in enumerate(requests):
        if n > start and (n - start == MAX_BATCH or size + len(request.unsigned) > _BATCH_BYTES):
            yield requests[start:n]
            start, size = n, 0
        size += len(request.unsigned)
    if start < len(requests):
        yield requests[start:]


def write_request(request: SigningRequest) -> dict[str, Any]:
    return {
        "unsigned": base64.b64encode(request.unsigned).decode(),
        "digest": request.digest.hex(),
        "urgent": request.urgent,
    }


def read_requests(batch: object) -> list[SigningRequest]:
    if not isinstance(batch, list) or not 1 <= len(batch) <= MAX_BATCH:
        raise BadFrame(f"a batch has 1 to {MAX_BATCH} requests")
    try:
        return [
            SigningRequest(
                base64.b64decode(one["unsigned"], validate=True), bytes.fromhex(one["digest"]), bool(one.get("urgent"))
            )
            for one in batch
        ]
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error):
        raise BadFrame("a request needs `unsigned` (base64) and `digest` (hex)") from None


def write_answer(answer: Answer) -> dict[str, str]:
    if isinstance(answer, bytes):
        return {"signature": answer.hex()}
    kind = next((word for word, fault in _FAULTS.items() if isinstance(answer, fault)), "away")
    return {"error": kind, "message": str(answer)}


def read_answer(answer: object, signer: str) -> Answer:
    try:
        assert isinstance(answer, dict)
        if "error" in answer:
            return _FAULTS[answer["error"]](f"{signer}: {str(answer['message'])[:500]}")
        return bytes.fromhex(answer["signature"])
    except (AssertionError, KeyError, TypeError, ValueError):
        return SignerAway(f"{signer}: an answer could not be read")
