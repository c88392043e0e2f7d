"""The `Signer` protocol: a public name and a signature over one digest, whatever holds the key (memory, KMS, HSM)."""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    @property
    def public_key(self) -> str:
        """How the chain names the key: `ed25519:...` on NEAR, the address on EVM."""
        ...

    def sign(self, digest: bytes) -> bytes:
        """Sign a 32-byte digest of a transaction that was built here."""
        ...
