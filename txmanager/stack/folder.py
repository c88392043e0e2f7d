"""The data folder of `txmanager up`: token, keys, configuration and logs, found again by the next start.

Only its owner can read it. Two locks keep it to one stack: `lock` is the supervisor's; `parts.lock` is inherited by
every child, so that a new stack waits until the last child of a killed one has closed its files.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from txmanager.core.errors import Misconfigured

_PARTS_END_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class DataFolder:
    path: Path

    def prepare(self) -> None:
        try:
            for name in ("valkey", "devnet", "logs", "keys"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
        except OSError as error:
            raise Misconfigured(
                f"cannot use the data folder {self.path}: {error.strerror}; choose another with --data"
            ) from None

    def lock(self) -> IO[str]:
        """Two stacks on one folder would share one devnet and one ledger by accident."""
        handle = (self.path / "lock").open("a")
        if not _locked(handle):
            raise Misconfigured(
                f"another `txmanager up` uses {self.path}; stop it, or choose another folder with --data"
            )
        return handle

    async def lock_parts(self) -> IO[str]:
        """Free as soon as every child of the stack before us is gone."""
        handle = (self.path / "parts.lock").open("a")
        loop = asyncio.get_running_loop()
        until = loop.time() + _PARTS_END_WITHIN_S
        while not _locked(handle):
            if loop.time() > until:
                raise Misconfigured(
                    f"processes of an earlier `txmanager up` still use {self.path}; end them, then start again"
                )
            await asyncio.sleep(0.1)
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
            write_private(file, f"txm_{secrets.token_urlsafe(24)}")
        return file.read_text().strip()

    @property
    def ledger_password_file(self) -> Path:
        return self.path / "keys" / "ledger-password"

    def ledger_password(self) -> str:
        """Of our own Valkey, made once: whoever can write to the ledger can spend."""
        if not self.ledger_password_file.exists():
            write_private(self.ledger_password_file, secrets.token_urlsafe(32))
        return self.ledger_password_file.read_text().strip()

    def valkey_config(self) -> Path:
        """Where the server reads its password from."""
        file = self.path / "keys" / "valkey.conf"
        write_private(file, f"requirepass {self.ledger_password()}\n")
        return file

    def write_keys(self, account: str, keys: Sequence[Mapping[str, str]]) -> str:
        """Keep an account's keys; answers the source that names them in a configuration."""
        file = self.path / "keys" / f"{account}.json"
        write_private(file, json.dumps([{"account_id": account, **key} for key in keys]))
        return f"file:{file}"

    def refer(self, name: str, secret: str) -> str:
        """Keep a URL that may hold a password; answers the TOML that refers to it."""
        file = self.path / "keys" / name
        write_private(file, secret)
        return f"{{ file = {json.dumps(str(file))} }}"


def write_private(file: Path, text: str) -> None:
    """Whole or not at all: a start that is killed here leaves the file of the start before."""
    beside = file.with_name(f".{file.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
    beside.replace(file)


def _locked(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def config_text(
    *,
    ledger: str,
    network: str,
    rpc_url: str,
    account: str,
    keys: str,
    api_port: int,
    token: str,
    lease_s: float,
    archive: Path,
) -> str:
    """The configuration of an embedded stack, in the words of the file. The ledger's place and URLs come as TOML."""
    return f"""# Written by `txmanager up`; a change here is overwritten. Copy it, then start with --config.
[ledger]
{ledger}
durability = "fsync"

[networks.{network}]
chain = "near"
rpc = [{{ url = {rpc_url}, direct = true }}]

[pools.default]
network = {json.dumps(network)}
account = {json.dumps(account)}
keys = [{json.dumps(keys)}]
window = 16

[worker]
lease_s = {lease_s:g}
grace_s = 10

[api]
host = "127.0.0.1"
port = {api_port}

[[api.tokens]]
name = "local"
sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"
scopes = ["submit", "read", "operate"]

[archive]
url = {json.dumps(f"sqlite:///{archive}")}
"""
