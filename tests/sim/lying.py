"""NEAR lanes on two nodes, the first of which lies until the quiet: about outcomes, hashes, keys, chunks, refusals."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

from tests.sim.history import History
from tests.sim.loop import VirtualLoop
from tests.sim.nodes import SimRpc
from tests.sim.plan import Plan, draw
from tests.sim.world import Result, World
from tests.sim.world import run as run_world
from txmanager.rpc.errors import RpcError

LIES = ("failed", "unknown", "nonce_up", "nonce_down", "no_key", "refuses", "empty")
FAILED = {"Failure": {"ActionError": {"index": 0, "kind": {"AccountDoesNotExist": {"account_id": "nobody.near"}}}}}
_LOOK_UPS = ("tx", "EXPERIMENTAL_tx_status")


class LyingRpc(SimRpc):
    world: LyingWorld

    async def ask(self, index: int | None, method: str, asked: Any, timeout_s: float, group: str) -> Any:
        answer = await super().ask(index, method, asked, timeout_s, group)
        return answer if index != 0 or self.world.healing else self._lie(method, asked, answer)

    def _lie(self, method: str, asked: Any, answer: Any) -> Any:
        world, lies = self.world, self.world.lies
        if method in _LOOK_UPS:
            about = random.Random(f"{world.plan.seed}:{asked['tx_hash']}").random()
            if "unknown" in lies and about < 0.8:
                world.told += 1
                raise RpcError({"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION"}})
            if "failed" in lies and answer.get("receipts_outcome"):
                world.told += 1
                answer = copy.deepcopy(answer)
                for outcome in answer["receipts_outcome"]:
                    outcome["outcome"]["status"] = FAILED
        elif method == "query" and "nonce" in answer:
            if "no_key" in lies and world.dice.random() < 0.3:
                world.told += 1
                raise RpcError({"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_ACCESS_KEY"}})
            if lies & {"nonce_up", "nonce_down"}:
                world.told += 1
                answer = {**answer, "nonce": max(0, answer["nonce"] + (40 if "nonce_up" in lies else -40))}
        elif method == "send_tx" and "refuses" in lies:
            world.told += 1
            data = {"TxExecutionError": {"InvalidTxError": {"InvalidAccessKeyError": "RequiresFullAccess"}}}
            raise RpcError({"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION"}, "data": data})
        elif method == "chunk" and "empty" in lies:
            world.told += 1
            answer = {**answer, "transactions": []}
        return answer


class LyingWorld(World):
    agreement = 2

    def __init__(self, plan: Plan, loop: VirtualLoop, history: History) -> None:
        super().__init__(plan, loop, history)
        self.dice = random.Random(f"lying:{plan.seed}")
        self.lies = frozenset(self.dice.sample(LIES, self.dice.randint(1, 3)))
        if plan.seed % 2:
            self.lies = frozenset({"unknown"})  # what it takes to have something buried, and nothing that gives it away
        self.told = 0
        LyingRpc.world = self  # one schedule at a time
        self.nodes_seen = LyingRpc


def plan_of(seed: int) -> Plan:
    return replace(draw(seed), nodes=("direct", "direct"))


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(plan_of(seed), verbose=verbose, kind=LyingWorld)


def lies_told() -> int:
    """In the schedule that ran last."""
    return LyingRpc.world.told
