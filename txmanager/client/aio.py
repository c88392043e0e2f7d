"""`AsyncClient`: the same calls carried out on asyncio connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from txmanager.client.batches import BatchCalls, apages
from txmanager.client.calls import Calls
from txmanager.client.effects import Call, Effect, Open, Pause, Read, Send, Stream
from txmanager.client.http import Address, Reply, ReplyReader, Request, TransportFailed
from txmanager.client.models import BatchResult, Event
from txmanager.client.nonce_calls import NonceCalls, Tracking
from txmanager.client.reserving import AsyncReservation, Signed, ain_turn, areserved, asend_signed

P = ParamSpec("P")
T = TypeVar("T")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_KEPT = 64


def carried_out(
    make: Callable[Concatenate[NonceCalls, P], Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    @wraps(make)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(make(self._calls, *args, **kwargs))

    return method


def followed(
    make: Callable[Concatenate[NonceCalls, P], Stream],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[Event]]:
    @wraps(make)
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Event]:
        return self._follow(make(self._calls, *args, **kwargs))

    return method


class AsyncClient:
    """`async with AsyncClient("http://127.0.0.1:8080", token=...) as client: await client.create_account(...)`"""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        pool: str | None = None,
        retry_for_s: float = 30.0,
        timeout_s: float = 10.0,
    ) -> None:
        self._address = Address(url, token)
        self._calls = NonceCalls(pool=pool, retry_for_s=retry_for_s, timeout_s=timeout_s)
        self._idle: list[Connection] = []

    submit = carried_out(Calls.submit)
    submit_batch = carried_out(BatchCalls.submit_batch)
    create_account = carried_out(Calls.create_account)
    relay = carried_out(Calls.relay)
    recover = carried_out(Calls.recover)
    execute = carried_out(Calls.execute)
    get = carried_out(Calls.get)
    wait = carried_out(Calls.wait)
    list = carried_out(Calls.list)
    usage = carried_out(Calls.usage)
    cancel = carried_out(Calls.cancel)
    resolve = carried_out(Calls.resolve)
    lanes = carried_out(Calls.lanes)
    lane = carried_out(Calls.lane)
    steer = carried_out(Calls.steer)
    reserve_nonce = carried_out(NonceCalls.reserve_nonce)
    recycle_nonce = carried_out(NonceCalls.recycle_nonce)
    lock_nonce = carried_out(NonceCalls.lock_nonce)
    unlock_nonce = carried_out(NonceCalls.unlock_nonce)
    send_raw = carried_out(NonceCalls.send_raw)
    current_fee = carried_out(NonceCalls.current_fee)
    nonce_health = carried_out(NonceCalls.nonce_health)
    follow = followed(Calls.follow)
    follow_pool = followed(Calls.follow_pool)

    async def submit_many(
        self,
        intents: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
        *,
        pool: str | None = None,
    ) -> AsyncIterator[BatchResult]:
        """Submit any number of intents, as `submit_batch` takes them, page by page: one result each, as they come."""
        async for page in apages(intents, pool or self._calls.pool):
            async for result in self._follow(self._calls.submit_page(page)):
                yield result

    # -- numbers of addresses whose key is the caller's

    def reserve(
        self, address: str, network_id: str | int, *, ttl_s: int | None = None
    ) -> AbstractAsyncContextManager[AsyncReservation]:
        """`async with client.reserve(address, network) as number:` goes back by itself if nothing was sent."""
        return areserved(self, address, network_id, ttl_s)

    def turn(
        self, address: str, network_id: str | int, *, ttl_s: int | None = None, wait_s: float = 10.0
    ) -> AbstractAsyncContextManager[AsyncReservation]:
        """The same, one caller at a time, in the order asked."""
        return ain_turn(self, address, network_id, ttl_s, wait_s)

    async def send_signed(
        self,
        address: str,
        network_id: str | int,
        sign: Callable[[int], Signed | Awaitable[Signed]],
        *,
        tries: int = 5,
        ttl_s: int | None = None,
    ) -> Tracking:
        """Reserve, `sign(nonce)`, send; a nonce conflict starts over, `tries` times at most."""
        return await asend_signed(self, address, network_id, sign, tries, ttl_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    # -- effects

    async def _run(self, call: Call[T]) -> T:
        try:
            effect: Effect = next(call)
            while True:
                if isinstance(effect, Send):
                    try:
                        reply = await self._send(effect.request)
                    except TransportFailed as failed:
                        effect = call.throw(failed)
                    else:
                        effect = call.send(reply)
                else:
                    await asyncio.sleep(effect.seconds)
                    effect = next(call)
        except StopIteration as ended:
            result: T = ended.value
            return result
        finally:
            call.close()

    async def _send(self, request: Request) -> Reply:
        reader = ReplyReader()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(request.timeout_s):
                connection = await self._connect()
                connection[1].write(self._address.encode(request))
                while not reader.complete:
                    reader.feed(await connection[0].read(65_536))
        except (OSError, TimeoutError) as error:
            self._drop(connection)
            raise TransportFailed(f"{self._address!r}: {error or 'timed out'}") from None
        except BaseException:
            self._drop(connection)
            raise
        if reader.reusable and len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            self._drop(connection)
        return reader.reply()

    async def _connect(self, *, fresh: bool = False) -> Connection:
        while self._idle and not fresh:
            connection = self._idle.pop()
            if not connection[0].at_eof() and not connection[1].is_closing():
                return connection
            self._drop(connection)
        address = self._address
        return await asyncio.open_connection(
            address.host, address.port, ssl=address.tls, server_hostname=address.host if address.tls else None
        )

    @staticmethod
    def _drop(connection: Connection | None) -> None:
        if connection is not None:
            connection[1].transport.abort()

    async def _follow(self, stream: Stream) -> AsyncIterator[Any]:
        connection: Connection | None = None
        reader = ReplyReader()
        answer: Any = None
        try:
            while True:
                try:
                    effect = stream.send(answer) if not isinstance(answer, TransportFailed) else stream.throw(answer)
                except StopIteration:
                    return
                answer = None
                try:
                    match effect:
                        case Open(request):
                            self._drop(connection)
                            reader = ReplyReader()
                            async with asyncio.timeout(request.timeout_s):
                                connection = await self._connect(fresh=True)
                                connection[1].write(self._address.encode(request))
                                while not reader.started or (reader.status != 200 and not reader.complete):
                                    reader.feed(await connection[0].read(65_536), bounded=False)
                            answer = Reply(
                                reader.status, reader.headers, b"" if reader.status == 200 else reader.take()
                            )
                        case Read(timeout_s):
                            assert connection is not None
                            async with asyncio.timeout(timeout_s):
                                answer = await self._more(connection, reader)
                        case Pause(seconds):
                            await asyncio.sleep(seconds)
                        case Event() | BatchResult():
                            yield effect
                except TransportFailed as failed:
                    answer = failed
                except (OSError, TimeoutError) as error:
                    answer = TransportFailed(f"{self._address!r}: {error or 'timed out'}")
        finally:
            stream.close()
            self._drop(connection)

    @staticmethod
    async def _more(connection: Connection, reader: ReplyReader) -> bytes:
        while not (data := reader.take()):
            if reader.complete:
                return b""
            reader.feed(await connection[0].read(65_536), bounded=False)
        return data
