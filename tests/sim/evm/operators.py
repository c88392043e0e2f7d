"""EVM lanes with people beside them: they pause and resume lanes, and decide about intents that are held.

Holds come soon here, so that they come often. Once faults end, people resume what they stopped and end what is held;
then everything must end, and be retired, within the time that the schedule leaves.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

from tests.sim.evm.world import Result, World
from tests.sim.evm.world import run as run_world
from tests.sim.history import Fact, Held
from tests.sim.loop import VirtualLoop
from txmanager.core.errors import TxManagerError
from txmanager.core.models import Record
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import PauseCause
from txmanager.runtime.care.sweeper import Sweeper

BY_HAND = "by hand"
PATIENCE_S = 40.0
"""After so long a held intent is killed, whatever was asked of it before."""


class OperatedWorld(World):
    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        self.dice = random.Random(f"operated:{seed}")
        self.policy = replace(self.policy, hold_after_ms=self.dice.choice((1_000, 2_500, 6_000)))
        self.healed_at = 0.0

    async def main(self) -> None:
        dice = self.dice
        for _ in range(dice.choice((1, 2, 4))):
            self.loop.later(dice.uniform(1.0, 22.0), self._pause, dice.random(), dice.random())
        for _ in range(dice.choice((0, 2, 5))):
            self.loop.later(dice.uniform(4.0, 24.0), self._decide, dice.random())
        await super().main()

    def noted(self, fact: Fact) -> None:
        self.struck["held"] += isinstance(fact, Held)

    # -- in the storm

    def _pause(self, which: float, amount: float) -> None:
        lane = self.lanes[int(which * len(self.lanes))]
        store = self.ledger.stores.get(lane)
        if store is None or store.state is not LaneState.ACTIVE:
            return
        self.struck["pause"] += 1
        self._ask(self.ledger.set_lane(lane, LaneState.PAUSED, BY_HAND))
        self.loop.later(0.5 + 8.0 * amount, lambda: self._ask(self._resume(lane)))

    async def _resume(self, lane: str) -> None:
        """As an operator does who looks first: what stopped it otherwise meanwhile stays."""
        view = await self.ledger.lane(lane)
        if view is not None and view.state is LaneState.PAUSED and view.reason == BY_HAND:
            await self.ledger.set_lane(lane, LaneState.ACTIVE, asks=view.asks)

    def _decide(self, amount: float) -> None:
        held = self._held()
        if held:
            record = held[int(amount * len(held))]
            verb = ("track", "resign", "kill", "fail")[int(amount * 400) % 4]
            self.struck[verb] += 1
            self._ask(self.ledger.resolve(record.id, {"verb": verb, "by": "sim"}))

    def _held(self) -> list[Record]:
        records = [r for s in self.ledger.stores.values() for r in s.records.values()]
        return [r for r in records if r.status is Status.HELD and r.attempts]

    def _ask(self, work: object) -> None:
        async def carry_out() -> None:
            with contextlib.suppress(TxManagerError):
                await work  # type: ignore[misc]

        self.loop.create_task(carry_out(), context=self.loop.outside)

    # -- when it is over

    async def _operate(self) -> None:
        await super()._operate()
        self.healed_at = self.healed_at or self.loop.time()
        for lane, store in list(self.ledger.stores.items()):
            if store.state is LaneState.PAUSED and store.cause is PauseCause.OPERATOR and store.command is None:
                await self._resume(lane)
        if int(self.loop.time()) % 10 == 0:
            await Sweeper(self.ledger).sweep_once()
        late = self.loop.time() - self.healed_at > PATIENCE_S
        for record in self._held():
            if record.directive is None or (late and record.directive["verb"] != "kill"):
                verb = "kill" if late else ("kill", "fail", "track")[len(record.id.key + record.life) % 3]
                with contextlib.suppress(TxManagerError):
                    await self.ledger.resolve(record.id, {"verb": verb, "by": "sim"})

    def _quiet(self) -> bool:
        return self.deep or not any(store.records for store in self.ledger.stores.values())

    def _check_end(self) -> None:
        super()._check_end()
        for store in self.ledger.stores.values():
            for record in store.records.values():
                if record.status.final and store.state is not LaneState.QUARANTINED and not self.deep:
                    self.say(f"{record.id.key} ended {record.status}, and was never retired")


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=OperatedWorld)
