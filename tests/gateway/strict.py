"""The strict node as a machine of the tests, and the checker that judges from its log alone."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.evm.machines import Anvil, Machine

ROOT = Path(__file__).parent.parent.parent


class Strict(Machine):
    """`Strict(anvil)` shows counts 2 to 5 s late; `lag=(0.2, 0.4)` for tests about something else."""

    def __init__(self, anvil: Anvil, lag: tuple[float, float] = (2.0, 5.0), delay: float = 0.05, seed: int = 1) -> None:
        options = ["--lag", *map(str, lag), "--delay", str(delay), "--seed", str(seed)]
        command = [sys.executable, "-m", "tests.gateway.strict_node", "--node", anvil.url, "--port", "{port}", *options]
        super().__init__(command, cwd=ROOT)
        self.anvil = anvil

    def log(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = self.rpc("strict_log")
        return told

    def hang_next(self, sends: int) -> None:
        """The next sends are taken and never answered."""
        self.rpc("strict_hang", sends)

    def refuse_next(self, sends: int, words: str) -> None:
        self.rpc("strict_refuse", sends, words)


@dataclass
class Judgement:
    taken: dict[str, list[int]] = field(default_factory=dict)
    """By sender: nonces in the order the node took them."""
    hashes: set[str] = field(default_factory=set)
    wrong_nonces: int = 0
    repeats: int = 0
    out_of_order: int = 0


def judge(log: Iterable[dict[str, Any]]) -> Judgement:
    """What the node took, in order, and what it charged for nothing."""
    told = Judgement()
    taken: defaultdict[str, list[int]] = defaultdict(list)
    for entry in log:
        if entry["what"] == "wrong_nonce":
            told.wrong_nonces += 1
        elif entry["what"] == "repeat":
            told.repeats += 1
        elif entry["what"] == "taken":
            before = taken[entry["sender"]]
            if before and entry["nonce"] != before[-1] + 1:
                told.out_of_order += 1
            before.append(entry["nonce"])
            told.hashes.add(entry["hash"])
    told.taken = dict(taken)
    return told


def check(log: Iterable[dict[str, Any]], accepted: Iterable[str], *, repeats: int = 0) -> Judgement:
    """Everything accepted was taken, each sender in order, nobody charged for a wrong nonce, few repeats."""
    told = judge(log)
    assert told.wrong_nonces == 0, f"{told.wrong_nonces} sends were charged for a wrong nonce"
    assert told.out_of_order == 0, f"{told.out_of_order} were taken out of order"
    missing = set(accepted) - told.hashes
    assert not missing, f"{len(missing)} accepted transactions never reached the node: {sorted(missing)[:3]}"
    assert told.repeats <= repeats, f"{told.repeats} repeats, at most {repeats} expected"
    return told
