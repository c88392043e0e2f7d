"""Lies that nobody thought of: any field of any answer of the first node, replaced by any of a set of hostile values.

Success needs two words here as well, so that no lie at all may be believed. The lies end with the faults.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim.evm.lying import LyingWorld as EvmLyingWorld
from tests.sim.evm.world import Result as EvmResult
from tests.sim.evm.world import run as run_evm_world
from tests.sim.history import History
from tests.sim.loop import VirtualLoop
from tests.sim.lying import LyingRpc, LyingWorld, plan_of
from tests.sim.plan import Plan
from tests.sim.world import Result
from tests.sim.world import run as run_world
from txmanager.rpc.errors import RpcError

NEAR_METHODS = ("query", "tx", "EXPERIMENTAL_tx_status", "block", "chunk", "status", "send_tx", "broadcast_tx_async")
EVM_METHODS = (
    "eth_getTransactionReceipt",
    "eth_getTransactionCount",
    "eth_getBlockByNumber",
    "eth_getBalance",
    "eth_estimateGas",
    "eth_sendRawTransaction",
)
NEAR_ERRORS = ("UNKNOWN_TRANSACTION", "UNKNOWN_ACCESS_KEY", "UNKNOWN_ACCOUNT", "UNKNOWN_BLOCK", "INVALID_TRANSACTION")
_HEX = re.compile("0x[0-9a-f]{1,16}")
EVM_ERRORS = ("execution reverted", "nonce too low", "intrinsic gas too low", "insufficient funds", "already known")


@dataclass(frozen=True)
class Lie:
    """About one method: replace its n-th field by a value, or answer with an error; `every` so many answers."""

    method: str
    field: int
    value: Any
    error: str | None = None
    every: int = 1


def leaves(answer: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(answer, dict):
        for name in answer:
            yield from leaves(answer[name], (*path, name))
    elif isinstance(answer, list):
        for n in range(len(answer)):
            yield from leaves(answer[n], (*path, n))
    else:
        yield path


def bent(answer: Any, lie: Lie) -> Any:
    paths = list(leaves(answer))
    if not paths:
        return lie.value
    path = paths[lie.field % len(paths)]
    if not path:
        return _near_by(answer, lie.value)
    answer = copy.deepcopy(answer)
    inside = answer
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = _near_by(inside[path[-1]], lie.value)
    return answer


def _near_by(true: Any, value: Any) -> Any:
    """A whole number moves what is there by so much, in its own form; anything else takes its place."""
    if type(value) is not int:
        return value
    if type(true) is int:
        return max(0, true + value)
    if isinstance(true, str) and _HEX.fullmatch(true):
        return hex(max(0, int(true, 16) + value))
    if isinstance(true, str) and true.isascii() and true.isdigit():
        return str(max(0, int(true) + value))
    return value


class Teller:
    def __init__(self, lies: Sequence[Lie]) -> None:
        self._lies = lies
        self._asked: Counter[Lie] = Counter()
        self.told = 0

    def tell(self, method: str, answer: Any, errors: Any) -> Any:
        for lie in self._lies:
            if lie.method != method:
                continue
            self._asked[lie] += 1
            if self._asked[lie] % lie.every:
                continue
            self.told += 1
            if lie.error is not None:
                raise RpcError(errors(lie.error))
            answer = bent(answer, lie)
        return answer


def _near_error(name: str) -> dict[str, Any]:
    data = {"TxExecutionError": {"InvalidTxError": {"InvalidAccessKeyError": "RequiresFullAccess"}}}
    return {"name": "HANDLER_ERROR", "cause": {"name": name}, "data": data}


class FuzzedRpc(LyingRpc):
    def _lie(self, method: str, asked: Any, answer: Any) -> Any:
        assert isinstance(self.world, FuzzedWorld)
        return self.world.teller.tell(method, answer, _near_error)


class FuzzedWorld(LyingWorld):
    agreement_for_done = True
    lies_told: Sequence[Lie] = ()

    def __init__(self, plan: Plan, loop: VirtualLoop, history: History) -> None:
        super().__init__(plan, loop, history)
        self.teller = Teller(self.lies_told)
        self.nodes_seen = FuzzedRpc


class EvmFuzzedWorld(EvmLyingWorld):
    lies_told: Sequence[Lie] = ()

    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        self.agreement_for_done = True
        self.teller = Teller(self.lies_told)

    def _lie(self, method: str, params: Any, answer: Any) -> Any:
        return self.teller.tell(method, answer, lambda words: {"code": -32000, "message": words})


def run_near(seed: int, lies: Sequence[Lie], *, verbose: bool = False) -> Result:
    kind = type("Fuzzed", (FuzzedWorld,), {"lies_told": tuple(lies)})
    return run_world(plan_of(seed), verbose=verbose, kind=kind)


def run_evm(seed: int, lies: Sequence[Lie], *, verbose: bool = False) -> EvmResult:
    kind = type("Fuzzed", (EvmFuzzedWorld,), {"lies_told": tuple(lies)})
    return run_evm_world(seed, verbose=verbose, kind=kind)
