"""EVM keys in memory: a private key (64 hex digits), keystore files (v3), or a mnemonic that gives N lanes: the first
COUNT addresses of m/44'/60'/0'/0/i, or FIRST-LAST.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from eth_account import Account
from eth_account.hdaccount import key_from_seed, seed_from_mnemonic

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret
from txmanager.signing.sources import Asked, FoundKey

MAX_DERIVED = 1_000
_MNEMONIC = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?\Z")


def from_environment(rest: str, asked: Asked) -> list[FoundKey]:
    return [FoundKey(_parse(Secret(asked.variable(rest)), f"env:{rest}"))]


def from_file(rest: str, asked: Asked) -> list[FoundKey]:
    return [FoundKey(s) for s in read_keystores(Path(rest), asked.environment, asked.passphrase_variable)]


def from_mnemonic(rest: str, asked: Asked) -> list[FoundKey]:
    parts = _MNEMONIC.match(rest)
    if parts is None:
        raise InvalidSettings("keys", "a mnemonic source looks like mnemonic:NAME:4 or mnemonic:NAME:2-5")
    first, last = (0, int(parts["first"]) - 1) if parts["last"] is None else (int(parts["first"]), int(parts["last"]))
    return [FoundKey(signer) for signer in derive(Secret(asked.variable(parts["name"])), first, last)]


def derive(phrase: Secret, first: int, last: int) -> list[EvmSigner]:
    """The addresses first to last (inclusive) of the usual path; the slow part is done once for all."""
    if not 0 <= first <= last or last - first >= MAX_DERIVED:
        raise InvalidSettings("keys", f"a mnemonic gives 1 to {MAX_DERIVED} addresses, first one first")
    try:
        seed = seed_from_mnemonic(phrase.reveal().decode().strip(), "")
    except Exception:  # eth-account's own message quotes the phrase: show and chain nothing of it
        raise InvalidSettings("keys", "the mnemonic is not a valid BIP-39 phrase") from None
    return [EvmSigner(Secret(key_from_seed(seed, f"m/44'/60'/0'/0/{index}"))) for index in range(first, last + 1)]


def read_keystores(path: Path, environment: Mapping[str, str], passphrase_variable: str) -> list[EvmSigner]:
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidSettings("keys", f"cannot read {path}: {error.strerror}") from None
    except orjson.JSONDecodeError:
        raise InvalidSettings("keys", f"{path} is not JSON; expected a keystore (version 3)") from None
    entries = content if isinstance(content, list) else [content]
    if passphrase_variable not in environment:
        raise InvalidSettings("keys", f"'file:{path}' needs its password in {passphrase_variable}")
    password = Secret(environment[passphrase_variable])
    return [_open(f"{path.name}[{index}]", entry, password) for index, entry in enumerate(entries)]


def _open(where: str, entry: Any, password: Secret) -> EvmSigner:
    fields = {str(name).lower(): value for name, value in entry.items()} if isinstance(entry, dict) else {}
    if fields.get("version") != 3 or not isinstance(fields.get("crypto"), dict):
        raise InvalidSettings("keys", f"{where} is not a keystore of version 3 (it needs `version` and `crypto`)")
    try:
        key = Secret(bytes(Account.decrypt(entry, password.reveal().decode())))
    except Exception:
        raise InvalidSettings("passphrase", f"does not open {where} (or the file is damaged)") from None
    signer = EvmSigner(key)
    address = str(fields.get("address", signer.address)).lower().removeprefix("0x")
    if address != signer.address.removeprefix("0x"):
        raise InvalidSettings("keys", f"{where}: address is 0x{address}, but the key belongs to {signer.address}")
    return signer


def _parse(text: Secret, where: str) -> EvmSigner:
    try:
        return EvmSigner.parse(text, where)
    except InvalidInput as error:
        raise InvalidSettings("keys", str(error)) from None
