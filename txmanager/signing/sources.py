"""Where a worker's NEAR keys come from: credentials JSON, the environment, or an encrypted file.

A source is one string of the configuration: `file:PATH` (NEAR credentials, one key or a list), `env:NAME` (the key
itself), `vault:PATH` (encrypted; the passphrase is in an environment variable, `TXMANAGER_PASSPHRASE` by default).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.signing import vault
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret

PASSPHRASE_VARIABLE = "TXMANAGER_PASSPHRASE"


def load_near_keys(
    source: str,
    account_id: str | None = None,
    environment: Mapping[str, str] | None = None,
    passphrase_variable: str = PASSPHRASE_VARIABLE,
) -> list[tuple[str, Ed25519Signer]]:
    """(account, signer) of every key of the source; with `account_id`, only those of that account."""
    environment = os.environ if environment is None else environment
    scheme, _, rest = source.partition(":")
    match scheme:
        case "file":
            found = read_credentials(Path(rest))
        case "env":
            if account_id is None:
                raise InvalidSettings("keys", f"{source!r} holds a key without its account; set `account`")
            if rest not in environment:
                raise InvalidSettings("keys", f"environment variable {rest!r} is not set")
            found = [(account_id, Ed25519Signer.parse(Secret(environment[rest]), f"env:{rest}"))]
        case "vault":
            if passphrase_variable not in environment:
                raise InvalidSettings("keys", f"{source!r} needs its passphrase in {passphrase_variable}")
            found = vault.load(Path(rest), Secret(environment[passphrase_variable]))
        case _:
            raise InvalidSettings("keys", "a key source starts with 'file:', 'env:' or 'vault:' (never the key itself)")
    mine = [(a, s) for a, s in found if account_id in (None, a)]
    if not mine:
        raise InvalidSettings("keys", f"{scheme}:{rest} holds no key of account {account_id!r}")
    return mine


def read_credentials(path: Path) -> list[tuple[str, Ed25519Signer]]:
    """near-cli's file: `{account_id, public_key, private_key}` (or `secret_key`); a list holds several."""
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidSettings("keys", f"cannot read {path}: {error.strerror}") from None
    except orjson.JSONDecodeError:
        raise InvalidSettings("keys", f"{path} is not JSON; expected NEAR credentials") from None
    entries = content if isinstance(content, list) else [content]
    return [_one(path, index, entry) for index, entry in enumerate(entries)]


def _one(path: Path, index: int, entry: Any) -> tuple[str, Ed25519Signer]:
    where = f"{path.name}[{index}]"
    if not isinstance(entry, dict):
        raise InvalidSettings("keys", f"{where} is not an object with account_id and private_key")
    account, private = entry.get("account_id"), entry.get("private_key") or entry.get("secret_key")
    if not isinstance(account, str) or not isinstance(private, str):
        raise InvalidSettings("keys", f"{where} must have the strings account_id and private_key")
    try:
        signer = Ed25519Signer.parse(Secret(private))
    except InvalidInput as error:
        raise InvalidSettings("keys", f"{where}.{error}") from None
    told = entry.get("public_key", signer.public_key)
    if told != signer.public_key:
        raise InvalidSettings(
            "keys", f"{where}: public_key is {told}, but the private key belongs to {signer.public_key}"
        )
    return account, signer
