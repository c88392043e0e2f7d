"""A secp256k1 key in memory: the fast path signs digests with libsecp256k1, the slow one lets eth-account do it all.

Signatures are deterministic (RFC 6979): the same transaction signed twice is the same bytes, whichever way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coincurve import PrivateKey
from Crypto.Hash import keccak as _keccak
from eth_account import Account

from txmanager.core.errors import InvalidInput
from txmanager.signing.secret import Secret

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def keccak256(data: bytes) -> bytes:
    return bytes(_keccak.new(digest_bits=256, data=data).digest())


class EvmSigner:
    __slots__ = ("_key", "public_key")

    def __init__(self, key: Secret) -> None:
        if len(key) != 32:
            raise InvalidInput("private_key", f"a secp256k1 key has 32 bytes, not {len(key)}")
        if not 0 < int.from_bytes(key.reveal(), "big") < _ORDER:
            raise InvalidInput("private_key", "is not a number of the curve (it is zero, or too large)")
        self._key = PrivateKey(key.reveal())
        uncompressed = self._key.public_key.format(compressed=False)
        self.public_key = "0x" + keccak256(uncompressed[1:])[12:].hex()

    @property
    def address(self) -> str:
        """0x and 40 lower-case digits, as lane ids have it."""
        return self.public_key

    def sign(self, digest: bytes) -> bytes:
        """r, s (low) and the recovery id: 65 bytes."""
        return bytes(self._key.sign_recoverable(digest, hasher=None))

    def sign_transaction(self, fields: Mapping[str, Any]) -> bytes:
        """The raw bytes of any type that eth-account knows; ten times slower than encoding type 2 directly."""
        return bytes(Account.sign_transaction(dict(fields), self._key.secret).raw_transaction)

    def __repr__(self) -> str:
        return f"EvmSigner({self.public_key})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a signer cannot be pickled or copied out of the process")

    @classmethod
    def parse(cls, text: Secret, field: str = "private_key") -> EvmSigner:
        """64 hex digits, with or without 0x."""
        try:
            plain = text.reveal().decode("ascii").strip().lower().removeprefix("0x")
            raw = bytes.fromhex(plain) if len(plain) == 64 else b""
        except ValueError:
            raw = b""
        if len(raw) != 32:
            # Nothing of the text is quoted, nothing is chained: it may be part of a secret.
            raise InvalidInput(field, "must be 64 hex digits, with or without 0x") from None
        return cls(Secret(raw))
