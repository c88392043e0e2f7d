"""One key's signatures in the order they were asked for, each verified before anybody may use it.

If item k fails, everything before k is answered. Verified signatures behind k are kept and used when the same bytes
are asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from txmanager.core.errors import BadSignature, NotSigned, SignerAway, SignerFault, TransactionRefused
from txmanager.core.models import failure
from txmanager.signing.signer import Answer, Signer, SigningRequest

Check = Callable[[bytes, bytes], bytes | None]
"""(digest, signature): the signature in the chain's own form, or None when it is not one of this key over it."""

_KEPT = 256
PATIENCE_S = 30.0
"""Signers have time limits of their own; this one is for those that forget them."""

_log = structlog.get_logger("signer")


class CheckedSigner:
    def __init__(self, signer: Signer, check: Check) -> None:
        self.signer = signer
        self._check = check
        self._kept: dict[bytes, bytes] = {}
        self._wrong: BadSignature | None = None

    async def sign(self, requests: Sequence[SigningRequest]) -> list[bytes]:
        """The signed prefix. It raises the first item's `SignerFault` when there is none. A wrong signature is never
        passed over: behind a prefix, the next call raises it."""
        if (passed := self._wrong) is not None:
            self._wrong = None
            raise passed
        wanted = [r for r in requests if r.digest not in self._kept]
        answers = dict(zip([r.digest for r in wanted], await self._ask(wanted), strict=True)) if wanted else {}
        found = [self._kept.get(r.digest) or answers[r.digest] for r in requests]
        failed = next((n for n, one in enumerate(found) if not isinstance(one, bytes)), None)
        signed = [one for one in found[:failed] if isinstance(one, bytes)]
        if failed is None:
            self._kept.clear()
            return signed
        self._keep({r.digest: one for r, one in zip(requests, found, strict=True) if isinstance(one, bytes)})
        faults = [one for one in found if isinstance(one, SignerFault)]
        wrong = next((one for one in faults if isinstance(one, BadSignature)), None)
        if not signed:
            raise wrong or faults[0]
        self._wrong = wrong
        return signed

    async def _ask(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answers = await self.signer.sign_many(requests)
        except TimeoutError:
            return [SignerAway(f"the signer of {self.signer.public_key} did not answer in {PATIENCE_S:g} s")] * len(
                requests
            )
        except Exception as error:  # a fault of the adapter must not count against the intents
            _log.exception("signer broke", public_key=self.signer.public_key)
            return [SignerAway(f"the signer of {self.signer.public_key} broke ({type(error).__name__})")] * len(
                requests
            )
        if len(answers) != len(requests):
            words = f"{self.signer.public_key}: {len(answers)} answers to {len(requests)} requests"
            return [BadSignature(words)] * len(requests)
        return [self._verified(r, a) for r, a in zip(requests, answers, strict=True)]

    def _verified(self, request: SigningRequest, answer: Answer) -> Answer:
        if isinstance(answer, SignerFault):
            return answer
        return self._check(request.digest, answer) or BadSignature(
            f"the signer of {self.signer.public_key} answered a signature that is not one of this key over these bytes"
        )

    def _keep(self, signatures: dict[bytes, bytes]) -> None:
        self._kept |= signatures
        for digest in list(self._kept)[: max(0, len(self._kept) - _KEPT)]:
            del self._kept[digest]


def not_signed(id: object, refused: TransactionRefused) -> NotSigned:
    """The signer's policy refuses this intent's transaction: it fails alone, and the lane goes on."""
    return NotSigned(id, failure(refused.code, f"the signer refused: {refused}", new_key_helps=True))
