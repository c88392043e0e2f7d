"""The fuzzer of `test_hostile_nodes`, guided by coverage. Run by hand; it needs `pip install atheris`:

    python -m tests.attacks.fuzz_nodes -max_total_time=3600

A crash is a finding: libFuzzer writes the input to `crash-...`, which the same command replays when given as argument.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["txmanager.chains", "txmanager.rpc", "txmanager.core"]):
    from tests.attacks.hostile import evm_pass, near_pass, run


def one(data: bytes) -> None:
    told = atheris.FuzzedDataProvider(data)

    def draw(below: int) -> int:
        return int(told.ConsumeIntInRange(0, below - 1))

    run(near_pass if draw(2) else evm_pass, draw)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
