"""A real geth on a chain of its own."""

from __future__ import annotations

import pytest

from tests.evm.machines import HOST, Machine
from tests.servers.gobuilt import built, missing
from tests.waiting import until_sync

CHAIN_ID = 1337


class Geth(Machine):
    """`Geth("--dev.period", "1")` seals a block every second; without it, whenever a transaction waits.

    Its database and state scheme are those that lose no block at a kill (the defaults begin again near the genesis
    block) and can go back to any of them (`debug_setHead`).
    """

    chain_id = CHAIN_ID

    def __init__(self, *arguments: str, journal: bool = True) -> None:
        binary = built("geth")
        if binary is None:
            pytest.skip(missing("geth"))
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
