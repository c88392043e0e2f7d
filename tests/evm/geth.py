"""A real geth: the one on the PATH, else one built once from the Go module proxy into .cache/.

`python -m tests.evm.geth` gets it beforehand and prints where it is; the first test that needs it would wait for it.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evm.machines import HOST, ROOT, Machine
from tests.waiting import until_sync

VERSION = "v1.16.7"
"""Later releases need a module that the proxy does not have."""
PACKAGE = f"github.com/ethereum/go-ethereum/cmd/geth@{VERSION}"
CHAIN_ID = 1337


@functools.cache
def geth_binary() -> Path | None:
    """Where geth is; None where it is neither installed nor can be built."""
    if found := shutil.which("geth"):
        return Path(found)
    go = shutil.which("go")
    if go is None:
        return None
    folder = ROOT / ".cache" / f"geth-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / "geth"
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another run may be building
        if not binary.exists():
            done = subprocess.run(
                [go, "install", PACKAGE],
                env={**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"},
                check=False,
                capture_output=True,
                timeout=1_500,
            )
            if done.returncode != 0:
                print(f"geth could not be built: {done.stderr.decode()[-500:]}", file=sys.stderr)
                return None
    return binary


class Geth(Machine):
    """`Geth("--dev.period", "1")` seals a block every second; without it, whenever a transaction waits.

    Its database and state scheme are those that lose no block at a kill (the defaults begin again near the genesis
    block) and can go back to any of them (`debug_setHead`).
    """

    chain_id = CHAIN_ID

    def __init__(self, *arguments: str, journal: bool = True) -> None:
        binary = geth_binary()
        if binary is None:
            pytest.skip(f"needs geth on the PATH, or go to build {VERSION}")
        alone = ["--dev", "--nodiscover", "--maxpeers", "0", "--ipcdisable", "--port", "0", "--authrpc.port", "0"]
        serve = ["--http", "--http.addr", HOST, "--http.port", "{port}", "--http.api", "eth,net,web3,txpool,debug"]
        keep = ["--datadir", "{directory}/chain", "--db.engine", "leveldb", "--gcmode", "archive"]
        keep += ["--state.scheme", "hash", "--verbosity", "2", "--cache", "64"]
        pool = [] if journal else ["--txpool.journal", ""]
        super().__init__([str(binary), *alone, *serve, *keep, *pool, *arguments])

    def start(self) -> None:
        super().start()
        [self.bank] = self.rpc("eth_accounts")

    def fund(self, address: str, wei: int = 10**21) -> None:
        """Sent by the developer account, which geth holds unlocked; ends when the balance is there."""
        before = self.balance(address)
        self.rpc("eth_sendTransaction", {"from": self.bank, "to": address, "value": hex(wei)})
        until_sync(lambda: self.balance(address) == before + wei, 30.0, what=f"{address} funded")

    def pool(self) -> tuple[int, int]:
        """How many wait, ready and behind a gap."""
        status = self.rpc("txpool_status")
        return int(status["pending"], 16), int(status["queued"], 16)

    def set_head(self, height: int) -> None:
        self.rpc("debug_setHead", hex(height))


if __name__ == "__main__":
    found = geth_binary()
    print(found or f"no geth: put one on the PATH, or install go, which builds {VERSION}")
    sys.exit(found is None)
