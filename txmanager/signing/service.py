"""The server side of `txmanager signer`: who connects, what they may ask for, and how much of it at once.

A client is known by the user id of its process (Unix socket) or by its certificate (TLS) before a byte of it is read.
Whatever one client does with its connections slows down nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import socket
import ssl
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter

from txmanager.core.errors import InvalidSettings, SignerFault, SignerRefused
from txmanager.core.values import value
from txmanager.signing.frames import BadFrame, frame, read_requests, read_rest, write_answer
from txmanager.signing.guard import Guard

_FRAME_S = 10.0
"""How long a frame may take to arrive, and an answer to be taken."""
_AT_ONCE = 16
"""Frames of one client that are read and signed at the same time."""
_LINES_PER_SECOND = 50
_CONNECTIONS = 64
"""Of one client; one more closes its oldest."""
_BACKLOG = 1024
"""Connections that may wait to be accepted: where none is left, a connect to a Unix socket fails at once."""

_log = structlog.get_logger("signer")


@value(frozen=True, slots=True)
class Client:
    name: str
    keys: frozenset[str]
    uid: int | None = None
    certificate: str | None = None
    """A DNS name of its certificate, or its common name."""


@dataclass(slots=True)
class _Seat:
    """What one client uses now."""

    client: Client
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Its transactions are read one after the other, however many connections they come on."""
    connections: list[asyncio.StreamWriter] = field(default_factory=list)
    _second: int = 0
    _lines: int = 0

    def warn(self, event: str, **more: object) -> None:
        """Say it, unless this client fills the log: metrics count what is left out."""
        now = int(asyncio.get_running_loop().time())
        self._second, self._lines = (now, self._lines + 1) if now == self._second else (now, 1)
        if self._lines <= _LINES_PER_SECOND:
            _log.warning(event, client=self.client.name, **more)
        elif self._lines == _LINES_PER_SECOND + 1:
            _log.warning("more of it is not logged within this second", client=self.client.name)


class SignerMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.signatures = Counter(
            "txmanager_signer_signatures", "Signatures given out", ["client", "key"], registry=self.registry
        )
        self.refusals = Counter(
            "txmanager_signer_refusals",
            "Requests without a signature",
            ["client", "key", "code"],
            registry=self.registry,
        )
        self.strangers = Counter(
            "txmanager_signer_strangers", "Connections that were closed unheard", registry=self.registry
        )


