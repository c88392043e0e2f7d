"""One key behind its policy: it reads what it is asked to sign, and signs that or nothing.

The digest that is signed is the one computed here. What it may cost is counted on disk before the key is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import structlog

from txmanager.core.errors import InvalidInput, SignerAway, SignerFault, SignerRefused, TransactionRefused
from txmanager.core.signing_policy import Concerns, Effects, KeyPolicy, Refusal, judge
from txmanager.signing.signer import Answer, Signer, SigningRequest
from txmanager.signing.sources import Curve
from txmanager.signing.totals import Totals
from txmanager.signing.trial import is_trial

_REFUSES_TRIALS_S = 30.0
"""After a refusal that concerns the key, so that a lane does not resume only to be refused again at once."""

_LONG_S = 0.005
"""How long one client's transactions are read without a pause."""

_log = structlog.get_logger("signer")


class Guard:
    def __init__(
        self,
        name: str,
        curve: Curve,
        signer: Signer,
        policy: KeyPolicy,
        totals: Totals,
        digest: Callable[[bytes], bytes],
        read: Callable[[bytes, str], Effects],
    ) -> None:
        self.name, self.curve, self.policy = name, curve, policy
        self.public_key = signer.public_key
        self._signer, self._totals = signer, totals
        self._digest, self._read = digest, read
        self._refused = ""
        """The words of the last refusal that concerned the key; trials get them, too, for a while."""
        self._refused_on_day: int | None = None
        self._refused_until = 0.0

    async def sign_many(
        self, requests: Sequence[SigningRequest], turn: AbstractAsyncContextManager[object] | None = None
    ) -> list[Answer]:
        """One answer for each, in their order; `turn` is held while they are read. A refusal is logged by whoever
        knows the client."""
        async with turn or nullcontext():
            read = await self._look_at(requests)
        wanted = [one for one in read if isinstance(one, Effects)]
        try:
            counted = iter(
                await asyncio.to_thread(self._totals.spend, self.name, self.policy, wanted) if wanted else []
            )
        except SignerAway as fault:
            return [one if isinstance(one, SignerFault) else fault for one in read]
        answers = [self._fault(next(counted)) if isinstance(one, Effects) else one for one in read]
        granted = [r for r, answer in zip(requests, answers, strict=True) if answer is None]
        signed = iter(await self._ask(granted) if granted else [])
        return [next(signed) if answer is None else answer for answer in answers]

    async def close(self) -> None:
        await self._signer.close()

    # -- parts

    async def _look_at(self, requests: Sequence[SigningRequest]) -> list[Effects | SignerFault | None]:
        """Whoever sends what takes long to read leaves half of the time to the others."""
        now, found = asyncio.get_running_loop().time, list[Effects | SignerFault | None]()
        began = now()
        for request in requests:
            found.append(self._look(request))
            if (took := now() - began) > _LONG_S:
                await asyncio.sleep(took)
                began = now()
        return found

    def _look(self, request: SigningRequest) -> Effects | SignerFault | None:
        """What it does, why it is refused, or None for a trial."""
        if not request.unsigned:
            return SignerRefused(f"{self.name} signs transactions, not digests; send the whole of it")
        if self._digest(request.unsigned) != request.digest:
            return SignerRefused(f"{self.name}: the digest is not the one of these bytes")
        if is_trial(request.unsigned, self.public_key):
            return self._trial()
        try:
            effects = self._read(request.unsigned, self.public_key)
        except InvalidInput as error:
            return TransactionRefused(f"{self.name} cannot read what it is asked to sign: {error}")
        except Exception as error:  # hostile bytes that broke the reader: whatever they are, they are not signed
            _log.exception("unsigned bytes broke the reader", key=self.name)
            return TransactionRefused(f"{self.name} cannot read what it is asked to sign ({type(error).__name__})")
        return self._fault(judge(self.policy, effects)) or effects

    def _trial(self) -> SignerFault | None:
        used_up = self._refused_on_day == self._totals.today()
        if used_up or asyncio.get_running_loop().time() < self._refused_until:
            return SignerRefused(self._refused)
        return None

    def _fault(self, refusal: Refusal | None) -> SignerFault | None:
        if refusal is None:
            return None
        words = f"{self.name}: {refusal.words}"
        if refusal.concerns is Concerns.REQUEST:
            return TransactionRefused(words)
        self._refused, self._refused_until = words, asyncio.get_running_loop().time() + _REFUSES_TRIALS_S
        if refusal.lasts_a_day:
            self._refused_on_day = self._totals.today()
        return SignerRefused(words)

    async def _ask(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        try:
            answers = await self._signer.sign_many(requests)
        except Exception as error:
            _log.exception("key broke", key=self.name)
            return [SignerAway(f"{self.name}: the key broke ({type(error).__name__})")] * len(requests)
        if len(answers) != len(requests):
            return [SignerAway(f"{self.name}: {len(answers)} answers to {len(requests)} requests")] * len(requests)
        return answers
