"""The `txmanager` provider: keys of a `txmanager signer`, asked over one connection.

What was asked when the connection broke counts as not answered: it is asked again, and the signer counts it once.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from txmanager.core.errors import SignerAway, SignerFault
from txmanager.core.values import value
from txmanager.signing.frames import BadFrame, batches, frame, read_answer, read_frame, write_request
from txmanager.signing.remote import all_failed
from txmanager.signing.signer import Answer, SigningRequest
from txmanager.signing.sources import Curve

_CLOSED = "the signer closed the connection"
"""Whether a read, a reset or a failed write shows it depends on which side was faster."""


@value(frozen=True, slots=True)
class ProcessOptions:
    name: str
    path: str | None = None
    host: str = ""
    port: int = 0
    tls: Callable[[], ssl.SSLContext] | None = None
    """Read at each connection, so that a renewed certificate is found."""
    timeout_s: float = 10.0


@value(frozen=True, slots=True)
class KeyName:
    curve: Curve
    name: str


class ProcessProvider:
    def __init__(self, options: ProcessOptions) -> None:
        self._options = options
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def describe(self, key: str) -> KeyName:
        reply = await self._ask({"do": "describe", "key": key})
        try:
            return KeyName(Curve(reply["curve"]), str(reply["public_key"]))
        except (KeyError, ValueError):
            raise SignerAway(f"{self._options.name}: an answer could not be read") from None

    async def sign_many(self, key: str, curve: Curve, requests: Sequence[SigningRequest]) -> list[Answer]:
        parts = await asyncio.gather(*(self._sign(key, part) for part in batches(requests)))
        return [answer for part in parts for answer in part]

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._over("the connection was closed")

    # -- parts

    async def _sign(self, key: str, requests: Sequence[SigningRequest]) -> list[Answer]:
        try:
            reply = await self._ask({"do": "sign", "key": key, "requests": [write_request(r) for r in requests]})
        except SignerFault as fault:
            return all_failed(fault, requests)
        answers, name = reply.get("answers"), self._options.name
        if not isinstance(answers, list) or len(answers) != len(requests):
            return all_failed(SignerAway(f"{name}: the answers do not match the requests"), requests)
        return [read_answer(one, name) for one in answers]

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        name, number = self._options.name, next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._options.timeout_s):
                writer = await self._connected()
                self._asked[number] = answer
                writer.write(frame({"id": number, **question}))
                await writer.drain()
                reply = await answer
        except TimeoutError:
            raise SignerAway(f"{name}: no answer in {self._options.timeout_s:g} s") from None
        except (OSError, RuntimeError) as error:
            self._asked.pop(number, None)
            if writer is not None and self._writer is writer:
                self._over(_words(error))
            raise SignerAway(f"{name}: {_words(error)}") from None
        finally:
            self._asked.pop(number, None)
        if "error" in reply:
            fault = read_answer(reply, name)
            assert isinstance(fault, SignerFault)
            raise fault
        return reply

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._opening:
            if self._writer is None:
                options = self._options
                if options.path is not None:
                    reader, self._writer = await asyncio.open_unix_connection(options.path)
                else:
                    context = options.tls() if options.tls is not None else None
                    reader, self._writer = await asyncio.open_connection(options.host, options.port, ssl=context)
                self._reading = asyncio.create_task(self._read(reader, self._writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        why = _CLOSED
        try:
            while (reply := await read_frame(reader)) is not None:
                waiting = self._asked.get(reply.get("id", 0))
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        except (OSError, BadFrame) as error:
            why = _words(error)
        if self._writer is writer:
            self._over(why)

    def _over(self, why: str) -> None:
        """Nothing more comes on this connection; the next question opens another one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(SignerAway(f"{self._options.name}: {why}"))


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or type(error).__name__})"
    if isinstance(error, (ConnectionResetError, BrokenPipeError, RuntimeError)):
        return _CLOSED  # a RuntimeError is uvloop's word for a connection that is closed already
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
