"""The data folder of `txmanager up`: token, keys, configuration and logs, found again by the next start."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from txmanager.core.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class DataFolder:
    path: Path

    def prepare(self) -> None:
        try:
            for name in ("valkey", "devnet", "logs", "keys"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"cannot use the data folder {self.path}: {error.strerror}") from None

    def lock(self) -> IO[str]:
        """Two stacks on one folder would share one devnet and one ledger by accident."""
        handle = (self.path / "lock").open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Misconfigured(
                f"another `txmanager up` uses {self.path}; stop it, or choose another folder with --data"
            ) from None
        return handle

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    @property
    def config(self) -> Path:
        return self.path / "txmanager.toml"

    def token(self) -> str:
        """Made once: a script that was given it still works after a restart."""
        file = self.path / "token"
        if not file.exists():
            _write_private(file, f"txm_{secrets.token_urlsafe(24)}")
        return file.read_text().strip()

    def write_keys(self, account: str, keys: Sequence[Mapping[str, str]]) -> Path:
        file = self.path / "keys" / f"{account}.json"
        _write_private(file, json.dumps([{"account_id": account, **key} for key in keys]))
        return file

    def write_config(self, text: str) -> None:
        _write_private(self.config, text)


def _write_private(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)


def config_text(
    *, ledger_url: str, rpc_url: str, account: str, keys: Path, api_port: int, token: str, more: Mapping[str, Any]
) -> str:
    """The configuration of an embedded stack, in the words of the configuration file."""
    return f"""# Written by `txmanager up`; a change here is overwritten. Copy it, then start with --config.
[ledger]
url = {json.dumps(ledger_url)}
durability = {json.dumps(more.get("durability", "fsync"))}

[networks.localnet]
chain = "near"
rpc = [{{ url = {json.dumps(rpc_url)}, direct = true }}]

[pools.default]
network = "localnet"
account = {json.dumps(account)}
keys = [{json.dumps(f"file:{keys}")}]
window = 16

[worker]
lease_s = 5

[api]
host = "127.0.0.1"
port = {api_port}

[[api.tokens]]
name = "local"
sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"
scopes = ["submit", "read", "operate"]
"""
