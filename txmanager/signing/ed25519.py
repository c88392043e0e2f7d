"""An ed25519 key in memory, signing with libsodium.

The signature is deterministic: the same transaction signed twice is the same bytes.
"""

from __future__ import annotations

import base58
from nacl import bindings
from nacl.exceptions import BadSignatureError
from nacl.utils import random as random_bytes

from txmanager.core.errors import InvalidInput
from txmanager.signing.secret import Secret
from txmanager.signing.signer import KeyInMemory

PREFIX = "ed25519:"
_sign = bindings.crypto_sign


def check_ed25519(public_bytes: bytes, digest: bytes, signature: bytes) -> bytes | None:
    """The signature if it is one of this key over this digest, else None."""
    if len(signature) != 64:
        return None
    try:
        bindings.crypto_sign_open(signature + digest, public_bytes)
    except BadSignatureError:
        return None
    return signature


class Ed25519Signer(KeyInMemory):
    __slots__ = ("_key", "public_bytes", "public_key")

    def __init__(self, seed: Secret) -> None:
        if len(seed) != 32:
            raise InvalidInput("private_key", f"an ed25519 seed has 32 bytes, not {len(seed)}")
        self.public_bytes, self._key = bindings.crypto_sign_seed_keypair(seed.reveal())
        self.public_key = PREFIX + base58.b58encode(self.public_bytes).decode()

    def sign(self, digest: bytes) -> bytes:
        return _sign(digest, self._key)[:64]

    def export(self) -> Secret:
        """The key in NEAR's own text form, for a file that is about to be encrypted."""
        return Secret(PREFIX + base58.b58encode(self._key).decode())

    def __repr__(self) -> str:
        return f"Ed25519Signer({self.public_key})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a signer cannot be pickled or copied out of the process")

    @classmethod
    def parse(cls, text: Secret, field: str = "private_key") -> Ed25519Signer:
        """`ed25519:` and base58 of 64 bytes (seed and public key) or of the 32-byte seed alone."""
        try:
            plain = text.reveal().decode("ascii").strip()
        except UnicodeDecodeError:
            plain = ""
        if not plain.startswith(PREFIX):
            raise InvalidInput(field, "must start with 'ed25519:' (other curves cannot sign here)")
        try:
            raw = base58.b58decode(plain.removeprefix(PREFIX))
        except ValueError:
            # The library's message quotes the offending character: part of a secret. Chain nothing.
            raise InvalidInput(field, "is not base58 after 'ed25519:'") from None
        if len(raw) not in (32, 64):
            raise InvalidInput(field, f"must hold 32 or 64 bytes, this one holds {len(raw)}")
        signer = cls(Secret(raw[:32]))
        if len(raw) == 64 and raw[32:] != signer.public_bytes:
            raise InvalidInput(field, "is damaged: its two halves do not belong together; copy it again")
        return signer

    @classmethod
    def generate(cls) -> Ed25519Signer:
        return cls(Secret(random_bytes(32)))
