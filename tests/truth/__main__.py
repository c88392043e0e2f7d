"""`make truth`: what the tests believe of real nodes, asked of yours.

    NEAR_RPC=https://... NEAR_NETWORK=testnet NEAR_ACCOUNT=relayer.testnet NEAR_KEYS=file:keys.json make truth
    GETH=/usr/local/bin/geth make truth            (the file must be called geth)

Every step runs the real programs against the node and ends as a row of the table. The NEAR steps spend money of
NEAR_ACCOUNT (about 0.01 NEAR for each created account, 2 NEAR for 105 keys); ACCOUNTS sets how many accounts are
created (500).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WANTED = """nothing to ask. Set one of these, or both:
  NEAR_RPC, NEAR_ACCOUNT, NEAR_KEYS   a NEAR node, a funded account there, its keys (file:PATH or env:NAME);
                                      NEAR_NETWORK names the network (testnet), ACCOUNTS how many to create (500)
  GETH                                the path of a geth"""


@dataclass(frozen=True)
class Step:
    name: str
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def steps(told: Mapping[str, str]) -> Iterator[Step]:
    txmanager = [sys.executable, "-m", "txmanager"]
    if rpc := told.get("NEAR_RPC"):
        network = told.get("NEAR_NETWORK", "testnet")
        yield Step("NEAR: recorded questions", [*txmanager, "devnet", "compare", "--rpc", rpc])
        if "NEAR_ACCOUNT" in told and "NEAR_KEYS" in told:
            account = ["--near-account", told["NEAR_ACCOUNT"], "--near-keys", told["NEAR_KEYS"]]
            node = ["--near-rpc", rpc, "--near-network", network, *account]
            count = told.get("ACCOUNTS", "500")
            yield Step(
                f"NEAR: {count} accounts, retries, kill -9, audit", [*txmanager, "demo", "--accounts", count, *node]
            )
            given = {"rpc": rpc, "network": network, "account": told["NEAR_ACCOUNT"], "keys": told["NEAR_KEYS"]}
            options = [word for name, value in given.items() for word in (f"--{name}", value)]
            story = [sys.executable, "-m", "tests.truth.near"]
            yield Step("NEAR: delegates, expired ones and eight of one nonce", [*story, "delegates", *options])
            yield Step("NEAR: 105 keys on one account", [*story, "provision", *options])
    if geth := told.get("GETH"):
        path = f"{Path(geth).resolve().parent}{os.pathsep}{os.environ['PATH']}"
        files = ["tests/evm/test_geth_refusals.py", "tests/evm/test_on_geth.py"]
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
        yield Step("geth: refusals, order, kills, rollbacks", pytest, {"PATH": path})


def run(step: Step, log: Path) -> tuple[bool, float]:
    began = time.monotonic()
    print(f"{step.name} ...", flush=True)
    with log.open("wb") as output:
        code = subprocess.call(
            step.command, cwd=ROOT, env={**os.environ, **step.environment}, stdout=output, stderr=subprocess.STDOUT
        )
    return code == 0, time.monotonic() - began


def main(told: Mapping[str, str]) -> int:
    planned = list(steps(told))
    if not planned:
        print(WANTED)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="txmanager-truth-"))
    rows = []
    for number, step in enumerate(planned):
        log = folder / f"{number}.log"
        held, seconds = run(step, log)
        rows.append((step.name, "held" if held else "BROKEN", f"{seconds:.0f} s", "" if held else str(log)))
    width = max(len(name) for name, *_ in rows)
    print()
    for name, result, seconds, where in rows:
        print(f"{name:<{width}}  {result:<6}  {seconds:>6}  {where}".rstrip())
    return any(result == "BROKEN" for _, result, *_ in rows)


if __name__ == "__main__":
    sys.exit(main(os.environ))