class SignerService:
    def __init__(self, guards: Mapping[str, Guard], clients: Sequence[Client]) -> None:
        self._guards = dict(guards)
        self._seats = [_Seat(client) for client in clients]
        self.metrics = SignerMetrics()
        self._server: asyncio.Server | None = None

    async def listen_unix(self, path: Path, group: str | None = None) -> None:
        """Only this user may connect, or also the members of a group; the user id is checked besides."""
        _remove_stale(path)
        with _private_files():
            try:
                self._server = await asyncio.start_unix_server(
                    self._on_connection, path, limit=1 << 16, backlog=_BACKLOG
                )
            except OSError as error:
                raise InvalidSettings("signer.listen", f"cannot listen at {path}: {error.strerror or error}") from None
        if group is not None:
            _open_to(path, group)

    async def listen_tls(self, host: str, port: int, context: ssl.SSLContext) -> None:
        try:
            self._server = await asyncio.start_server(
                self._on_connection, host, port, ssl=context, ssl_handshake_timeout=_FRAME_S, limit=1 << 16
            )
        except OSError as error:
            words = f"cannot listen at {host}:{port}: {error.strerror or error}"
            raise InvalidSettings("signer.listen", words) from None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for seat in self._seats:
            for writer in seat.connections:
                writer.close()
        for guard in self._guards.values():
            await guard.close()

    # -- one connection

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seat = self._seat_of(writer)
        if seat is None:
            self.metrics.strangers.inc()
            writer.close()
            return
        if len(seat.connections) >= _CONNECTIONS:
            seat.connections.pop(0).close()
        seat.connections.append(writer)
        tasks: set[asyncio.Task[None]] = set()
        try:
            await self._converse(seat, reader, writer, tasks)
        except BadFrame as error:
            seat.warn("connection closed", why=str(error))
        except OSError:
            pass  # it went away
        finally:
            for task in tasks:
                task.cancel()
            if writer in seat.connections:
                seat.connections.remove(writer)
            writer.close()

    async def _converse(
        self,
        seat: _Seat,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        """Many questions at once, as far as the client has turns left; more of them wait unread."""
        while first := await reader.read(1):
            await seat.turns.acquire()
            try:
                asked = await read_rest(reader, first, _FRAME_S)
            except BaseException:
                seat.turns.release()
                raise
            task = asyncio.create_task(self._answer(seat, asked, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _answer(self, seat: _Seat, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer_to(seat, asked)
            writer.write(frame({"id": asked.get("id"), **answer}))
            async with asyncio.timeout(_FRAME_S):
                await writer.drain()
        except BadFrame as error:
            seat.warn("connection closed", why=str(error))
            writer.close()
        except (OSError, TimeoutError):
            writer.transport.abort()  # a close would wait until the answers are taken
        finally:
            seat.turns.release()

    async def _answer_to(self, seat: _Seat, asked: dict[str, Any]) -> dict[str, Any]:
        client, name = seat.client, str(asked.get("key"))[:100]
        guard = self._guards.get(name)
        if guard is None or name not in client.keys:
            # The same words for both: a client learns nothing of keys that are not its own.
            seat.warn("key refused", key=name)
            self.metrics.refusals.labels(client.name, "", SignerRefused.code).inc()
            return write_answer(SignerRefused(f"the client {client.name} has no key {name!r} here"))
        if asked.get("do") == "describe":
            return {"curve": guard.curve.value, "public_key": guard.public_key}
        if asked.get("do") != "sign":
            raise BadFrame("a question that is neither describe nor sign")
        answers = await guard.sign_many(read_requests(asked.get("requests")), seat.reading)
        for answer in answers:
            if isinstance(answer, SignerFault):
                seat.warn("not signed", key=name, kind=type(answer).__name__, why=str(answer))
                self.metrics.refusals.labels(client.name, name, answer.code).inc()
            else:
                self.metrics.signatures.labels(client.name, name).inc()
        return {"answers": [write_answer(answer) for answer in answers]}

    def _seat_of(self, writer: asyncio.StreamWriter) -> _Seat | None:
        certificate = writer.get_extra_info("peercert")
        if certificate is not None:
            names = _names_in(certificate)
            found = [s for s in self._seats if s.client.certificate is not None and s.client.certificate in names]
            who = f"the certificate of {', '.join(sorted(names))[:200]}"
        else:
            uid = _peer_uid(writer.get_extra_info("socket"))
            found = [seat for seat in self._seats if uid is not None and seat.client.uid == uid]
            who = f"user {uid}"
        if not found:
            _log.warning("stranger refused", who=who)
            return None
        return found[0]


def _peer_uid(connection: Any) -> int | None:
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


def _names_in(certificate: Mapping[str, Any]) -> set[str]:
    alternatives = {name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"}
    subject = {name for part in certificate.get("subject", ()) for kind, name in part if kind == "commonName"}
    return alternatives or subject


def _remove_stale(path: Path) -> None:
    """A socket that nobody listens at any more; anything else there is the operator's."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise InvalidSettings("signer.listen", f"{path} is there and is not a socket; choose another path")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as trial:
        if trial.connect_ex(str(path)) == 0:
            raise InvalidSettings("signer.listen", f"another signer listens at {path}")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


@contextmanager
def _private_files() -> Iterator[None]:
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def _open_to(path: Path, group: str) -> None:
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        path.chmod(0o660)
    except (KeyError, OSError) as error:
        raise InvalidSettings("signer.group", f"{group!r} cannot have the socket ({error})") from None
