"""EVM lanes on a ledger that fails over or is rolled back, with clocks that jump.

Either a replica takes over (what was confirmed must be there, and nothing else may have been acted upon), or the ledger
forgets and nobody vouches for it (a lane that lost writes of its owner must stop; whoever was accepted may be lost, and
no life of a key pays twice).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.sim.evm.world import RECEIVER, Result, World
from tests.sim.evm.world import run as run_world
from tests.sim.history import Ended, Fact, Recorded, RolledBack
from tests.sim.loop import Life, VirtualLoop
from txmanager.core.states import LaneState, Status

HOUR_MS = 3_600_000
SET_BACK_MS = 60_000
"""A clock that is behind delays bumps by as much: an hour would outlast the schedule."""


class UnreliableWorld(World):
    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        self.dice = random.Random(f"unreliable:{seed}")
        self.replicas = self.dice.random() < 0.6
        self.ledger.vouches = self.replicas
        self.server_offset_ms = 0
        self.rolled_back = False
        self.sent: set[str] = set()
        self.lost: dict[str, set[str]] = {}
        """Lanes whose ledger forgot writes of an owner: those that nobody wrote again."""
        self.lives: dict[str, tuple[str, str]] = {}
        """The key and the life that each hash pays."""

    # -- what goes wrong besides

    async def main(self) -> None:
        later, dice = self.loop.later, self.dice
        if self.replicas:
            later(dice.uniform(1.0, 8.0), self._fail_over, dice.random())
            if dice.random() < 0.4:
                later(dice.uniform(16.0, 18.0), self._fail_over, dice.random() * 0.3)
            if dice.random() < 0.3:
                later(dice.uniform(1.0, 20.0), self._jump_server, dice.random())
        else:
            later(dice.uniform(1.0, 14.0), self._roll_back, dice.random())
        for _ in range(dice.choice((0, 1, 2))):
            later(dice.uniform(1.0, 22.0), self._jump_worker, dice.random(), dice.random())
        await super().main()

    def _server_ms(self) -> int:
        return super()._server_ms() + self.server_offset_ms

    def _jump_server(self, amount: float) -> None:
        self.struck["server_clock_jump"] += 1
        self.server_offset_ms += int((amount - 0.3) * 40_000)

    def _jump_worker(self, which: float, amount: float) -> None:
        process = self.seats[int(which * len(self.seats))].process
        if process is None or process.life is Life.DEAD:
            return
        self.struck["worker_clock_jump"] += 1
        process.clock_offset_ms += int(amount * SET_BACK_MS * (1 if amount < 0.5 else -1))

    def _fail_over(self, amount: float) -> None:
        """The replica hears nothing more, then it is the server."""
        replica, owed, ledger = self.ledger.snapshot(), self.owed, self.ledger
        known = replace(owed, firsts=dict(owed.firsts), nonces=dict(owed.nonces), ended=dict(owed.ended))
        ledger.cut_off = True
        self.struck["failover"] += 1

        def promoted() -> None:
            for hash in sorted((self.history.recorded - replica.mark[1]) & self.sent):
                self.say(f"{hash[:10]} was sent, and its write-ahead did not outlive the server")
            ledger.fail_over(replica)
            self.owed = known

        self.loop.later(0.05 + 4.0 * amount, ledger.stop)
        self.loop.later(0.1 + 5.0 * amount, promoted)

    def _roll_back(self, amount: float) -> None:
        if len(self.ledger.stores) < len(self.lanes):
            return
        self.struck["roll_back"] += 1
        old = self.ledger.snapshot()
        self.loop.later(0.2 + 6.0 * amount, self.ledger.stop)
        self.loop.later(0.3 + 7.0 * amount, self.ledger.start, old)

    # A person who rebaselines after these would vouch for a ledger that forgot.

    def _on_foreign_use(self, amount: float) -> bool:
        return self.replicas and super()._on_foreign_use(amount)

    def _on_deep_reorg(self, amount: float) -> bool:
        if self.replicas:
            super()._on_deep_reorg(amount)
        return self.replicas

    # -- checked where it happens

    def noted(self, fact: Fact) -> None:
        if isinstance(fact, RolledBack):
            self.rolled_back = True
            for lane in fact.lost:
                self.lost.setdefault(lane, set())
            for attempt in fact.forgotten:
                lane, _, hash = attempt.partition(" ")
                self.lost[lane].add(hash)

    def recorded(self, fact: Recorded) -> None:
        self.lives[fact.hash] = (fact.id.key, fact.life)
        forgotten = self.lost.get(fact.lane)
        if forgotten is None:
            super().recorded(fact)
        elif fact.hash in forgotten:
            # An owner that never heard of its write writes the same bytes again: nothing else ever came of them.
            forgotten.discard(fact.hash)
            if not forgotten:
                del self.lost[fact.lane]
        else:
            self.say(f"{fact.id.key} was signed on a lane whose ledger was rolled back")

    def ended(self, fact: Ended) -> None:
        if self.rolled_back:
            self.owed.ended.pop(fact.id.key, None)  # that it ended before is forgotten
        super().ended(fact)

    def _check_sent(self, params: Any) -> None:
        tx = self.machine.decode(bytes.fromhex(params[0][2:]))
        self.sent.add(tx.hash)
        if self.rolled_back:  # a better price that was forgotten is no reason to keep what is known back
            self.owed.prices.setdefault((tx.sender, tx.nonce), {})[tx.hash] = tx.fees
        super()._check_sent(params)

    # -- the end

    async def _operate(self) -> None:
        await super()._operate()
        if self.rolled_back and all(s.state is LaneState.QUARANTINED for s in self.ledger.stores.values()):
            self.acknowledged |= set(range(len(self.intents)))  # nobody takes them any more, and callers are told so

    def _quiet(self) -> bool:
        stores = self.ledger.stores.values()
        shut = [s for s in stores if s.state is LaneState.QUARANTINED and self.rolled_back]
        live = [r for s in stores if s not in shut for r in s.records.values() if not r.status.final]
        return self.deep or not live

    def _check_end(self) -> None:
        effects = [self.lives[tx.hash] for b in self.machine.blocks for tx in b.txs if tx.hash in self.lives]
        paid = Counter(effects)
        for (key, _), times in paid.items():
            if times > 1:
                self.say(f"{key} was paid {times} times in one life")
        if not self.rolled_back:
            super()._check_end()
            return
        unknown = [tx for b in self.machine.blocks for tx in b.txs if tx.to == RECEIVER and tx.hash not in self.lives]
        for tx in unknown:
            self.say(f"{tx.hash[:10]} is on chain, and was never written ahead")
        for key, fact in self.owed.ended.items():
            if fact.outcome.status is Status.DONE and not paid[key, fact.life]:
                self.say(f"{key} ended done, and was not paid")
        for lane in self.lanes:
            store = self.ledger.stores[lane]
            if store.state is LaneState.QUARANTINED:
                continue
            for record in store.records.values():
                if not record.status.final:
                    self.say(f"{record.id.key} is still {record.status} on a lane that is {store.state}")


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=UnreliableWorld)
