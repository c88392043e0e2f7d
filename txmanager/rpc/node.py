"""One endpoint over HTTP: a pool of connections for questions, one connection per lane for ordered sends.

Every call ends within its time-out. A connection that went stale while idle is replaced once, silently: all our calls
are safe to repeat, a send of the same bytes included.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import Any

import orjson

from txmanager.rpc import batch as batches
from txmanager.rpc.batch import Call
from txmanager.rpc.connection import Closed, Connection, Response, connect
from txmanager.rpc.endpoint import Breaker, Endpoint
from txmanager.rpc.errors import (
    BadAnswer,
    CircuitOpen,
    NotSent,
    RateLimited,
    RpcError,
    RpcFailure,
    TimedOut,
    TooLarge,
    shown,
)
from txmanager.rpc.protocol import Json, ask_apart

_PER_GROUP = 16
_MAX_IDLE = 128
_IDLE_S = 20.0
_JUST_USED_S = 2.0
"""A connection that was idle for longer may be closed by now: what must be written once takes a new one."""
_LANE_IDLE_S = 300.0
"""A lane that sent nothing for so long has no connection of its own."""
_RECONNECTS = 2
_ONE_BY_ONE_S = 60.0
"""How long a peer that closed a connection under us is not sent to ahead of its answers."""


class HttpNode:
    def __init__(self, endpoint: Endpoint, rng: random.Random) -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self.direct = endpoint.direct
        self.archival = endpoint.archival
        self.breaker = Breaker(rng, self._now)
        self._head = endpoint.head()
        self._tls = endpoint.tls()
        self._ids = count(1)
        self._idle: deque[Connection] = deque()
        self._groups: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_PER_GROUP))
        self._lanes: dict[str, Connection] = {}
        self._pipelines_from = 0.0 if endpoint.direct else float("inf")
        self._open: set[Connection] = set()
        self._batches = True
        self._left_out = False

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    @property
    def ready(self) -> bool:
        return not self._left_out and self.breaker.admits()

    def leave_out(self) -> None:
        self._left_out = True

    async def call(self, method: str, params: Json, *, group: str = "", timeout: float | None = None) -> Json:
        number = next(self._ids)
        response = await self._ask(self._encode(number, method, params), method, group, timeout)
        return self._read(response, number)

    async def call_many(
        self, calls: Sequence[Call], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        """Many questions, in as few requests as the node allows; one that fails does not fail the others. What fails
        as a whole (the connection) is raised."""
        answers: list[Json | RpcFailure] = []
        for start in range(0, len(calls), batches.MAX_BATCH):
            part = calls[start : start + batches.MAX_BATCH]
            answers += await self._call_some(part, group, timeout)
        return answers

    async def _call_some(self, calls: Sequence[Call], group: str, timeout: float | None) -> list[Json | RpcFailure]:
        if self._batches and len(calls) > 1:
            first = next(self._ids)
            for _ in calls[1:]:
                next(self._ids)
            response = await self._ask(batches.encode(self._head, first, calls), "a batch", group, timeout)
            if response.status == 429:
                raise RateLimited(f"{self.name}: too many requests (HTTP 429)")
            try:
                return batches.decode(self.name, response.body, first, len(calls))
            except batches.NoBatches:
                if response.status >= 500:
                    raise
                self._batches = False
        one_by_one = (self.call(method, params, group=group, timeout=timeout) for method, params in calls)
        answers = await asyncio.gather(*one_by_one, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and (not isinstance(answer, RpcFailure) or answer.breaks):
                raise answer
        return list(answers)

    async def call_each(
        self, calls: Sequence[Call], *, group: str = "", timeout: float | None = None
    ) -> list[Json | RpcFailure]:
        """The answer to each question, or its own failure: pipelined where the node is direct, else side by side.
        Behind a question that takes long, those of the same pipeline wait; none longer than the time-out."""
        if not self._pipelines:
            return await ask_apart(self.call, calls, group, timeout)
        depth = self.endpoint.pipeline
        if len(calls) <= depth:
            return await self._pipelined(calls, group, timeout)
        parts = [calls[start : start + depth] for start in range(0, len(calls), depth)]
        by_part = await asyncio.gather(*(self._pipelined(part, group, timeout) for part in parts))
        return [answer for part in by_part for answer in part]

    async def _pipelined(self, calls: Sequence[Call], group: str, timeout: float | None) -> list[Json | RpcFailure]:
        seconds = self.endpoint.timeout_s if timeout is None else timeout
        numbers = [next(self._ids) for _ in calls]
        requests = [self._encode(number, *call) for number, call in zip(numbers, calls, strict=True)]
        answers: list[Json | RpcFailure] = []
        missing: RpcFailure
        try:
            self._admit(seconds)
            async with asyncio.timeout(seconds):
                async with self._groups[group]:
                    await self._exchange_many(requests, numbers, answers)
                    return answers
        except TimeoutError:
            missing = TimedOut(f"{self.name}: no answer to {calls[len(answers)][0]} within {seconds:g} s")
            if not answers:  # else it is the question that takes long, not the node
                self.breaker.failed()
        except Closed as closed:
            self._pipelines_from = max(self._pipelines_from, self._now() + _ONE_BY_ONE_S)
            missing = closed
        except RpcFailure as failure:
            self._note(failure)
            missing = failure
        return [*answers, *([missing] * (len(calls) - len(answers)))]

    async def _exchange_many(
        self, requests: Sequence[bytes], numbers: Sequence[int], answers: list[Json | RpcFailure]
    ) -> None:
        while True:
            connection = self._take_idle() or await self._connect()
            before = connection.answered
            used = before > 0
            try:
                for number, future in zip(numbers, connection.request_many(requests), strict=True):
                    # most answers of a pipeline arrive together
                    response = future.result() if future.done() else await future
                    try:
                        answers.append(self._read(response, number))
                    except RpcFailure as failure:
                        answers.append(failure)
            except Closed:
                if used and not answers:
                    continue
                raise
            finally:
                self._hear(connection, before)
                self._give_back(connection)
            return

    @property
    def _pipelines(self) -> bool:
        return self._now() >= self._pipelines_from

    async def _ask(self, data: bytes, what: str, group: str, timeout: float | None) -> Response:
        seconds = self.endpoint.timeout_s if timeout is None else timeout
        self._admit(seconds)
        try:
            async with asyncio.timeout(seconds):
                async with self._groups[group]:
                    response = await self._exchange(data)
        except TimeoutError:
            self.breaker.failed()
            raise TimedOut(f"{self.name}: no answer to {what} within {seconds:g} s") from None
        except RpcFailure as failure:
            self._note(failure)
            raise
        self.breaker.succeeded()
        return response

    async def send(
        self, lane: str, method: str, batch: Sequence[Json], *, then: Call | None = None
    ) -> list[Json | RpcFailure]:
        """Ordered: each request only after the answer to the one before, or pipelined on one connection of a direct
        node, `then` behind them. A peer that closes its connections is sent the rest one by one, in the same order."""
        calls = [(method, params) for params in batch]
        if then is not None and self._pipelines:
            calls.append(then)
        answers: list[Json | RpcFailure] = []
        reconnects = _RECONNECTS
        while len(answers) < len(calls):
            before = len(answers)
            try:
                await self._send_on_one(lane, calls, answers)
            except Closed as closed:
                # Not answered on this connection, so sent again on the next: in order, and safe as identical bytes.
                self._pipelines_from = max(self._pipelines_from, self._now() + _ONE_BY_ONE_S)
                reconnects = _RECONNECTS if len(answers) > before else reconnects - 1
                if reconnects < 0:
                    self.breaker.failed()
                    answers.append(closed)
                    break
            except RpcFailure as failure:
                self._note(failure)
                answers.append(failure)
                break
        return answers

    async def forward(self, body: bytes, timeout: float) -> Response:
        """A request's body as it is; the answer as it came."""
        self._admit(timeout)
        try:
            async with asyncio.timeout(timeout):
                response = await self._exchange(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))
        except TimeoutError:
            self.breaker.failed()
            raise TimedOut(f"{self.name}: no answer within {timeout:g} s") from None
        except RpcFailure as failure:
            self._note(failure)
            raise
        self.breaker.succeeded()
        return response

    async def send_once(self, method: str, params: Json, timeout: float, may: Callable[[], bool]) -> Json:
        """Write it at most once: never again on a closed connection, and only if `may` says so the moment before.
        `NotSent` when nothing was written."""
        number = next(self._ids)
        data = self._encode(number, method, params)
        try:
            self._admit(timeout)
            connection = self._take_idle(_JUST_USED_S) or await self._connect()
        except RpcFailure as failure:
            self._note(failure)
            raise NotSent(str(failure)) from None
        if not may():
            self._give_back(connection)
            raise NotSent(f"{self.name}: the right to send is over")
        try:
            async with asyncio.timeout(timeout):
                response = await connection.request(data)
        except TimeoutError:
            raise TimedOut(f"{self.name}: no answer to {method} within {timeout:g} s") from None
        except RpcFailure as failure:
            self._note(failure)
            raise
        finally:
            self._give_back(connection)
        self.breaker.succeeded()
        return self._read(response, number)

    async def _send_on_one(self, lane: str, calls: Sequence[Call], answers: list[Json | RpcFailure]) -> None:
        timeout = self.endpoint.timeout_s
        self._admit(timeout)
        connection = self._lanes.pop(lane, None)
        if connection is None or not connection.usable:
            connection = await self._connect()
        connection.idle_since = self._now()
        self._lanes[lane] = connection  # behind those that were used before
        self._close_unused()
        depth = self.endpoint.pipeline if self._pipelines else 1
        waiting: deque[tuple[int, asyncio.Future[Response]]] = deque()
        position, before = len(answers), connection.answered
        try:
            while len(answers) < len(calls):
                if position < len(calls) and len(waiting) <= depth // 2:
                    more = calls[position : position + depth - len(waiting)]
                    numbers = [next(self._ids) for _ in more]
                    requests = self._encode_some(numbers, more, must=not waiting)
                    waiting.extend(zip(numbers, connection.request_many(requests), strict=False))
                    position += len(requests)
                number, future = waiting.popleft()
                if future.done():  # most answers of a pipeline arrive together
                    response = future.result()
                else:
                    async with asyncio.timeout(timeout):
                        response = await future
                answers.append(self._read(response, number))
        except TimeoutError:
            what = calls[len(answers)][0]
            raise TimedOut(f"{self.name}: no answer to {what} within {timeout:g} s") from None
        finally:
            self._hear(connection, before)
            # Whatever is still on the wire follows something that was not taken: end it here.
            if waiting or connection.outstanding:
                connection.abort("given up")

    async def _exchange(self, data: bytes) -> Response:
        while True:
            connection = self._take_idle() or await self._connect()
            used = connection.answered > 0
            try:
                response = await connection.request(data)
            except Closed:
                if used:
                    continue
                raise
            finally:
                self._give_back(connection)
            return response

    def _close_unused(self) -> None:
        before = self._now() - _LANE_IDLE_S
        unused = takewhile(lambda one: one[1].idle_since < before, self._lanes.items())
        for lane, connection in [one for one in unused if not one[1].outstanding]:
            del self._lanes[lane]
            connection.abort("stale")

    def _hear(self, connection: Connection, before: int) -> None:
        """A node that answered anything, be it an error, is there."""
        if connection.answered > before:
            self.breaker.succeeded()

    def _give_back(self, connection: Connection) -> None:
        if connection.outstanding:
            connection.abort("given up")
        elif connection.usable and len(self._idle) < _MAX_IDLE:
            connection.idle_since = self._now()
            self._idle.append(connection)
        elif connection.usable:
            connection.abort("not needed")

    def _take_idle(self, within_s: float = _IDLE_S) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._now() - connection.idle_since < within_s:
                return connection
            connection.abort("stale")
        return None

    async def _connect(self) -> Connection:
        host, port = self.endpoint.address
        self._open = {c for c in self._open if c.usable}
        made = await connect(
            host, port, self._tls, host, self.name, self.endpoint.max_body, self.endpoint.connect_timeout_s
        )
        self._open.add(made)
        return made

    def _admit(self, timeout: float) -> None:
        if not self.breaker.admits():
            raise CircuitOpen(f"{self.name}: left alone for a moment after connection errors")
        self.breaker.entered(timeout)

    def _note(self, failure: RpcFailure) -> None:
        if failure.breaks:
            self.breaker.failed()

    def _encode_some(self, numbers: Sequence[int], calls: Sequence[Call], must: bool) -> list[bytes]:
        """The requests before the first that is too large; its failure, when that is the very first and `must`."""
        try:
            return [self._encode(number, *call) for number, call in zip(numbers, calls, strict=True)]
        except TooLarge:
            if not must and len(calls) == 1:
                return []
            if len(calls) == 1:
                raise
        first = self._encode_some(numbers[:1], calls[:1], must)
        return first and first + self._encode_some(numbers[1:], calls[1:], False)

    def _encode(self, number: int, method: str, params: Json) -> bytes:
        body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if len(body) > self.endpoint.max_request_bytes:
            most = self.endpoint.max_request_bytes
            raise TooLarge(f"{self.name}: a request of {len(body)} bytes was not sent; the endpoint takes {most}")
        return b"%s%d\r\n\r\n%s" % (self._head, len(body), body)

    def _read(self, response: Response, number: int) -> Any:
        if response.status == 429:
            raise RateLimited(f"{self.name}: too many requests (HTTP 429)")
        if response.status == 413:
            raise TooLarge(f"{self.name}: the request is too large (HTTP 413)")
        try:
            answer = orjson.loads(response.body)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise BadAnswer(f"{self.name}: HTTP {response.status} without a JSON-RPC answer")
        if answer.get("error") is not None:
            raise RpcError(answer["error"], response.status)
        if response.status != 200 or "result" not in answer:
            raise BadAnswer(f"{self.name}: HTTP {response.status} with neither result nor error")
        if answer.get("id") != number:
            raise BadAnswer(f"{self.name}: answered request {shown(answer.get('id'), 40)} instead of {number}")
        return answer["result"]

    async def close(self) -> None:
        for connection in self._open:
            connection.abort("closing")
        self._open.clear()
        self._idle.clear()
        self._lanes.clear()
