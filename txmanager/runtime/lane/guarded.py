"""A chain whose questions break nobody: an exception that no adapter foresaw means "no answer", and the lane waits.

Preparing and signing are not guarded: what breaks there is the intent's own doing, and is counted against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

import structlog

from txmanager.core.chain import Chain, NonceView, Proof, Readings, SendReply, Sighting
from txmanager.core.errors import TxManagerError, Unavailable
from txmanager.core.models import Attempt, Intent

T = TypeVar("T")


async def answered(what: str, asking: Awaitable[T]) -> T:
    try:
        return await asking
    except TxManagerError:
        raise
    except Exception as error:
        structlog.get_logger("chain").exception("answer not understood", what=what)
        raise Unavailable(f"{what} could not be read ({type(error).__name__}); it is asked again") from error


class GuardedChain:
    def __init__(self, chain: Chain) -> None:
        self.traits = chain.traits
        self.inner = chain
        self.serves, self.prepare, self.sign = chain.serves, chain.prepare, chain.sign
        self.instant, self.trial = chain.instant, chain.trial
        self.replace, self.noop, self.cost, self.close = chain.replace, chain.noop, chain.cost, chain.close

    async def nonce(self, lane: str) -> NonceView:
        return await answered("the lane's nonce", self.inner.nonce(lane))

    async def readings(self, lane: str, first: NonceView) -> Readings:
        return await answered("the lane's nonce", self.inner.readings(lane, first))

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        return await answered("the answer to a send", self.inner.broadcast(lane, attempts))

    async def probe(self, lane: str, attempt: Attempt) -> SendReply:
        return await answered("the answer to a send", self.inner.probe(lane, attempt))

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        return await answered("a look-up", self.inner.look_up(lane, attempts))

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        return await answered("a proof of death", self.inner.prove_dead(lane, attempts))
