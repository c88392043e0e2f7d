"""EVM lanes on two nodes, the first of which lies until the quiet: about receipts, counts, blocks and refusals.

Every intent here is a good one: it ends done, or cancelled by its caller. What a liar may not do: have one reported
failed, have one signed again or buried, or stop a lane.
"""

from __future__ import annotations

import random
from typing import Any

from tests.sim.evm.world import Result, World
from tests.sim.evm.world import run as run_world
from tests.sim.loop import VirtualLoop
from txmanager.core.states import Status
from txmanager.rpc.errors import RpcError

LIES = ("failed", "hidden", "count_up", "count_down", "reverts", "refuses", "high")


class LyingWorld(World):
    agreement = 2

    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        dice = random.Random(f"lying:{seed}")
        self.lies = frozenset(dice.sample(LIES, dice.randint(1, 3)))
        self.agreement_for_done = dice.random() < 0.4
        if not self.agreement_for_done:
            self.lies -= {"high"}  # success on the word of one node is believed: that is what the setting is for

    def tells(self, node: int, method: str, params: Any, answer: Any) -> Any:
        if node != 0 or self.healing:
            return answer
        told = self._lie(method, params, answer)
        if told is not answer:
            self.struck["lie"] += 1
        return told

    def _lie(self, method: str, params: Any, answer: Any) -> Any:
        lies = self.lies
        if method == "eth_getTransactionReceipt" and answer is not None:
            about = random.Random(f"{self.seed}:{params[0]}").random()
            if "failed" in lies and about < 0.6:
                return {**answer, "status": "0x0"}
            if "hidden" in lies:
                return None
        if method == "eth_getTransactionCount" and lies & {"count_up", "count_down"}:
            return hex(int(answer, 16) + 40) if "count_up" in lies else "0x0"
        if method in ("eth_estimateGas", "eth_call") and "reverts" in lies:
            raise RpcError({"code": 3, "message": "execution reverted"})
        if method == "eth_sendRawTransaction" and "refuses" in lies:
            raise RpcError({"code": -32000, "message": "intrinsic gas too low"})
        if method == "eth_getBlockByNumber" and "high" in lies and answer is not None:
            return {**answer, "number": hex(int(answer["number"], 16) + 50), "hash": "0x" + "ab" * 32}
        return answer

    def _check_end(self) -> None:
        super()._check_end()
        for key, fact in self.owed.ended.items():
            if fact.outcome.status is Status.FAILED and not self.deep and not self.tampered:
                self.say(f"{key} failed on a liar's word: {fact.outcome.error}")


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=LyingWorld)
