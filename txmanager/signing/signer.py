"""The `Signer` protocol: one key, whatever holds it (memory, an HSM, a KMS, another process).

A signer gets the unsigned bytes and their digest, so that it can read what it signs. It may be slow, away, refuse, or
answer other bytes for the same request. `instant` marks a key in this process's memory: it has `sign` besides, which
answers at once and is right by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from txmanager.core.errors import SignerFault


class SigningRequest(NamedTuple):
    unsigned: bytes
    """The whole transaction without its signature."""
    digest: bytes
    """The 32 bytes that the chain checks the signature against."""
    urgent: bool = False
    """A no-op or a replacement: others may wait for what it unblocks."""


Answer = bytes | SignerFault
"""A signature, or why there is none. Another item's failure does not touch it."""


class Signer(Protocol):
    @property
    def public_key(self) -> str:
        """How the chain names the key: `ed25519:...` on NEAR, the address on EVM."""
        ...

    @property
    def instant(self) -> bool: ...

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        """One answer for each request, in their order. It never raises a `SignerFault` itself."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class InstantSigner(Signer, Protocol):
    def sign(self, digest: bytes) -> bytes: ...


class KeyInMemory:
    """What instant signers have in common."""

    __slots__ = ()
    instant = True

    def sign(self, digest: bytes) -> bytes:
        raise NotImplementedError

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        return [self.sign(request.digest) for request in requests]

    async def close(self) -> None:
        pass


def instant(signer: Signer) -> InstantSigner | None:
    """The signer as one that answers at once; None where it does not."""
    if not signer.instant:
        return None
    assert isinstance(signer, InstantSigner)
    return signer
