"""One admitted request, what answers it, and the type of what stands between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

import orjson
from pydantic import BaseModel

from txmanager.api.auth import Caller, Right
from txmanager.api.bodies import Receive, read_request
from txmanager.api.problems import encoded
from txmanager.core.errors import InvalidInput, TxManagerError

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Asgi = MutableMapping[str, Any]
Header = tuple[bytes, bytes]
_JSON: Header = (b"content-type", b"application/json")


@dataclass(slots=True)
class Call:
    """One admitted request."""

    scope: Asgi
    headers: Mapping[bytes, bytes]
    caller: Caller
    receive: Receive
    body: bytes = b""
    trace: str = ""
    """The `traceparent` of what follows from it; empty where nobody traces it."""
    _query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            text = self.scope["query_string"].decode("latin-1")
            self._query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100)) if text else {}
        return self._query

    @property
    def tenant(self) -> str:
        """Whose intents it is about: the token's tenant, or with `tenant = "*"` the one that `?tenant=` names."""
        return self.caller.tenant_for(self.query.get("tenant"))

    def path(self, name: str) -> str:
        """A part of the path as it was meant: routes are matched before percent signs are resolved."""
        return unquote(self.scope["path_params"][name])

    def read(self, model: type[BaseModel]) -> dict[str, Any]:
        """The body, which must be a JSON object of that shape."""
        return read_request(self.headers, self.body, model)

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise InvalidInput(name, "must be true or false")
        return text == "true"

    def seconds(self, name: str, most: float) -> float:
        text = self.query.get(name)
        if text is None:
            return 0.0
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise InvalidInput(name, f"must be a number of seconds from 0 to {most:g}")
        return value

    async def disconnected(self) -> None:
        """Returns when the client is gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


class Answering(Protocol):
    @property
    def status(self) -> int: ...

    async def send(self, call: Call | None, send: Send) -> None: ...


@dataclass(slots=True)
class Reply:
    status: int
    body: bytes
    headers: list[Header] = field(default_factory=lambda: [_JSON])

    async def send(self, call: Call | None, send: Send) -> None:
        headers = [*self.headers, (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps(value))


def problem_reply(error: TxManagerError) -> Reply:
    return Reply(*encoded(error))


Handler = Callable[[Call], Awaitable[Answering]]


class Audit(Protocol):
    async def note(self, call: Call, route: str, right: Right, refused: str = "") -> None: ...
