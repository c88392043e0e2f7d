"""`Client`: calls carried out on sockets of this thread. Safe to share between threads."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from txmanager.client.batches import BatchCalls, pages
from txmanager.client.calls import Calls
from txmanager.client.effects import Call, Effect, Open, Pause, Read, Send, Stream
from txmanager.client.http import Address, Reply, ReplyReader, Request, TransportFailed
from txmanager.client.models import BatchResult, Event
from txmanager.client.nonce_calls import NonceCalls, Tracking
from txmanager.client.reserving import Reservation, Signed, in_turn, reserved, send_signed

P = ParamSpec("P")
T = TypeVar("T")
_KEPT = 16


def carried_out(make: Callable[Concatenate[NonceCalls, P], Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(make(self._calls, *args, **kwargs))

    return method


def followed(make: Callable[Concatenate[NonceCalls, P], Stream]) -> Callable[Concatenate[Client, P], Iterator[Event]]:
    @wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Event]:
        return self._follow(make(self._calls, *args, **kwargs))

    return method


class Client:
    """`with Client("http://127.0.0.1:8080", token=...) as client: client.create_account(...)`"""

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
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

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

    def submit_many(self, intents: Iterable[Mapping[str, Any]], *, pool: str | None = None) -> Iterator[BatchResult]:
        """Submit any number of intents, as `submit_batch` takes them, page by page: one result each, as they come."""
        for page in pages(intents, pool or self._calls.pool):
            yield from self._follow(self._calls.submit_page(page))

    # -- numbers of addresses whose key is the caller's

    def reserve(
        self, address: str, network_id: str | int, *, ttl_s: int | None = None
    ) -> AbstractContextManager[Reservation]:
        """`with client.reserve(address, network) as number:` goes back by itself if nothing was sent."""
        return reserved(self, address, network_id, ttl_s)

    def turn(
        self, address: str, network_id: str | int, *, ttl_s: int | None = None, wait_s: float = 10.0
    ) -> AbstractContextManager[Reservation]:
        """The same, one caller at a time, in the order asked."""
        return in_turn(self, address, network_id, ttl_s, wait_s)

    def send_signed(
        self,
        address: str,
        network_id: str | int,
        sign: Callable[[int], Signed],
        *,
        tries: int = 5,
        ttl_s: int | None = None,
    ) -> Tracking:
        """Reserve, `sign(nonce)`, send; a nonce conflict starts over, `tries` times at most."""
        return send_signed(self, address, network_id, sign, tries, ttl_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # -- effects

    def _run(self, call: Call[T]) -> T:
        try:
            effect: Effect = next(call)
            while True:
                if isinstance(effect, Send):
                    try:
                        reply = self._send(effect.request)
                    except TransportFailed as failed:
                        effect = call.throw(failed)
                    else:
                        effect = call.send(reply)
                else:
                    time.sleep(effect.seconds)
                    effect = next(call)
        except StopIteration as ended:
            result: T = ended.value
            return result

    def _send(self, request: Request) -> Reply:
        connection = self._connect(request.timeout_s)
        reader = ReplyReader()
        try:
            connection.settimeout(request.timeout_s)
            connection.sendall(self._address.encode(request))
            while not reader.complete:
                reader.feed(connection.recv(65_536))
        except OSError as error:
            connection.close()
            raise TransportFailed(f"{self._address!r}: {error or 'timed out'}") from None
        except BaseException:
            connection.close()
            raise
        self._keep(connection, reader.reusable)
        return reader.reply()

    def _connect(self, timeout_s: float, *, fresh: bool = False) -> socket.socket:
        with self._lock:
            if self._idle and not fresh:
                return self._idle.pop()
        address = self._address
        try:
            plain = socket.create_connection((address.host, address.port), timeout=timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return address.tls.wrap_socket(plain, server_hostname=address.host) if address.tls else plain
        except OSError as error:
            raise TransportFailed(f"{address!r}: {error}") from None

    def _keep(self, connection: socket.socket, reusable: bool) -> None:
        with self._lock:
            if reusable and len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def _follow(self, stream: Stream) -> Iterator[Any]:
        connection: socket.socket | None = None
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
                            if connection is not None:
                                connection.close()
                            connection, reader = self._connect(request.timeout_s, fresh=True), ReplyReader()
                            answer = self._begin(connection, reader, request)
                        case Read(timeout_s):
                            assert connection is not None
                            answer = self._more(connection, reader, timeout_s)
                        case Pause(seconds):
                            time.sleep(seconds)
                        case Event() | BatchResult():
                            yield effect
                except TransportFailed as failed:
                    answer = failed
        finally:
            stream.close()
            if connection is not None:
                connection.close()

    def _begin(self, connection: socket.socket, reader: ReplyReader, request: Request) -> Reply:
        try:
            connection.sendall(self._address.encode(request))
            while not reader.started or (reader.status != 200 and not reader.complete):
                reader.feed(connection.recv(65_536), bounded=False)
        except OSError as error:
            raise TransportFailed(f"{self._address!r}: {error or 'timed out'}") from None
        return Reply(reader.status, reader.headers, b"" if reader.status == 200 else reader.take())

    def _more(self, connection: socket.socket, reader: ReplyReader, timeout_s: float) -> bytes:
        try:
            connection.settimeout(timeout_s)
            while True:
                if data := reader.take():
                    return data
                if reader.complete:
                    return b""
                reader.feed(connection.recv(65_536), bounded=False)
        except OSError as error:
            raise TransportFailed(f"{self._address!r}: {error or 'timed out'}") from None
