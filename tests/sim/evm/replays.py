"""EVM lanes whose chain goes back past finality, and an operator who replays what was kept.

The world is the one of `world.py`, with one rollback beyond finality per schedule. Whatever had ended `done` lands
again, once, by the same bytes; everything that was not settled goes on after the rebaseline. Where the ledger failed
to keep bytes (a failure there stops nothing), only the promise that nothing is paid twice is left.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.sim.evm.machine import CHAIN_ID
from tests.sim.evm.rpc import SimRpc
from tests.sim.evm.world import RECEIVER, Result, World
from tests.sim.evm.world import run as run_world
from tests.sim.loop import Process, VirtualLoop
from txmanager.chains.evm import EvmChain
from txmanager.core.alerts import Alert
from txmanager.core.errors import TxManagerError
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, QuarantineCause
from txmanager.runtime.care.replay import plan_replay, send_again


class ReplayedWorld(World):
    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        self.dice = random.Random(f"replays:{seed}")
        self.policy = replace(self.policy, cancel_after_ms=self.dice.choice((None, 4_000)))
        self.unkept: set[str] = set()
        """Lanes for which the ledger did not keep bytes once."""
        self.ready: set[str] = set()
        """Lanes with nothing left to send again."""
        self.undone: set[str] = set()
        sound = self.ledger.keep

        async def keep(fence: Any, *args: Any) -> None:
            try:
                await sound(fence, *args)
            except TxManagerError:
                self.unkept.add(fence.lane)
                raise

        self.ledger.keep = keep  # type: ignore[method-assign]

    async def main(self) -> None:
        self.loop.later(self.dice.uniform(8.0, 24.0), self._undo, self.dice.random())
        await super().main()

    def _call(self, n: int) -> None:
        """Some are taken back at once: a no-op races with them, and lands and is undone as they are."""
        super()._call(n)
        if not self.healing and self.dice.random() < 0.5:
            self.loop.later(self.dice.uniform(0.0, 0.5), self._on_cancel, (n + 0.5) / len(self.intents))

    def _on_deep_reorg(self, amount: float) -> bool:
        return False

    def _on_foreign_use(self, amount: float) -> bool:
        return False

    def _undo(self, amount: float) -> None:
        before = self._done()
        self.deep = True
        self.machine.reorg(self.finality + 1 + int(amount * 8), self.dice.choice((0.0, 0.0, 0.5)))
        self.undone = {key for key, hash in before.items() if self.machine.find(hash) is None}
        self.struck["undone"] += len(self.undone)

    # -- the operator

    async def _operate(self) -> None:
        for lane, store in self.ledger.stores.items():
            if store.state is not LaneState.QUARANTINED:
                if int(self.loop.time()) % 5 == 0:  # as a monitor that sees the chain behind the lane
                    await self.ledger.check(lane, f"{self.loop.time():.0f}", [Alert.DRIFT])
                continue
            if store.cause is QuarantineCause.REORG_BEYOND_FINALITY and lane not in self.ready:
                Process(self.loop, "operator").spawn(self._replay(lane))
            else:
                await self.ledger.set_lane(lane, LaneState.PAUSED, command=LaneCommand.REBASELINE)

    async def _replay(self, lane: str) -> None:
        rng = random.Random(f"operator:{self.seed}")
        chain = EvmChain(CHAIN_ID, (), self.keys(), settings=self.network, rpc=SimRpc(self, rng), agreement=1)
        try:
            plan = await plan_replay(self.ledger, chain, lane)
            if plan.missing and lane not in self.unkept:
                self.say(f"{lane[-6:]} did not keep {plan.missing}")
            if not plan.ready:
                self.ready.add(lane)
            await send_again(chain, plan)
        except TxManagerError:
            return  # again in a second

    # -- the end

    def _done(self) -> dict[str, str]:
        ends = {key: fact.outcome for key, fact in self.owed.ended.items()}
        return {key: end.tx_hash for key, end in ends.items() if end.status is Status.DONE and end.tx_hash}

    def _paid(self, depth: int = 0) -> Counter[str]:
        """How often each intent was paid: by whichever of its attempts, after a rollback another one may land."""
        height = self.machine.head.number - depth + 1
        txs = [tx for block in self.machine.blocks[: height + 1] for tx in block.txs if tx.to == RECEIVER]
        return Counter(f"k{tx.value - 1000}" for tx in txs)

    def _quiet(self) -> bool:
        if self.unkept:
            return super()._quiet()
        stores, paid = self.ledger.stores.values(), self._paid(self.finality)
        live = [r for s in stores for r in s.records.values() if not r.status.final]
        stopped = any(s.state is LaneState.QUARANTINED for s in stores)
        return not live and not stopped and all(paid[key] for key in self._done())

    def _check_end(self) -> None:
        super()._check_end()
        if self.unkept:
            self.struck["unkept"] += 1
            return
        paid, done, killed = self._paid(), self._done(), {key for key, _ in self.owed.killed}
        for n in self.acknowledged:
            key = f"k{n}"
            if key not in self.owed.ended:
                self.say(f"{key} was accepted and never ended")
            elif key in killed and key not in done and paid[key] == 1:
                self.struck["overtaken"] += 1  # its no-op was undone, and a pool still had what that had replaced
            elif paid[key] != (key in done):
                self.say(f"{key} ended {self.owed.ended[key].outcome.status} and was paid {paid[key]} times")
        for lane, store in self.ledger.stores.items():
            if store.state is LaneState.QUARANTINED:
                self.say(f"{lane[-6:]} is still quarantined: {store.reason} {store.evidence}")
        self.struck["landed_again"] += sum(1 for key in self.undone if paid[key] == 1)


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=ReplayedWorld)
