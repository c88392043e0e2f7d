"""Transactions that the caller's own code makes once the nonce is known: `TxManager.execute_built`.

The callback runs in the process that owns the lane, between the take and the write-ahead, and answers an ordinary
payload: it is checked, signed, written ahead and sent like any other. A callback may be asked more than once, each
time for another nonce, and must have no effect of its own. Where nobody answers within the build time (the process
died, the callback failed), nothing is signed and nothing spent: the intent fails `not_built`, alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from txmanager.core.chain import Chain, Impossible, NonceView, Prepared, Proof, Readings, SendReply, Sighting, Unpriced
from txmanager.core.errors import NotSigned, TxManagerError
from txmanager.core.funds import Cost
from txmanager.core.models import Attempt, Intent, IntentId, Json, Purpose, failure

KIND = "built"
BUILD_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Slot:
    """What the transaction will be signed with."""

    lane: str
    nonce: int
    block_hash: str | None
    """A recent final block, where the chain's transactions name one."""


@dataclass(frozen=True, slots=True)
class Built:
    """The transaction, in the words of an ordinary intent: `near.transaction`, `near.function_call`, `evm.call`, ..."""

    kind: str
    payload: Mapping[str, Json]


Build = Callable[[Slot], Awaitable[Built]]


class NotBuilt(NotSigned):
    """No transaction came out of the callback; nothing was signed for this intent."""

    code = "not_built"

    def __init__(self, id: IntentId, why: str) -> None:
        super().__init__(id, failure(self.code, f"{why}; nothing was signed and nothing spent", new_key_helps=True))


class Builders:
    """The callbacks of this process, by intent."""

    def __init__(self) -> None:
        self._builds: dict[IntentId, Build] = {}
        self._added = asyncio.Event()

    def add(self, id: IntentId, build: Build) -> None:
        self._builds[id] = build
        self._added.set()

    def remove(self, id: IntentId) -> None:
        self._builds.pop(id, None)

    async def find(self, id: IntentId, timeout_s: float) -> Build | None:
        """The callback, waited for: after a restart its caller has to come back with the same key first."""
        try:
            async with asyncio.timeout(timeout_s):
                while id not in self._builds:
                    self._added.clear()
                    await self._added.wait()
        except TimeoutError:
            pass
        return self._builds.get(id)


class BuildingChain:
    """Any chain, and built intents besides."""

    def __init__(self, chain: Chain, builders: Builders) -> None:
        self._chain = chain
        self._builders = builders
        self.traits = chain.traits

    def serves(self, intent: Intent) -> bool:
        return intent.kind == KIND or self._chain.serves(intent)

    async def prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | Impossible | Unpriced]:
        plain = [i for i in intents if i.kind != KIND]
        others = iter(await self._chain.prepare(lane, plain) if plain else [])
        return [await self._find(i) if i.kind == KIND else next(others) for i in intents]

    async def _find(self, intent: Intent) -> Prepared | Impossible:
        build = await self._builders.find(intent.id, _within_s(intent))
        if build is None:
            return Impossible(NotBuilt(intent.id, "the process that would have built it is gone").error)
        return Prepared(intent, build)

    async def sign(
        self, lane: str, prepared: Sequence[Prepared], first_nonce: int, purpose: Purpose, now: int
    ) -> list[Attempt]:
        if all(p.intent.kind != KIND for p in prepared):
            return await self._chain.sign(lane, prepared, first_nonce, purpose, now)
        ready = [await self._build(lane, p, nonce) for nonce, p in enumerate(prepared, first_nonce)]
        return await self._chain.sign(lane, ready, first_nonce, purpose, now)

    async def _build(self, lane: str, prepared: Prepared, nonce: int) -> Prepared:
        intent = prepared.intent
        if intent.kind != KIND:
            return prepared
        build = prepared.body
        assert callable(build)
        read = getattr(self._chain, "recent_block", None)
        slot = Slot(lane, nonce, await read() if read is not None else None)
        try:
            async with asyncio.timeout(_within_s(intent)):
                built = await build(slot)
        except TimeoutError:
            raise NotBuilt(intent.id, "the callback did not answer in time") from None
        except TxManagerError as error:
            raise NotBuilt(intent.id, f"the callback failed: {error}") from error
        except Exception as error:
            raise NotBuilt(intent.id, f"the callback failed ({type(error).__name__})") from error
        if not isinstance(built, Built):
            raise NotBuilt(intent.id, "the callback must answer a Built(kind, payload)")
        if not self._chain.serves(replace(intent, kind=built.kind)):
            raise NotBuilt(intent.id, f"the callback answered the kind {built.kind!r}, which this lane does not serve")
        [checked] = await self._chain.prepare(lane, [replace(intent, kind=built.kind, payload=built.payload)])
        if isinstance(checked, Impossible):
            raise NotBuilt(intent.id, f"what the callback built is not valid: {checked.error['message']}")
        if isinstance(checked, Unpriced):
            raise NotBuilt(intent.id, f"the lane cannot pay for what the callback built: {checked.message}")
        return checked

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await self._chain.look_up(lane, attempts)

    # as they are

    def cost(self, attempt: Attempt) -> Cost:
        return self._chain.cost(attempt)

    async def nonce(self, lane: str) -> NonceView:
        return await self._chain.nonce(lane)

    async def readings(self, lane: str, first: NonceView) -> Readings:
        return await self._chain.readings(lane, first)

    def instant(self, lane: str) -> bool:
        return self._chain.instant(lane)

    async def trial(self, lane: str) -> None:
        await self._chain.trial(lane)

    async def replace(self, lane: str, prepared: Prepared, previous: Sequence[Attempt], now: int) -> Attempt | None:
        return await self._chain.replace(lane, prepared, previous, now)

    async def noop(self, lane: str, nonce: int, previous: Sequence[Attempt], now: int) -> Attempt | None:
        return await self._chain.noop(lane, nonce, previous, now)

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        return await self._chain.broadcast(lane, attempts)

    async def probe(self, lane: str, attempt: Attempt) -> SendReply:
        return await self._chain.probe(lane, attempt)

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return await self._chain.prove_dead(lane, attempts)

    async def close(self) -> None:
        await self._chain.close()


def _within_s(intent: Intent) -> float:
    return float(intent.metadata.get("build_within_s", BUILD_WITHIN_S))
