"""Simulated nodes. A strict one has no pool and charges for a wrong nonce; a pooled one mines and forgets."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from txmanager.core.admission import Count, Grant, Verdict


@dataclass
class Seen:
    at: float
    hash: str
    sender: str
    nonce: int
    verdict: str


class Node:
    """What both have: a chain whose reads may lag, and a log of every send."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.log: list[Seen] = []
        self.landed: dict[str, float] = {}
        """When each hash was executed."""
        self.count: Counter[str] = Counter()
        self.history: list[tuple[float, str]] = []
        self.struck: Counter[str] = Counter()
        self.lag_s = 0.0
        self.forks = 0
        self.orphans: set[str] = set()

    def execute(self, at: float, hash: str, sender: str) -> None:
        self.landed[hash] = at
        self.count[sender] += 1
        self.history.append((at, sender))

    def read(self, now: float, sender: str, *, lag: bool = True) -> Count:
        seen_at = now - (self.lag_s if lag else 0)
        height = sum(at <= seen_at for at, _ in self.history)
        count = sum(at <= seen_at and who == sender for at, who in self.history)
        return Count(count, f"0xf{self.forks}b{height}", height)

    def knows(self, now: float, hash: str) -> bool:
        return hash in self.landed and self.landed[hash] <= now - self.lag_s

    def canonical(self, block: str) -> bool:
        return block not in self.orphans

    def send(self, now: float, grant: Grant) -> tuple[Verdict, bool]:
        """What comes of the bytes, and whether the caller hears of it."""
        raise NotImplementedError


class StrictNode(Node):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.lag_s = dice.uniform(2, 5)
        self.charged: list[Seen] = []
        self.repeats: list[Seen] = []

    def send(self, now: float, grant: Grant) -> tuple[Verdict, bool]:
        seen = Seen(now, grant.hash, grant.sender, grant.nonce, "sent")
        self.log.append(seen)
        if grant.hash in self.landed:
            seen.verdict = "repeat"
            self.repeats.append(seen)
            return "maybe", True
        if self.count[grant.sender] != grant.nonce:
            seen.verdict = "wrong nonce"
            self.charged.append(seen)
            return "retry", True
        chance = self.dice.random()
        if chance < 0.05:
            self.struck["refused"] += 1
            seen.verdict = "refuse"
            return "refuse", True
        if chance < 0.1:
            self.struck["busy"] += 1
            seen.verdict = "maybe"
            return "maybe", True  # away: nothing was taken, and the caller cannot know
        self.execute(now, grant.hash, grant.sender)
        heard = self.dice.random() > 0.1
        self.struck["unheard"] += not heard
        return "sent", heard


class PoolNode(Node):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.pool: dict[tuple[str, int], str] = {}

    def send(self, now: float, grant: Grant) -> tuple[Verdict, bool]:
        self.log.append(Seen(now, grant.hash, grant.sender, grant.nonce, "sent"))
        if grant.nonce < self.count[grant.sender]:
            return ("sent" if grant.hash in self.landed else "maybe"), True
        self.pool[grant.sender, grant.nonce] = grant.hash
        return "sent", self.dice.random() > 0.1

    def mine(self, now: float) -> None:
        for sender, nonce in sorted(self.pool):
            if nonce == self.count[sender] and self.dice.random() < 0.7:
                self.execute(now, self.pool.pop((sender, nonce)), sender)

    def restart(self) -> None:
        self.struck["restart"] += 1
        self.pool.clear()

    def reorg(self, now: float) -> None:
        """The last executed transaction is not any more; the node may have forgotten it."""
        if not self.history:
            return
        self.struck["reorg"] += 1
        at, sender = self.history.pop()
        self.orphans |= {f"0xf{self.forks}b{h}" for h in range(len(self.history) + 1, len(self.history) + 9)}
        self.orphans |= {f"0xf{self.forks}b{len(self.history) + 1}"}
        self.forks += 1
        self.count[sender] -= 1
        [hash] = [h for h, when in self.landed.items() if when == at and self._sender.get(h) == sender][-1:] or [""]
        self.landed.pop(hash, None)

    @property
    def _sender(self) -> dict[str, str]:
        return {seen.hash: seen.sender for seen in self.log}
