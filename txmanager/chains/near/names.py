"""NEAR's names: account ids, public keys, hashes, lane ids. Whatever passes here is safe to put into a transaction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha3_256

import base58

from txmanager.core.errors import InvalidInput
from txmanager.core.values import value

_ACCOUNT = re.compile(r"(?:(?:[a-z\d]+[-_])*[a-z\d]+\.)*(?:[a-z\d]+[-_])*[a-z\d]+\Z")
_IMPLICIT = re.compile(r"[0-9a-f]{64}\Z")
_DIGITS = base58.BITCOIN_ALPHABET.decode()
_PAIRS = [a + b for a in _DIGITS for b in _DIGITS]
_58_4, _58_10 = 58**4, 58**10
ML_DSA_65 = 2
CURVES = {"ed25519": (0, 32), "secp256k1": (1, 64), "ml-dsa-65": (ML_DSA_65, 1_952)}
KEY_TYPES = "0 is ed25519, 1 is secp256k1, 2 is ml-dsa-65"
_HASH = "ml-dsa-65-hash"
_HASH_DOMAIN = b"near:ml-dsa-65-pubkey-hash:v1"
_CURVE_NAMES = {number: name for name, (number, _) in CURVES.items()}
PUBLIC_KEY_SIZES = dict(CURVES.values())
SIGNATURE_SIZES = {0: 64, 1: 65, ML_DSA_65: 3_309}


def check_account(field: str, account_id: object) -> str:
    if not isinstance(account_id, str) or not 2 <= len(account_id) <= 64 or not _ACCOUNT.match(account_id):
        raise InvalidInput(
            field,
            f"{str(account_id)[:80]!r} is not an account id: 2 to 64 of a-z 0-9, parts joined by . - or _ (alice.near)",
        )
    return account_id


def is_implicit(account_id: str) -> bool:
    return bool(_IMPLICIT.match(account_id))


def parent(account_id: str) -> str | None:
    """`relayer.near` of `alice.relayer.near`; None of a top-level account."""
    _, dot, rest = account_id.partition(".")
    return rest if dot else None


@dataclass(frozen=True, slots=True)
class PublicKey:
    curve: int
    data: bytes

    @classmethod
    def parse(cls, text: object, field: str = "public_key") -> PublicKey:
        if not isinstance(text, str):
            raise InvalidInput(field, "must be a string like ed25519:6E8s...")
        return _parse_key(text, field)

    @property
    def borsh(self) -> bytes:
        return bytes((self.curve,)) + self.data

    @property
    def handle(self) -> str:
        """How the chain lists it: the key itself, or the hash of one that is too long to be kept."""
        if self.curve != ML_DSA_65:
            return str(self)
        return f"{_HASH}:{b58_text(sha3_256(_HASH_DOMAIN + self.data).digest())}"

    def __str__(self) -> str:
        return _key_text(self.curve, self.data)


@lru_cache(maxsize=4096)
def _parse_key(text: str, field: str) -> PublicKey:
    name, colon, rest = text.partition(":")
    if not colon:
        name, rest = "ed25519", text  # nearcore reads a bare key as ed25519
    if name == _HASH:
        raise InvalidInput(field, "is the hash of a key, as lists show it; give the key itself (ml-dsa-65:...)")
    if name not in CURVES:
        raise InvalidInput(field, f"curve {name[:20]!r} is not supported; use {', '.join(CURVES)}")
    number, size = CURVES[name]
    return PublicKey(number, b58(field, rest, size))


@lru_cache(maxsize=4096)
def _key_text(curve: int, data: bytes) -> str:
    """Every look at a lane's nonce names its key."""
    return f"{_CURVE_NAMES[curve]}:{b58_text(data)}"


def b58(field: str, text: object, size: int) -> bytes:
    if not isinstance(text, str) or len(text) > 2 * size:
        raise InvalidInput(field, f"must be base58 of {size} bytes")
    try:
        raw = base58.b58decode(text)
    except ValueError:
        raise InvalidInput(field, "is not base58") from None
    if len(raw) != size:
        raise InvalidInput(field, f"must be base58 of {size} bytes, this one has {len(raw)}")
    return raw


def b58_text(raw: bytes) -> str:
    """Ten digits of each division of the long number, then two of each short one: this runs once per attempt."""
    number = int.from_bytes(raw, "big")
    text = ""
    while number:
        number, ten = divmod(number, _58_10)
        high, low = ten // _58_4, ten % _58_4
        text = (
            f"{_PAIRS[high // _58_4]}{_PAIRS[high // 3364 % 3364]}{_PAIRS[high % 3364]}"
            f"{_PAIRS[low // 3364]}{_PAIRS[low % 3364]}{text}"
        )
    zeros = len(raw) - len(raw.lstrip(b"\0"))
    return "1" * zeros + text.lstrip("1")


@value(frozen=True, slots=True)
class LaneId:
    """`near:{network}:{account}:{public_key}[:{nonce_index}]`: one nonce sequence."""

    network: str
    account_id: str
    public_key: PublicKey
    nonce_index: int | None = None

    @classmethod
    def parse(cls, text: str) -> LaneId:
        parts = text.split(":")
        if len(parts) not in (5, 6) or parts[0] != "near" or not parts[1]:
            raise InvalidInput("lane", "a NEAR lane is near:{network}:{account}:{public_key}[:{nonce_index}]")
        index = None
        if len(parts) == 6:
            if not parts[5].isascii() or not parts[5].isdigit() or int(parts[5]) > 1023:
                raise InvalidInput("lane", "the nonce index of a gas key is 0 to 1023")
            index = int(parts[5])
        key = PublicKey.parse(f"{parts[3]}:{parts[4]}", "lane")
        return cls(parts[1], check_account("lane", parts[2]), key, index)

    def __str__(self) -> str:
        index = "" if self.nonce_index is None else f":{self.nonce_index}"
        return f"near:{self.network}:{self.account_id}:{self.public_key}{index}"
