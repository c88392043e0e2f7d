"""A secp256k1 key in memory, signing with libsecp256k1, and the check of signatures that others made.

Its own signatures are deterministic (RFC 6979): the same transaction signed twice is the same bytes.
"""

from __future__ import annotations

from coincurve import PrivateKey, PublicKey
from Crypto.Hash import keccak as _keccak

from txmanager.core.errors import InvalidInput
from txmanager.signing.secret import Secret
from txmanager.signing.signer import KeyInMemory

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def keccak256(data: bytes) -> bytes:
    return bytes(_keccak.new(digest_bits=256, data=data).digest())


def address_of(uncompressed: bytes) -> str:
    """0x and 40 lower-case digits of a public key of 65 bytes."""
    return "0x" + keccak256(uncompressed[1:])[12:].hex()


def check_secp256k1(address: str, digest: bytes, signature: bytes) -> bytes | None:
    """r, low s and the recovery id, if the signature (r, s, perhaps a recovery id) is one of this address, else None.

    HSMs and KMSs know no recovery id and give a high s half of the time: n - s is the same signature.
    """
    if len(signature) not in (64, 65):
        return None
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
    if not (0 < r < _ORDER and 0 < s < _ORDER):
        return None
    low = signature[:32] + min(s, _ORDER - s).to_bytes(32, "big")
    for recovery in range(2):
        full = low + bytes((recovery,))
        try:
            found = PublicKey.from_signature_and_message(full, digest, hasher=None)
        except ValueError:
            continue
        if address_of(found.format(compressed=False)) == address:
            return full
    return None


class EvmSigner(KeyInMemory):
    __slots__ = ("_key", "public_key")

    def __init__(self, key: Secret) -> None:
        if len(key) != 32:
            raise InvalidInput("private_key", f"a secp256k1 key has 32 bytes, not {len(key)}")
        if not 0 < int.from_bytes(key.reveal(), "big") < _ORDER:
            raise InvalidInput("private_key", "is not a number of the curve (it is zero, or too large)")
        self._key = PrivateKey(key.reveal())
        self.public_key = address_of(self._key.public_key.format(compressed=False))

    @property
    def address(self) -> str:
        """0x and 40 lower-case digits, as lane ids have it."""
        return self.public_key

    def sign(self, digest: bytes) -> bytes:
        """r, s (low) and the recovery id: 65 bytes."""
        return bytes(self._key.sign_recoverable(digest, hasher=None))

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
