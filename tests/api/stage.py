"""The programs as operators run them: API, worker and webhook deliverer as processes, a devnet, a real ledger."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx

from tests.devnet.process import Devnet
from tests.servers import end, free_port, spawn
from tests.servers.processes import make_folder
from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent
KEY = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"

ACCOUNTS = 24
RECEIVER, USER, STORM_RECEIVER, FIRST_RELAYER = 1, 2, 3, 4
"""Accounts of the devnet, by what the tests use them for."""

_relayers: dict[str, int] = {}

_SPARE = """
[pools.spare]
network = "localnet"
account = "{account}"
keys = []
"""
"""A pool that nobody serves."""

TOKENS: dict[str, dict[str, Any]] = {
    "all": {"scopes": ["submit", "read", "operate"]},
    "reader": {"scopes": ["read"]},
    "writer": {"scopes": ["submit"]},
    "other": {"scopes": ["submit", "read", "operate"], "tenant": "other"},
    "ops": {"scopes": ["read", "operate"], "tenant": "*"},
    "slow": {"scopes": ["submit", "read"], "limits": {"per_second": 0.5, "burst": 2}},
    "narrow": {
        "scopes": ["submit", "read"],
        "limits": {
            "pools": ["main"],
            "kinds": ["near.transfer", "near.delegate"],
            "receivers": ["dev1.near"],
            "max_deposit": 5,
        },
    },
}
"""By name; the token itself is `token-{name}`."""


def token(name: str) -> str:
    return f"token-{name}"


def bearer(name: str = "all") -> dict[str, str]:
    return {"Authorization": f"Bearer {token(name)}"}


def next_relayer(devnet: Devnet) -> dict[str, Any]:
    """An account of its own: a key that two ledgers know would be used by two owners."""
    number = _relayers[devnet.url] = _relayers.get(devnet.url, FIRST_RELAYER - 1) + 1
    return devnet.account(number)


class Program:
    """`python -m consumers.NAME` with a configuration. `kill` is kill -9; `start` again is a new process.

    `open_files` are options of ulimit.
    """

    def __init__(
        self, name: str, config: Path, environment: dict[str, str] | None = None, open_files: str | None = None
    ) -> None:
        self.name = name
        self._open_files = open_files
        self._config = config
        self._environment = environment or {}
        self._numbers = itertools.count(1)
        self._child: subprocess.Popen[bytes] | None = None
        self.log_file = config

    def start(self) -> Self:
        self.log_file = self._config.parent / f"{self.name}-{next(self._numbers)}.log"
        environment = {**os.environ, "TXMANAGER_CONFIG": str(self._config), **self._environment}
        command = [sys.executable, "-m", f"consumers.{self.name}"]
        if self._open_files is not None:
            command = ["sh", "-c", f'ulimit {self._open_files} && exec "$@"', "sh", *command]
        self._child = spawn(command, self.log_file, cwd=ROOT, env=environment)
        return self

    def said(self, words: str) -> str | None:
        """The first line of its output that holds the words."""
        lines = self.log_file.read_text().splitlines()
        found = next((line for line in lines if words in line), None)
        if found is None and self._child is not None and self._child.poll() is not None:
            raise AssertionError(f"{self.name} ended: {lines[-5:]}")
        return found

    @property
    def running(self) -> bool:
        return self._child is not None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        end(child, how, 15)
        log = self.log_file.read_text(errors="replace").splitlines()
        undeclared = [line for line in log if "undeclared error" in line]
        assert not undeclared, f"add to the row in api/table.py: {undeclared[:3]}"
        return child.returncode


class Stage:
    """A devnet, an account with lanes, and the programs around one ledger; `more` is TOML that is put into [api]."""

    def __init__(
        self,
        ledger_url: str,
        prefix: str,
        devnet: Devnet,
        *,
        api_more: str = "",
        pool_more: str = "",
        lanes: int = 4,
        spare: bool = True,
    ) -> None:
        self.folder = make_folder("api")
        self.devnet = devnet
        self.prefix = prefix
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.account = next_relayer(devnet)
        self.account_id = str(self.account["account_id"])
        self.config = self.folder / "txmanager.toml"
        keys = [{"account_id": self.account_id, **key} for key in self.account["keys"][:lanes]]
        (self.folder / "keys.json").write_text(json.dumps(keys))
        pools = pool_more + (_SPARE.format(account=self.account_id) if spare else "")
        self.config.write_text(self._text(ledger_url, prefix, api_more, pools))
        self.api = Program("api", self.config)
        self.worker = Program("lanes", self.config)
        self.webhooks = Program("webhooks", self.config, {"HOOK_SECRET": "hook-secret"})
        self.client = httpx.Client(base_url=self.url, headers=bearer(), timeout=20)

    def _text(self, ledger_url: str, prefix: str, api_more: str, pool_more: str) -> str:
        tokens = "\n".join(_token_text(name, told) for name, told in TOKENS.items())
        return f"""
[ledger]
url = "{ledger_url}"
prefix = "{prefix}"

[networks.localnet]
chain = "near"
rpc = [{{ url = "{self.devnet.url}", direct = true }}]

[pools.main]
network = "localnet"
account = "{self.account_id}"
keys = ["file:{self.folder}/keys.json"]

{pool_more}

[worker]
lease_s = 3.0
grace_s = 2.0

[api]
port = {self.port}
{api_more}

{tokens}
"""

    def start_api(self) -> None:
        self.api.start()
        until_sync(lambda: self.api.said('"url"'), 60, what="the API listens")

    def start(self) -> Self:
        self.worker.start()
        self.start_api()
        until_sync(self.pool_ready, 30, what="the pool has a worker")
        return self

    def pool_ready(self) -> bool:
        return bool(self.client.get("/readyz").json()["checks"].get("pool:main", {}).get("ok"))

    def close(self) -> None:
        self.client.close()
        try:
            for program in (self.webhooks, self.worker, self.api):
                program.kill()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests

    def post(self, path: str, body: Any, *, key: str | None = None, by: str = "all", **more: Any) -> httpx.Response:
        headers = {**bearer(by), **({"Idempotency-Key": key} if key is not None else {}), **more.pop("headers", {})}
        return self.client.post(path, json=body, headers=headers, **more)

    def get(self, path: str, *, by: str = "all", **more: Any) -> httpx.Response:
        return self.client.get(path, headers=bearer(by), **more)

    def transfer(self, key: str, amount: Any = "1", *, wait: float = 0, by: str = "all", **more: Any) -> httpx.Response:
        body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": amount}}
        return self.post("/v1/intents" + (f"?wait={wait}" if wait else ""), {**body, **more}, key=key, by=by)


def _token_text(name: str, told: dict[str, Any]) -> str:
    lines = [f'[[api.tokens]]\nname = "{name}"', f'sha256 = "{hashlib.sha256(token(name).encode()).hexdigest()}"']
    lines.append(f"scopes = {json.dumps(told['scopes'])}")
    if "tenant" in told:
        lines.append(f'tenant = "{told["tenant"]}"')
    if "limits" in told:
        lines.append("[api.tokens.limits]")
        lines += [f"{field} = {json.dumps(value)}" for field, value in told["limits"].items()]
    return "\n".join(lines)
