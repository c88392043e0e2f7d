"""The chain as the simulator's checker looks at it, read block by block over the node's own RPC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import base58

from tests.devnet.process import Devnet
from txmanager.devnet.model import Transfer

Line = dict[str, Any]


@dataclass(frozen=True)
class SeenTx:
    hash: bytes
    actions: tuple[object, ...]
    nonce: int
    public_key: str


@dataclass(frozen=True)
class SeenBlock:
    height: int
    hash: bytes
    txs: tuple[SeenTx, ...]


@dataclass(frozen=True)
class SeenOutcome:
    failed: bool


@dataclass(frozen=True)
class SeenRecord:
    height: int
    outcomes: tuple[SeenOutcome, ...]


@dataclass
class SeenChain:
    """Every final block, read over the node's own RPC."""

    blocks: list[SeenBlock] = field(default_factory=list)
    records: dict[bytes, SeenRecord] = field(default_factory=dict)
    upto: int = 100_000_000

    @property
    def by_height(self) -> dict[int, SeenBlock]:
        return {block.height: block for block in self.blocks}

    def read(self, devnet: Devnet) -> SeenChain:
        """Go on from where the last reading ended."""
        head = int(devnet.head("final")["height"])
        for height in range(self.upto + 1, head + 1):
            answer = devnet.post("chunk", {"block_id": height, "shard_id": 0}).json()
            if "error" in answer:
                assert answer["error"]["cause"]["name"] == "UNKNOWN_BLOCK", answer
                continue
            if answer["result"]["transactions"]:
                self._keep(devnet, height, answer["result"]["transactions"])
        self.upto = max(self.upto, head)
        return self

    def _keep(self, devnet: Devnet, height: int, told: Sequence[Line]) -> None:
        txs = []
        for tx in told:
            digest = base58.b58decode(tx["hash"])
            [action] = tx["actions"]
            seen = Transfer(int(action["Transfer"]["deposit"])) if "Transfer" in action else action
            txs.append(SeenTx(digest, (seen,), int(tx["nonce"]), tx["public_key"]))
            params = {"tx_hash": tx["hash"], "sender_account_id": tx["signer_id"], "wait_until": "NONE"}
            fate = devnet.rpc("tx", params)
            outcomes = [fate["transaction_outcome"], *fate["receipts_outcome"]]
            failed = tuple(SeenOutcome("Failure" in o["outcome"]["status"]) for o in outcomes)
            self.records[digest] = SeenRecord(height, failed)
        digest = base58.b58decode(devnet.rpc("block", {"block_id": height})["header"]["hash"])
        self.blocks.append(SeenBlock(height, digest, tuple(txs)))

    def paid(self) -> dict[int, int]:
        """How often each amount went out."""
        counts: dict[int, int] = {}
        for block in self.blocks:
            for tx in block.txs:
                [action] = tx.actions
                if isinstance(action, Transfer):
                    counts[action.deposit] = counts.get(action.deposit, 0) + 1
        return counts
