"""The store of the simulation: the real machine behind a line that loses requests and replies, and a server that
forgets what it was not made to keep. Each gateway has its own `Line` to it, which is the real `MemoryMempool`."""

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
from txmanager.ledger.memory.mempool import MemoryMempool

T = TypeVar("T")
FORGETTABLE = frozenset({"take", "done", "observe", "reopen", "end", "expire"})
"""Steps that nobody waits to be durable."""


class Store:
    def __init__(self, limits: Limits, dice: random.Random, say: Callable[[str], None], *, forgetful: bool) -> None:
        self.forgetful = forgetful
        self.limits = limits
        self.dice = dice
        self.say = say
        self.machine = Machine(limits, self.now())
        self.calls = itertools.count(1)
        self.lines: list[Line] = []
        self.struck: Counter[str] = Counter()
        self.faulty = True
        self.flushed_at: list[float] = []

    def now(self) -> int:
        return round(asyncio.get_event_loop().time() * 1000)

    async def step(self, name: str, act: Callable[[Machine, int], T]) -> T:
        """One call: repeated like the script runner does, with the same name, when its reply is lost."""
        while True:
            await asyncio.sleep(self.dice.uniform(0, 0.01))
            chance = self.dice.random() if self.faulty else 1.0
            if chance < 0.01:
                self.struck["request lost"] += 1
                raise Unavailable("no answer")
            lost = self.forgetful and chance < (0.2 if name == "take" else 0.03) and name in FORGETTABLE
            before = copy.deepcopy(self.machine) if lost else None
            result = act(self.machine, self.now())
            self._check(name, result)
            if before is not None:
                self.struck["step forgotten"] += 1  # a failover: only what `admit` wrote is durable
                self.machine = before
                self.machine.lost_data(self.now())
            self._tell()
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

    def _tell(self) -> None:
        """Hints reach every gateway, or nobody."""
        rung, self.machine.rung = self.machine.rung, False
        words, self.machine.book.words = self.machine.book.words, []
        if self.faulty and self.dice.random() < 0.1:
            self.struck["hint lost"] += 1
            return
        for line in self.lines:
            line.tell(rung, words)

    def _check(self, name: str, result: object) -> None:
        if name in FORGETTABLE or name == "admit":
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
            if grant.left_ms < self.limits.hold_ms:
                continue  # a repeat tells an old grant, and a dearer head may have come since
            if book.ready and grant.tries == 1 and book.txs[grant.hash].price < -book.ready[0][0]:
                self.say(f"{name} granted a head though a dearer one waits")


class Line(MemoryMempool):
    """What one gateway has of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        super().__init__(store.limits, clock=store.now, machine=store.machine, token=lambda: f"c{next(store.calls)}")
        store.lines.append(self)

    @property
    def machine(self) -> Machine:
        """The store's: it may be a new one after each step."""
        return self._store.machine

    @machine.setter
    def machine(self, machine: Machine) -> None:
        assert machine is self._store.machine

    async def _step(self, operation: str, step: Callable[[Machine, int], T]) -> T:
        return await self._store.step(operation, step)
