"""Simulated nodes. A strict one has no pool and charges for a wrong nonce; a pooled one mines and forgets."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from txmanager.core.chain import SendReply, Verdict

FINAL_S = 30.0
"""A block of this age is final: no reorganisation takes it back."""


@dataclass
class Sent:
    at: float
    hash: str
    sender: str
    nonce: int
    verdict: str


class Node:
    """What both have: a chain whose reads may lag, and a log of every send."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.log: list[Sent] = []
        self.chain: list[tuple[float, str, str]] = []
        """When, whose and which transaction each block executed."""
        self.struck: Counter[str] = Counter()
        self.lag_s = 0.0
        self.blocks = ["0xb0"]
        """Hashes by height, each new: also those that come after a reorganisation."""
        self.forks = 0
        self.orphans: set[str] = set()

    # -- reading, `lag_s` late

    def visible(self, now: float) -> int:
        """The height that a reader sees: a block is one transaction."""
        height = len(self.chain)
        while height and self.chain[height - 1][0] > now - self.lag_s:
            height -= 1
        return height

    def block(self, height: int) -> str:
        return self.blocks[height]

    def count(self, sender: str, height: int | None = None) -> int:
        return sum(who == sender for _, who, _ in self.chain[:height])

    def pending(self, sender: str, height: int) -> int | None:
        return None

    def final(self, now: float) -> int:
        return sum(at <= now - FINAL_S for at, _, _ in self.chain)

    def where(self, hash: str, height: int) -> int | None:
        """The height of the block it is in, among those below `height`."""
        return next((n + 1 for n, (_, _, one) in enumerate(self.chain[:height]) if one == hash), None)

    def waits(self, hash: str) -> bool:
        """It is in the node's own pool."""
        return False

    @property
    def landed(self) -> set[str]:
        return {hash for _, _, hash in self.chain}

    # -- sending

    def execute(self, at: float, hash: str, sender: str) -> None:
        self.chain.append((at, sender, hash))
        self.blocks.append(f"0xf{self.forks}b{len(self.chain)}")

    def send(self, now: float, sender: str, nonce: int, hash: str) -> tuple[SendReply, bool]:
        """What comes of the bytes, and whether the caller hears of it."""
        raise NotImplementedError


class StrictNode(Node):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.lag_s = dice.uniform(2, 5)
        self.charged: list[Sent] = []
        self.repeats: list[Sent] = []

    def send(self, now: float, sender: str, nonce: int, hash: str) -> tuple[SendReply, bool]:
        sent = Sent(now, hash, sender, nonce, "sent")
        self.log.append(sent)
        count = self.count(sender)
        if hash in self.landed:
            sent.verdict = "repeat"
            self.repeats.append(sent)
            return SendReply(Verdict.NONCE_TOO_LOW, "nonce too low"), True
        if count != nonce:
            sent.verdict = "wrong nonce"
            self.charged.append(sent)
            verdict = Verdict.NONCE_TOO_LOW if nonce < count else Verdict.NONCE_GAP
            return SendReply(verdict, "wrong nonce"), True
        chance = self.dice.random()
        if chance < 0.05:
            self.struck["refused"] += 1
            sent.verdict = "refuse"
            return SendReply(Verdict.PERMANENT, "execution reverted"), True
        if chance < 0.1:
            self.struck["busy"] += 1
            sent.verdict = "maybe"
            return SendReply(Verdict.UNAVAILABLE, "no answer"), True  # nothing was taken, and the caller cannot know
        self.execute(now, hash, sender)
        heard = self.dice.random() > 0.1
        self.struck["unheard"] += not heard
        return SendReply(Verdict.ACCEPTED), heard


class PoolNode(Node):
    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.pool: dict[tuple[str, int], str] = {}

    def pending(self, sender: str, height: int) -> int | None:
        nonce = self.count(sender, height)
        while (sender, nonce) in self.pool:
            nonce += 1
        return nonce

    def waits(self, hash: str) -> bool:
        return hash in self.pool.values()

    def send(self, now: float, sender: str, nonce: int, hash: str) -> tuple[SendReply, bool]:
        self.log.append(Sent(now, hash, sender, nonce, "sent"))
        if self.waits(hash):
            return SendReply(Verdict.ALREADY_KNOWN), True
        if nonce < self.count(sender):  # also of bytes that landed: a pool does not know them any more
            return SendReply(Verdict.NONCE_TOO_LOW, "nonce too low"), True
        self.pool[sender, nonce] = hash
        return SendReply(Verdict.ACCEPTED), self.dice.random() > 0.1

    def mine(self, now: float) -> None:
        for sender, nonce in sorted(self.pool):
            count = self.count(sender)
            if nonce < count:
                del self.pool[sender, nonce]
            elif nonce == count and self.dice.random() < 0.7:
                self.execute(now, self.pool.pop((sender, nonce)), sender)

    def restart(self) -> None:
        self.struck["restart"] += 1
        self.pool.clear()

    def reorg(self, now: float) -> None:
        """The last executed transaction is not any more, and the node has forgotten it."""
        if self.final(now) == len(self.chain):
            return
        self.struck["reorg"] += 1
        self.orphans.add(self.blocks.pop())
        self.chain.pop()
        self.forks += 1
