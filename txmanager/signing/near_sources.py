"""NEAR keys in memory: credentials JSON, the environment, or an encrypted file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.signing import vault
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret
from txmanager.signing.sources import Asked, FoundKey


def from_file(rest: str, asked: Asked) -> list[FoundKey]:
    return _of(asked, f"file:{rest}", read_credentials(Path(rest)))


def from_environment(rest: str, asked: Asked) -> list[FoundKey]:
    if asked.account is None:
        raise InvalidSettings("keys", f"'env:{rest}' holds a key without its account; set `account`")
    return [FoundKey(Ed25519Signer.parse(Secret(asked.variable(rest)), f"env:{rest}"), asked.account)]


def from_vault(rest: str, asked: Asked) -> list[FoundKey]:
    if asked.passphrase_variable not in asked.environment:
        raise InvalidSettings("keys", f"'vault:{rest}' needs its passphrase in {asked.passphrase_variable}")
    return _of(asked, f"vault:{rest}", vault.load(Path(rest), Secret(asked.environment[asked.passphrase_variable])))


def _of(asked: Asked, source: str, found: list[tuple[str, Ed25519Signer]]) -> list[FoundKey]:
    mine = [FoundKey(signer, account) for account, signer in found if asked.account in (None, account)]
    if not mine:
        raise InvalidSettings("keys", f"{source} holds no key of account {asked.account!r}")
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
    public_key = entry.get("public_key", signer.public_key)
    if public_key != signer.public_key:
        raise InvalidSettings(
            "keys", f"{where}: public_key is {public_key}, but the private key belongs to {signer.public_key}"
        )
    return account, signer
