"""A signer as bad as one can be: late, away, refusing, failing in the middle of a batch, sometimes wrong; and its right
signatures are other bytes each time. Every schedule draws its own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence

from txmanager.core.errors import SignerAway, SignerRefused, TransactionRefused
from txmanager.signing.signer import Answer, SigningRequest
from txmanager.signing.trial import PREFIX

Make = Callable[[bytes, random.Random], bytes]
"""(digest, dice): a right signature."""

FAULTS = ("late", "away", "middle", "refused", "wrong", "neighbour", "forbidden")


class Moods:
    """How the signer of one schedule feels."""

    def __init__(self, seed: int, calm: Callable[[], bool], forbids: Callable[[bytes], bool]) -> None:
        self.dice = random.Random(f"signer:{seed}")
        self.calm, self.forbids = calm, forbids
        self.struck: Counter[str] = Counter()
        self._heat = self.dice.choice((0.1, 0.3, 0.6))
        self._wrong = self.dice.random() < 0.3
        """Most schedules have none: a wrong one stops the lane until a person resumes it."""

    def draw(self) -> str:
        if self.calm() or self.dice.random() > self._heat:
            return ""
        kinds = FAULTS[:-1] if self._wrong else FAULTS[:4]
        return self.dice.choice(kinds)


class RandomSigner:
    instant = False

    def __init__(self, public_key: str, make: Make, moods: Moods) -> None:
        self.public_key = public_key
        self._make, self._moods = make, moods

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        moods, dice = self._moods, self._moods.dice
        fault = moods.draw()
        if fault:
            moods.struck[fault] += 1
        await asyncio.sleep(dice.choice((0.5, 3.0, 12.0, 40.0)) if fault == "late" else dice.uniform(0.001, 0.4))
        if fault == "away":
            return [SignerAway("nobody there")] * len(requests)
        if fault == "refused":
            return [SignerRefused("access denied")] * len(requests)
        answers = [self._answer(request) for request in requests]
        place = dice.randrange(len(answers))
        if fault == "middle":
            answers[place] = SignerAway("throttled")
        elif fault == "wrong" and isinstance(right := answers[place], bytes):
            answers[place] = right[:40] + bytes((right[40] ^ 1,)) + right[41:]
        elif fault == "neighbour" and len(answers) > 1:
            answers[place], answers[place - 1] = answers[place - 1], answers[place]
        return answers

    def _answer(self, request: SigningRequest) -> Answer:
        if not request.unsigned.startswith(PREFIX) and self._moods.forbids(request.unsigned):
            self._moods.struck["forbidden"] += 1
            return TransactionRefused("the receiver is not allowed")
        return self._make(request.digest, self._moods.dice)

    async def close(self) -> None:
        pass
