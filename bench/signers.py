"""Keys that are elsewhere, for `bench.ours --signer`: one that takes its time over every signature, as a KMS does, and
one that a real `txmanager signer` holds (`bench.processes` starts it)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.process import ProcessOptions, ProcessProvider
from txmanager.signing.remote import RemoteKey
from txmanager.signing.signer import Answer, Signer, SigningRequest
from txmanager.signing.sources import Curve


class SlowKey:
    """Every signature takes as long; all of a batch are made at the same time."""

    instant = False
    batches = 0
    """How often any of them was asked."""

    def __init__(self, key: Ed25519Signer, seconds: float) -> None:
        self._key, self._seconds = key, seconds
        self.public_key = key.public_key

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        SlowKey.batches += 1

        async def one(request: SigningRequest) -> Answer:
            await asyncio.sleep(self._seconds)
            return self._key.sign(request.digest)

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def close(self) -> None:
        pass


def elsewhere(key: Ed25519Signer, how: str) -> Signer:
    """`memory`, `30ms`, or `unix:PATH` of a signer."""
    if how.startswith("unix:"):
        provider = ProcessProvider(ProcessOptions("box", how.removeprefix("unix:")))
        return RemoteKey(provider, "lane", Curve.ED25519, key.public_key)
    return key if how == "memory" else SlowKey(key, float(how.removesuffix("ms")) / 1000)
