"""Where a worker's EVM keys come from: a private key, a keystore file (v3), or a mnemonic that gives N lanes.

A source is one string of the configuration: `env:NAME` (64 hex digits), `file:PATH` (a keystore JSON, or a list of
them; the password is in `TXMANAGER_PASSPHRASE`), `mnemonic:NAME:COUNT` (the phrase is in the environment variable NAME;
the first COUNT addresses of m/44'/60'/0'/0/i, or `:FIRST-LAST`).
"""

from __future__ import annotations

import os
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
from txmanager.signing.sources import PASSPHRASE_VARIABLE

MAX_DERIVED = 1_000
_MNEMONIC = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?\Z")


def load_evm_keys(
    source: str,
    environment: Mapping[str, str] | None = None,
    passphrase_variable: str = PASSPHRASE_VARIABLE,
) -> list[EvmSigner]:
    """Every key of the source, in its order."""
    environment = os.environ if environment is None else environment
    scheme, _, rest = source.partition(":")
    match scheme:
        case "env":
            return [_parse(Secret(_variable(environment, rest)), f"env:{rest}")]
        case "file":
            return read_keystores(Path(rest), environment, passphrase_variable)
        case "mnemonic":
            told = _MNEMONIC.match(rest)
            if told is None:
                raise InvalidSettings("keys", "a mnemonic source looks like mnemonic:NAME:4 or mnemonic:NAME:2-5")
            first, last = (
                (0, int(told["first"]) - 1) if told["last"] is None else (int(told["first"]), int(told["last"]))
            )
            return derive(Secret(_variable(environment, told["name"])), first, last)
        case _:
            raise InvalidSettings(
                "keys", "an EVM key source starts with 'env:', 'file:' or 'mnemonic:' (never the key itself)"
            )


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
    told = str(fields.get("address", signer.address)).lower().removeprefix("0x")
    if told != signer.address.removeprefix("0x"):
        raise InvalidSettings("keys", f"{where}: address is 0x{told}, but the key belongs to {signer.address}")
    return signer


def _variable(environment: Mapping[str, str], name: str) -> str:
    if not name or name not in environment:
        raise InvalidSettings("keys", f"environment variable {name!r} is not set")
    return environment[name]


def _parse(text: Secret, where: str) -> EvmSigner:
    try:
        return EvmSigner.parse(text, where)
    except InvalidInput as error:
        raise InvalidSettings("keys", str(error)) from None
