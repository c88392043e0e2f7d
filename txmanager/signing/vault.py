"""A file of keys encrypted with a passphrase: Argon2id, then XSalsa20-Poly1305; wrong passphrase and damage both fail.

The file is JSON with public names in the clear, so that `keys list` needs no passphrase. It is written to a new file
and renamed, mode 0600: a crash leaves the old file or the new one, never half of either.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from nacl import pwhash, secret, utils
from nacl.exceptions import CryptoError

from txmanager.core.errors import InvalidSettings
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret

FORMAT = "txmanager-keys-1"
_MAX_MEMORY = 1 << 30
_MAX_OPS = 20


def public_names(path: Path) -> list[tuple[str, str]]:
    """(account, public key) of every key in the file, without opening it."""
    return [(k["account_id"], k["public_key"]) for k in _read(path)["keys"]]


def load(path: Path, passphrase: Secret) -> list[tuple[str, Ed25519Signer]]:
    content = _read(path)
    kdf = content["kdf"]
    key = _derive(passphrase, bytes.fromhex(kdf["salt"]), kdf["ops"], kdf["memory"])
    try:
        plain = orjson.loads(secret.SecretBox(key).decrypt(bytes.fromhex(content["box"])))
    except CryptoError:
        raise InvalidSettings("passphrase", f"does not open {path.name} (or the file is damaged)") from None
    return [(k["account_id"], Ed25519Signer.parse(Secret(k["private_key"]))) for k in plain]


def save(path: Path, passphrase: Secret, keys: list[tuple[str, Ed25519Signer]]) -> None:
    if len(passphrase) < 8:
        raise InvalidSettings("passphrase", "must have at least 8 characters")
    salt = utils.random(pwhash.argon2id.SALTBYTES)
    ops, memory = pwhash.argon2id.OPSLIMIT_MODERATE, pwhash.argon2id.MEMLIMIT_MODERATE
    plain = orjson.dumps([{"account_id": a, "private_key": s.export().reveal().decode()} for a, s in keys])
    box = secret.SecretBox(_derive(passphrase, salt, ops, memory)).encrypt(plain)
    content = {
        "format": FORMAT,
        "kdf": {"name": "argon2id", "salt": salt.hex(), "ops": ops, "memory": memory},
        "keys": [{"account_id": a, "public_key": s.public_key} for a, s in keys],
        "box": bytes(box).hex(),
    }
    _replace(path, orjson.dumps(content, option=orjson.OPT_INDENT_2))


def _derive(passphrase: Secret, salt: bytes, ops: int, memory: int) -> bytes:
    return pwhash.argon2id.kdf(secret.SecretBox.KEY_SIZE, passphrase.reveal(), salt, opslimit=ops, memlimit=memory)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidSettings("keys", f"cannot read {path}: {error.strerror}") from None
    except orjson.JSONDecodeError:
        raise InvalidSettings("keys", f"{path} is not a key file of txmanager (not JSON)") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidSettings("keys", f"{path} is not a key file of txmanager (format {FORMAT!r} expected)")
    kdf, names, box = content.get("kdf"), content.get("keys"), content.get("box")
    if not isinstance(kdf, dict) or not isinstance(names, list) or not isinstance(box, str):
        raise InvalidSettings("keys", f"{path} is damaged: its header is incomplete")
    # A file made by somebody else must not make us spend all memory on deriving a key.
    if not (0 < kdf.get("ops", 0) <= _MAX_OPS and 0 < kdf.get("memory", 0) <= _MAX_MEMORY):
        raise InvalidSettings("keys", f"{path} is damaged: its key derivation is out of range")
    return content


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:  # mkstemp made it 0600
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
