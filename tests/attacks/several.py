"""Several API processes on one real ledger, with tokens of several tenants and a lane that nobody works on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import shutil
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

import httpx

from tests.api.stage import Program
from tests.servers import free_port
from tests.servers.processes import make_folder
from tests.waiting import until_sync
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger

T = TypeVar("T")
LANE = "near:localnet:relayer.near:ed25519:A"
ALL = ["submit", "read", "operate"]


class Several:
    """`ask(name, ...)` is a request by the token of that name, to the process of that number."""

    def __init__(self, url: str, tokens: dict[str, dict[str, Any]], *, processes: int = 2, more: str = "") -> None:
        self.url, self.prefix, self.folder = url, f"t{secrets.token_hex(6)}", make_folder("several")
        self.secrets = {name: f"token-{name}-{secrets.token_hex(4)}" for name in tokens}
        self.ports = [free_port() for _ in range(processes)]
        self.programs: list[Program] = []
        self.clients = [httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) for port in self.ports]
        listed = "\n".join(self._token(name, told) for name, told in tokens.items())
        for port in self.ports:
            config = self.folder / str(port) / "txmanager.toml"
            config.parent.mkdir()
            config.write_text(_TOML.format(url=url, prefix=self.prefix, port=port, tokens=listed, more=more))
            self.programs.append(Program("api", config))

    def _token(self, name: str, told: dict[str, Any]) -> str:
        lines = [f'[[api.tokens]]\nname = "{name}"']
        lines.append(f'sha256 = "{hashlib.sha256(self.secrets[name].encode()).hexdigest()}"')
        lines += [f"{field} = {json.dumps(value)}" for field, value in told.items() if field != "limits"]
        if "limits" in told:
            lines.append("[api.tokens.limits]")
            lines += [f"{field} = {json.dumps(value)}" for field, value in told["limits"].items()]
        return "\n".join(lines)

    @property
    def config(self) -> str:
        return str(self.folder / str(self.ports[0]) / "txmanager.toml")

    def __enter__(self) -> Self:
        self.ledger(lambda ledger: ledger.register(LaneSpec(LANE, "main")))
        for program in self.programs:
            program.start()
        for program in self.programs:
            until_sync(lambda p=program: p.said('"url"'), 30, what="the API listens")  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.close()
        for program in self.programs:
            program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ledger(self, work: Callable[[RedisLedger], Awaitable[T]]) -> T:
        """Something done in the ledger itself."""

        async def run() -> T:
            ledger = RedisLedger(self.url, prefix=self.prefix, durability="none", timeout_s=5.0)
            try:
                return await work(ledger)
            finally:
                await ledger.close()

        return asyncio.run(run())

    def ask(self, by: str, method: str, path: str, *, at: int = 0, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.secrets[by]}", **more.pop("headers", {})}
        return self.clients[at].request(method, path, headers=headers, **more)

    def transfer(
        self, by: str, key: str, *, at: int = 0, tenant: str = "", dry_run: bool = False, **more: Any
    ) -> httpx.Response:
        body = {"kind": "near.transfer", "payload": {"receiver_id": "bob.near", "amount": "1"}, "pool": "main", **more}
        query = {"tenant": tenant} if tenant else {}
        query |= {"dry_run": "true"} if dry_run else {}
        return self.ask(by, "POST", "/v1/intents", at=at, json=body, params=query, headers={"Idempotency-Key": key})

    def log(self, at: int = 0) -> str:
        return self.programs[at].log_file.read_text()


_TOML = """
[ledger]
url = "{url}"
prefix = "{prefix}"
durability = "none"

[networks.localnet]
chain = "near"
rpc = [{{ url = "http://127.0.0.1:9" }}]

[pools.main]
network = "localnet"
account = "relayer.near"
keys = []

[api]
port = {port}

{more}

{tokens}
"""
