"""Resident lanes under the real `workerd`: a front, and the signing script with its objects on a disk that stays."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.servers.workerd import BINARY, OWNER, PRODUCER, SOURCE, bundles, package
from tests.waiting import until_sync
from txmanager.ledger.durable import DurableObjectLedger

SEAL = "seal-secret-of-the-tests-0123456789abcd"
_DOOR = '(name = "door", http = (), service = "signer")'
_SECRETS = "".join(
    f'    (name = "{name}", fromEnvironment = "{name}"),\n'
    for name in ("AUDIENCE", "PRODUCER_SECRETS", "OWNER_SECRETS")
)
TOKENS: dict[str, dict[str, Any]] = {
    "all": {"scopes": ["submit", "read", "operate"]},
    "reader": {"scopes": ["read"]},
    "writer": {"scopes": ["submit"]},
    "other": {"scopes": ["submit", "read", "operate"], "tenant": "other"},
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
"""By name; the token itself is `token-{name}`, as in the Python stack's tests."""


class Resident:
    """`kill` and `start` again on the same disk, or a second one beside it (`twin`)."""

    def __init__(
        self,
        account_id: str,
        keys: Sequence[Mapping[str, str]],
        nodes: Sequence[str],
        *,
        disk: Path | None = None,
        bundle: Path | None = None,
        incarnation: str = "first",
        settings: Mapping[str, Any] | None = None,
        pool: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        pool_name: str = "main",
    ) -> None:
        self._own = disk is None
        self.disk = disk or make_folder("resident")
        self.port, self.door = free_port(), free_port()
        self.host = "127.0.0.1"
        self.account_id = account_id
        self.lanes = [f"near:localnet:{account_id}:{key['public_key']}" for key in keys]
        rpc = [{"url": url, "direct": True} for url in nodes]
        told = {
            "prefix": "txm",
            "alarm_ms": 1_000,
            "networks": {"localnet": {"rpc": rpc, "include_within_ms": 3_000, **(network or {})}},
            "pools": {
                pool_name: {
                    "network": "localnet",
                    "account": account_id,
                    "keys": [key["public_key"] for key in keys],
                    **(pool or {}),
                }
            },
            **(settings or {}),
        }
        digests = {name: hashlib.sha256(f"token-{name}".encode()).hexdigest() for name in TOKENS}
        self.environment = {
            "AUDIENCE": self.host,
            "INCARNATION": incarnation,
            "PRODUCER_SECRETS": PRODUCER,
            "OWNER_SECRETS": OWNER,
            "SEAL": SEAL,
            "SETTINGS": json.dumps(told),
            "KEYS": json.dumps({key["public_key"]: key["private_key"] for key in keys}),
            "TOKENS": json.dumps([{"name": name, "sha256": digests[name], **more} for name, more in TOKENS.items()]),
        }
        self._folder = make_folder("workerd")
        config = (SOURCE / "resident.capnp").read_text()
        config = config.replace('service = "front")]', f'service = "front"), {_DOOR}]')
        config = config.replace('    (name = "INCARNATION"', _SECRETS + '    (name = "INCARNATION"')
        (self._folder / "resident.capnp").write_text(config)
        (self._folder / "dist").mkdir()
        shutil.copy(bundle or bundles() / "signer-testing.js", self._folder / "dist" / "signer.js")
        shutil.copy(bundles() / "relay.js", self._folder / "dist" / "relay.js")
        self._log = self._folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def ledger(self) -> DurableObjectLedger:
        """What its objects hold, read by the Python stack."""
        return DurableObjectLedger(f"do+http://:{OWNER}@{self.host}:{self.door}", timeout_s=20.0)

    def client(self, token: str = "all", timeout: float = 60.0) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer token-{token}"}, timeout=timeout)

    def start(self) -> None:
        self.spawn()
        until_sync(self._listens, 30, what="workerd listening")

    def spawn(self) -> None:
        """Without waiting for it: it may be killed before it listens."""
        argv = [str(package() / BINARY), "serve", "resident.capnp"]
        argv += ["--socket-addr", f"http={self.host}:{self.port}", "--socket-addr", f"door={self.host}:{self.door}"]
        argv += ["--directory-path", f"disk={self.disk}"]
        self.process = spawn(argv, self._log, cwd=self._folder, env={**os.environ, **self.environment})

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        end(self.process, signal.SIGKILL)

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        self.kill()
        remove_folder(self._folder)
        if self._own:
            remove_folder(self.disk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
