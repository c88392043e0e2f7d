"""The callers of a scene: they submit over HTTP, are told all sorts of things, and ask again with the same key."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.sim.history import Answered, Broke, Fact
from txmanager.client import AsyncClient
from txmanager.client.errors import ClientError, InvalidRequest, KeyReused, NotPermitted
from txmanager.client.models import Record
from txmanager.core.models import IntentId, Outcome, intent_id

POOL = "p"
_IMPATIENT = 40
"""How many may wait for their acceptance at a time."""
_WRONG = (InvalidRequest, KeyReused, NotPermitted)
"""Answers that no fault explains."""


class Crowd:
    def __init__(self, urls: Sequence[str], token: str, receiver: str, rng: random.Random, room: Callable[[], bool]):
        self._clients = [AsyncClient(url, token=token, pool=POOL, retry_for_s=0.0, timeout_s=3.0) for url in urls]
        self._receiver, self._rng, self._room = receiver, rng, room
        self.keys: dict[int, IntentId] = {}
        """Every amount is used once: the chain tells the intents apart by it."""
        self.accepted: dict[int, IntentId] = {}
        self.given_up: set[int] = set()
        """Keys whose callers were told that nobody can vouch for them; they ask no more."""
        self.facts: list[Fact] = []
        self.retries = 0
        self.refused = 0
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    def payload(self, amount: int) -> dict[str, Any]:
        return {"receiver_id": self._receiver, "amount": str(amount)}

    def start(self, callers: int = 3) -> None:
        for _ in range(callers):
            self._spawn(self._live())

    def _spawn(self, life: Any) -> None:
        task = asyncio.create_task(life)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop_within(self, seconds: float) -> None:
        """No new intents; whoever waits for an acceptance goes on until it has it, or the time is over."""
        self._stopping = True
        until = time.monotonic() + seconds
        while self._tasks and time.monotonic() < until:
            await asyncio.wait(list(self._tasks), timeout=1.0)
        for task in self._tasks:
            task.cancel()

    async def replay(self) -> None:
        """Every key once more, by anybody, a few at a time."""
        amounts = [a for a in self.accepted if a not in self.given_up]
        for start in range(0, len(amounts), 20):
            await asyncio.gather(*(self._insist(amount) for amount in amounts[start : start + 20]))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for client in self._clients:
            client.close()

    async def _live(self) -> None:
        while not self._stopping:
            if not self._room() or len(self.keys) - len(self.accepted) > _IMPATIENT:
                await asyncio.sleep(0.05)
                continue
            for _ in range(self._rng.randint(1, 6)):
                amount = len(self.keys) + 1
                self.keys[amount] = intent_id(f"k{amount}", POOL)
                self._spawn(self._insist(amount))
            if self.accepted and self._rng.random() < 0.7:
                # A caller that lost its answer, or its memory: the same key, at once or long after.
                for amount in self._rng.sample(list(self.accepted), min(3, len(self.accepted))):
                    self._spawn(self._ask(amount))
            await asyncio.sleep(self._rng.uniform(0.1, 0.4))

    async def _insist(self, amount: int) -> None:
        """The same key until it is accepted: that is the whole recovery of a caller."""
        if self._rng.random() < 0.2:
            self._spawn(self._ask(amount))  # a double click
        while amount not in self.given_up and not await self._ask(amount):  # noqa: ASYNC110 - it asks each time
            await asyncio.sleep(self._rng.uniform(0.1, 0.4))

    async def _ask(self, amount: int) -> bool:
        if amount in self.given_up:
            return True
        self.retries += amount in self.accepted
        client = self._rng.choice(self._clients)
        try:
            record = await client.submit("near.transfer", self.payload(amount), key=f"k{amount}")
        except _WRONG as error:
            self.facts.append(Broke(time.monotonic(), f"k{amount} was answered {error}"))
            return True
        except ClientError:
            self.refused += 1
            return False
        self.accepted.setdefault(amount, self.keys[amount])
        if record.final:
            self.facts.append(answered(self.keys[amount], record))
        return True


def answered(id: IntentId, record: Record) -> Answered:
    result = record.outcome["result"] if record.outcome is not None else None
    outcome = Outcome(record.status, record.tx_hash, record.nonce, result, record.error)
    return Answered(time.monotonic(), "caller", id, "", record.status, outcome, accepted=True)
