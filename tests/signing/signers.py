"""Signers that behave as remote ones do: slow, failing in the middle, answering other bytes each time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence

from coincurve import PrivateKey
from nacl import bindings

from txmanager.signing.signer import Answer, InstantSigner, SigningRequest

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def high_s(signature: bytes) -> bytes:
    """The same signature as half of all HSMs would say it: s above n/2, no recovery id."""
    s = int.from_bytes(signature[32:64], "big")
    return signature[:32] + (ORDER - s).to_bytes(32, "big")


class RemoteSigner:
    """A key elsewhere. `spoil` changes what it answers: (number of the request, right signature) -> answer."""

    instant = False

    def __init__(self, key: InstantSigner, delay_s: float = 0.0) -> None:
        self._key = key
        self.public_key = key.public_key
        self.delay_s = delay_s
        self.asked: list[SigningRequest] = []
        self.spoil: Callable[[int, bytes], Answer] = lambda _, signature: signature
        self.answered = 0
        self.closed = False

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        first = len(self.asked)
        self.asked += requests
        await asyncio.sleep(self.delay_s)
        self.answered += len(requests)
        return [self.spoil(n, self._key.sign(r.digest)) for n, r in enumerate(requests, first)]

    async def close(self) -> None:
        self.closed = True


def other_secp256k1_signature(key: PrivateKey, digest: bytes) -> bytes:
    """A valid signature with fresh randomness, so that no two are the same bytes."""
    return bytes(key.sign_recoverable(digest, hasher=None, custom_nonce=_randomness(secrets.token_bytes(32))))


def _randomness(data: bytes) -> tuple[object, object]:
    from coincurve._libsecp256k1 import ffi, lib

    return lib.secp256k1_nonce_function_default, ffi.new("char [32]", data)


def other_ed25519_signature(seed: bytes, digest: bytes) -> bytes:
    """Valid, with a random r in place of the derived one (RFC 8032 allows verifiers no difference)."""
    from hashlib import sha512

    public, _ = bindings.crypto_sign_seed_keypair(seed)
    scalar = bytearray(sha512(seed).digest()[:32])
    scalar[0] &= 248
    scalar[31] = scalar[31] & 127 | 64
    r = bindings.crypto_core_ed25519_scalar_reduce(secrets.token_bytes(64))
    point = bindings.crypto_scalarmult_ed25519_base_noclamp(r)
    k = bindings.crypto_core_ed25519_scalar_reduce(sha512(point + public + digest).digest())
    a = bindings.crypto_core_ed25519_scalar_reduce(bytes(scalar) + bytes(32))
    s = bindings.crypto_core_ed25519_scalar_add(r, bindings.crypto_core_ed25519_scalar_mul(k, a))
    return point + s
