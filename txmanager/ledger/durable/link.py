"""Calls to the objects: those of one turn of the loop travel in one request, and each gets its own answer.

A call that got no answer is repeated for a short while, because every operation may be run twice. What is still unknown
after that is raised as `Unavailable`: the caller's next try, with the same key, finds out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from txmanager.core.errors import InvalidInput, Misconfigured, Unavailable
from txmanager.ledger.durable.address import Address
from txmanager.rpc.connection import Connection, Response, connect
from txmanager.rpc.errors import RpcFailure

MOST_OBJECTS = 40
"""What one request may touch: a Worker may make 50 requests of its own on the smallest plan."""
_MOST_CALLS = 500
_MOST_BYTES = 4 * 1024 * 1024
_MOST_ANSWER = 64 * 1024 * 1024
_CONNECTIONS = 8
_IDLE_S = 20.0


class Call(NamedTuple):
    object: str
    operation: str
    args: Any = None


class Refusal(Exception):
    """A step refused by its object, in a word and what belongs to it; the caller turns it into an error of ours."""

    def __init__(self, word: str, details: dict[str, Any]) -> None:
        super().__init__(word)
        self.word = word
        self.details = details


class _Asked(NamedTuple):
    object: str
    body: bytes
    answer: asyncio.Future[Any]


class Link:
    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._tls = address.tls_context()
        self._waiting: list[_Asked] = []
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.round_trips = 0

    async def call(self, call: Call) -> Any:
        [answer] = await self.call_many([call])
        return answer

    async def call_many(self, calls: Sequence[Call]) -> list[Any]:
        """Every answer, or the first refusal."""
        answers = await self.ask(calls)
        for answer in answers:
            if isinstance(answer, Refusal):
                raise answer
        return answers

    async def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Every answer; a refusal is one. Raises when one of them is unknown."""
        bodies = [_dumps(call) for call in calls]
        answers: list[Any] = [None] * len(calls)
        left = list(range(len(calls)))
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + self._timeout_s, 0.02
        while True:
            asked = [self._put(calls[n].object, bodies[n]) for n in left]
            found = await asyncio.gather(*asked, return_exceptions=True)
            unknown: BaseException | None = None
            again = []
            for n, answer in zip(left, found, strict=True):
                answers[n] = answer
                if isinstance(answer, Unavailable):
                    unknown = answer
                    again.append(n)
                elif isinstance(answer, BaseException) and not isinstance(answer, Refusal):
                    raise answer
            if unknown is None:
                return answers
            if self._closed or loop.time() + pause_s >= until:
                raise unknown
            await asyncio.sleep(pause_s)
            pause_s, left = min(0.2, pause_s * 2), again

    def _put(self, object: str, body: bytes) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if self._closed:
            answer.set_exception(Unavailable("the ledger was closed here"))
            return answer
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append(_Asked(object, body, answer))
        return answer

    def _flush(self) -> None:
        """As many requests as there may be; what finds none free travels with the next one that is."""
        while self._waiting and self._busy < _CONNECTIONS:
            batch = self._next_batch()
            if batch:
                self._busy += 1
                task = asyncio.get_running_loop().create_task(self._carry(batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[_Asked]:
        objects: set[str] = set()
        size, count = 0, 0
        for asked in self._waiting:
            objects.add(asked.object)
            size += len(asked.body)
            if count and (len(objects) > MOST_OBJECTS or size > _MOST_BYTES or count >= _MOST_CALLS):
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        # Whoever gave up before anything was sent need not be asked for.
        return [asked for asked in batch if not asked.answer.done()]

    async def _carry(self, batch: list[_Asked]) -> None:
        try:
            answers: list[Any] = await self._answers(batch)
        except (Unavailable, Misconfigured) as error:
            answers = [error] * len(batch)
        except BaseException as error:
            answers = [Unavailable(f"the ledger's answer cannot be read: {error!r}")] * len(batch)
            raise
        finally:
            self._busy -= 1
            for asked, answer in zip(batch, answers, strict=True):
                if asked.answer.done():
                    continue
                if isinstance(answer, Exception):
                    asked.answer.set_exception(answer)
                    asked.answer.exception()  # whoever gave up waiting leaves no warning
                else:
                    asked.answer.set_result(answer)
            if self._waiting:
                self._flush()

    async def _answers(self, batch: list[_Asked]) -> list[Any]:
        response = await self._post(b'{"calls":[' + b",".join(asked.body for asked in batch) + b"]}")
        if response.status == 401:
            raise self._unauthorized(response)
        if response.status >= 500 or response.status == 429:
            raise Unavailable(f"the ledger at {self.address.name} answers {response.status}; the outcome is unknown")
        if response.status != 200:
            raise Misconfigured(f"{self.address.name} is no ledger of ours: HTTP {response.status}")
        try:
            answers = orjson.loads(response.body)["answers"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise Misconfigured(f"{self.address.name} is no ledger of ours: its answer cannot be read") from None
        return [_answer(answer) for answer in answers]

    def _unauthorized(self, response: Response) -> Misconfigured:
        try:
            there = int(orjson.loads(response.body)["now"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return Misconfigured(f"{self.address.name} refuses us and is no ledger of ours; check ledger.url")
        skew_s = abs(there - time.time_ns() // 1_000_000) / 1000
        if skew_s > 30:
            return Misconfigured(f"the ledger's clock is {skew_s:.0f} s off ours: it refuses requests; run NTP here")
        return Misconfigured("the ledger refuses our secret; check ledger.password, and AUDIENCE of the Worker")

    async def _post(self, body: bytes) -> Response:
        self.round_trips += 1
        lines = self.address.head("POST", "/ledger/v1/run", "", body, _now)
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        return await self._exchange("\r\n".join(lines).encode() + body)

    async def _exchange(self, request: bytes) -> Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connection()
                done = False
                try:
                    response = await connection.request(request)
                    done = True
                finally:
                    self._give_back(connection, whole=done)
        except (RpcFailure, TimeoutError) as error:
            why = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
            raise Unavailable(f"cannot reach the ledger: {why}; the outcome is unknown") from None
        return response

    async def _connection(self) -> Connection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < _IDLE_S:
                return connection
            connection.abort()
            self._open.discard(connection)
        address, wait_s = self.address, self._timeout_s
        opened = await connect(address.host, address.port, self._tls, address.host, address.name, _MOST_ANSWER, wait_s)
        self._open.add(opened)
        return opened

    def _give_back(self, connection: Connection, *, whole: bool) -> None:
        if whole and connection.usable and not self._closed:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
            self._open.discard(connection)

    async def close(self) -> None:
        self._closed = True
        for connection in list(self._open):
            connection.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _answer(answer: dict[str, Any]) -> Any:
    if "ok" in answer:
        return answer["ok"]
    word, details = answer["error"], answer["told"]
    if word == "unavailable":
        return Unavailable(f"an object of the ledger is away ({details.get('why', '')}); the outcome is unknown")
    if word == "forbidden":
        return Misconfigured("the ledger refuses this to a producer; a worker needs the owner's secret")
    if word in ("unknown_operation", "unknown_object"):
        return Misconfigured("the Worker of the ledger is older than this release; deploy it first")
    return Refusal(word, details)


def _dumps(call: Call) -> bytes:
    try:
        return orjson.dumps([call.object, call.operation, call.args])
    except TypeError as error:
        raise InvalidInput("payload", f"cannot be stored as JSON ({error})") from None


def _now() -> int:
    return time.time_ns() // 1_000_000
