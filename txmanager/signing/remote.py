"""Keys that are elsewhere: what every provider (HSM, KMS, signer process) answers, and one key of it as a `Signer`.

A provider is asked for a key's public half at the start: its curve and its use are checked, and it equals what the
configuration pins. With a pinned key a worker starts while the provider is away, and only those lanes wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import base58

from txmanager.core.errors import InvalidSettings, SignerAway, SignerFault, SignerRefused
from txmanager.core.values import value
from txmanager.signing.ed25519 import PREFIX
from txmanager.signing.signer import Answer, SigningRequest
from txmanager.signing.sources import Asked, Curve, FoundKey, Load


@value(frozen=True, slots=True)
class PublicHalf:
    curve: Curve
    data: bytes
    """32 bytes of an ed25519 key, 65 (uncompressed) of a secp256k1 key."""

    @property
    def name(self) -> str:
        """How the chain names it."""
        if self.curve is Curve.ED25519:
            return PREFIX + base58.b58encode(self.data).decode()
        from txmanager.signing.evm import address_of

        return address_of(self.data)


class Described(Protocol):
    """A key as its provider tells it."""

    @property
    def curve(self) -> Curve: ...

    @property
    def name(self) -> str: ...


class Provider(Protocol):
    """One connection to where keys are, shared by all of its keys."""

    async def describe(self, key: str) -> Described:
        """Raises `SignerAway`, `SignerRefused`, or `InvalidSettings` for a key that cannot be used here."""
        ...

    async def sign_many(self, key: str, curve: Curve, requests: Sequence[SigningRequest]) -> list[Answer]:
        """One answer for each; no fault is raised."""
        ...

    async def close(self) -> None: ...


class RemoteKey:
    """One key of a provider."""

    instant = False

    def __init__(self, provider: Provider, key: str, curve: Curve, public_key: str) -> None:
        self._provider = provider
        self._key = key
        self._curve = curve
        self.public_key = public_key

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        return await self._provider.sign_many(self._key, self._curve, requests)

    async def close(self) -> None:
        await self._provider.close()

    def __repr__(self) -> str:
        return f"RemoteKey({self.public_key})"


def loads(name: str, make: Callable[[], Provider], curves: Sequence[Curve]) -> dict[Curve, Load]:
    """How the registry finds keys of the signer `name`: what follows `name:` is the provider's own name of the key."""
    provider = make()

    def load(key: str, asked: Asked) -> list[FoundKey]:
        where = f"signers.{name}"
        try:
            half = _apart(make, key)
        except SignerAway as fault:
            if asked.pinned is None:
                words = f"cannot be asked for key {key!r} ({fault}); pin its public_key to start without it"
                raise InvalidSettings(where, words) from None
            public_key = asked.pinned
        except SignerRefused as fault:
            raise InvalidSettings(where, f"refuses key {key!r}: {fault}") from None
        else:
            if half.curve is not asked.curve:
                raise InvalidSettings(where, f"key {key!r} is of {half.curve}, and this chain needs {asked.curve}")
            public_key = half.name
            if asked.pinned is not None and asked.pinned != public_key:
                raise InvalidSettings(where, f"key {key!r} is {public_key}, but {asked.pinned} is pinned")
        return [FoundKey(RemoteKey(provider, key, asked.curve, public_key), asked.account)]

    return dict.fromkeys(curves, load)


def _apart(make: Callable[[], Provider], key: str) -> Described:
    """Ask on a loop of its own, at the start of a program, whether or not one runs already."""

    async def ask() -> Described:
        provider = make()
        try:
            return await provider.describe(key)
        finally:
            await provider.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, ask()).result()


def all_failed(fault: SignerFault, requests: Sequence[SigningRequest]) -> list[Answer]:
    return [fault] * len(requests)
