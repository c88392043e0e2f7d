"""The front of resident lanes whose chain stands still, so that it only accepts, and a Worker that only answers."""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import Self

import httpx

from tests.devnet.process import Devnet
from tests.resident.node_door import NodeDoor
from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.servers.resident import Resident
from tests.servers.workerd import BINARY, package
from tests.waiting import until_sync

CALLERS = 64
_JSON = {"Content-Type": "application/json"}
_BODY = b'{"kind":"near.transfer","payload":{"receiver_id":"dev1.near","amount":"1"}}'
_HELLO = """
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "hello.js", esModule =
      "export default { fetch: async (asked) => new Response(await asked.text(), { status: 202 }) };")],
    compatibilityDate = "2026-10-01",
  ))],
  sockets = [(name = "http", address = "127.0.0.1:1", http = (), service = "main")],
);
"""


class _Asked:
    """Asked by 64 callers, each on a connection of its own, one request after the other."""

    name: str
    port: int

    async def accept(self, count: int) -> None:
        async def caller() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            for _ in range(count // CALLERS):
                writer.write(_request())
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 202"), head
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
            writer.close()

        await asyncio.gather(*(caller() for _ in range(CALLERS)))


def _request() -> bytes:
    lines = [
        "POST /v1/intents HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Authorization: Bearer token-all",
        f"Idempotency-Key: {secrets.token_hex(12)}",
        f"Content-Length: {len(_BODY)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + _BODY


class Front(_Asked):
    name = "front"

    def __init__(self) -> None:
        self._devnet = Devnet(block_ms=15, accounts=2, keys=4)
        self._devnet.__enter__()
        account = self._devnet.account(0)
        self._resident = Resident(account["account_id"], account["keys"], [self._devnet.url])
        self.port = self._resident.port
        with self._resident.client() as client:
            first = client.post("/v1/intents?wait=30", content=_BODY, headers={**_JSON, "Idempotency-Key": "first"})
            assert first.status_code == 200, first.text
        self._devnet.fault("stall")  # no block is made: each lane sends one transaction and waits for it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resident.close()
        self._devnet.__exit__(None, None, None)


class Hello(_Asked):
    name = "hello"

    def __init__(self) -> None:
        self.port, self._folder = free_port(), make_folder("hello")
        (self._folder / "hello.capnp").write_text(_HELLO)
        argv = [str(package() / BINARY), "serve", "hello.capnp", "--socket-addr", f"http=127.0.0.1:{self.port}"]
        self._process = spawn(argv, self._folder / "log", cwd=self._folder, env=dict(os.environ))
        until_sync(lambda: _listens(self.port), 30, what="the hello Worker listening")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
        remove_folder(self._folder)


def _listens(port: int) -> bool:
    try:
        return httpx.post(f"http://127.0.0.1:{port}/", timeout=5).status_code == 202
    except httpx.TransportError:
        return False


async def idle(seconds: float) -> dict[str, int]:
    """What a lane that has done its work still does: starts of its loop, and requests to its node."""
    with Devnet(block_ms=15, accounts=2, keys=1) as devnet:
        async with NodeDoor(devnet.url, None) as door:
            account = devnet.account(0)
            resident = await asyncio.to_thread(Resident, account["account_id"], account["keys"], [door.url])
            ledger = resident.ledger()
            try:
                async with httpx.AsyncClient(base_url=resident.url, timeout=60) as http:
                    headers = {**_JSON, "Authorization": "Bearer token-all", "Idempotency-Key": "first"}
                    told = await http.post("/v1/intents?wait=30", content=_BODY, headers=headers)
                    assert told.status_code == 200, told.text

                async def seen() -> tuple[int, int]:
                    lane = await ledger.lane(resident.lanes[0])
                    assert lane is not None
                    return lane.epoch, sum(door.asked.values())

                await asyncio.sleep(3.0)  # its last final record goes home
                (epoch, asked), _ = await seen(), await asyncio.sleep(seconds)
                later, more = await seen()
                return {"starts": later - epoch, "requests": more - asked}
            finally:
                await ledger.close()
                await asyncio.to_thread(resident.close)
