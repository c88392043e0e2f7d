"""The store of the simulation: the real machine behind a line that loses requests and replies, and a server that
forgets what it was not made to keep."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.mempool import invariants
from txmanager.core.admission import Grant, Limits
from txmanager.core.errors import Unavailable
from txmanager.core.mempool import Machine

T = TypeVar("T")


class Store:
    def __init__(self, limits: Limits, dice: random.Random, say: Callable[[str], None], *, forgetful: bool) -> None:
        self.forgetful = forgetful
        self.limits = limits
        self.dice = dice
        self.say = say
        self.machine = Machine(limits, self.now())
        self.calls = itertools.count(1)
        self.struck: Counter[str] = Counter()
        self.faulty = True
        self.flushed_at: list[float] = []

    def now(self) -> int:
        return round(asyncio.get_event_loop().time() * 1000)

    async def step(self, name: str, act: Callable[[Machine, str, int], T]) -> T:
        """One call: repeated like the script runner does, with the same name, when its reply is lost."""
        call = f"c{next(self.calls)}"
        while True:
            await asyncio.sleep(self.dice.uniform(0, 0.01))
            chance = self.dice.random() if self.faulty else 1.0
            if chance < 0.01:
                self.struck["request lost"] += 1
                raise Unavailable("no answer")
            lost = self.forgetful and chance < 0.03 and name not in ("admit", "heartbeat")
            before = copy.deepcopy(self.machine) if lost else None
            result = act(self.machine, call, self.now())
            self._check(name, result)
            if before is not None:
                self.struck["step forgotten"] += 1  # a failover: only what `admit` wrote is durable
                self.machine = before
                self.machine.lost_data(self.now())
            await asyncio.sleep(self.dice.uniform(0, 0.01))
            if chance < 0.04 and before is None:
                self.struck["reply lost, asked again"] += 1
                continue
            if chance < 0.05 and before is None:
                self.struck["reply lost"] += 1
                raise Unavailable("no answer")
            return result

    def flush(self) -> None:
        self.struck["flush"] += 1
        self.flushed_at.append(self.now() / 1000)
        self.machine = Machine(self.limits, self.now())

    def _check(self, name: str, result: object) -> None:
        try:
            invariants.check(self.machine)
        except AssertionError as broken:
            self.say(f"after {name}: {str(broken) or 'an invariant does not hold'}")
        grants: Sequence[Grant] = getattr(result, "grants", ())
        one = getattr(result, "grant", None)
        fresh = [g for g in [*grants, *([one] if one is not None else [])] if not g.again]
        if isinstance(result, list):
            fresh += [a.grant for a in result if getattr(a, "grant", None) is not None]
        book = self.machine.book
        for grant in fresh:
            if book.ready and grant.tries == 1 and book.txs[grant.hash].price < -book.ready[0][0]:
                self.say(f"{name} granted a head though a dearer one waits")
