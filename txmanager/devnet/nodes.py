"""What nodes know: each looks at the one chain from its own distance, and answers from there.

Reading changes nothing, except that it may draw on a fault: a lagging node answers from the past, a
disagreeing one from a past drawn anew, a forgetful one without old transactions.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from .chain import Chain
from .config import Config
from .errors import Unknown
from .faults import Faults
from .model import AccessKey, Account, Block, TxRecord
from .state import Key
from .status import Level, level_of
from .validate import Reader


class View(NamedTuple):
    """What one node knows at one moment."""

    node: int
    head: Block
    final: Block
    oldest: int  # transactions below this height are forgotten


class TxStatus(NamedTuple):
    level: Level
    record: TxRecord
    view: View


class Nodes:
    """The reading half of a network. `node` is always an index below `config.nodes`."""

    config: Config
    chain: Chain
    faults: Faults
    rng: random.Random

    def view(self, node: int = 0) -> View:
        if not 0 <= node < self.config.nodes:
            raise Unknown("node", node)
        blocks = self.chain.blocks
        lag, oldest = 0, 0
        if self.faults.active:
            behind = self.faults.draw("lag", node=node)
            wavering = self.faults.draw("disagree", node=node)
            forgetful = self.faults.draw("forget", node=node)
            lag = behind.blocks if behind else 0
            lag += self.rng.randint(0, wavering.blocks) if wavering else 0
            lag = min(lag, len(blocks) - 1)
            if forgetful is not None:
                oldest = blocks[-1 - lag].height - forgetful.blocks
        head = len(blocks) - 1 - lag
        return View(node, blocks[head], blocks[max(0, head - self.config.finality_lag)], oldest)

    def status(self, tx_hash: bytes, node: int = 0) -> TxStatus | None:
        """Where a transaction stands at this node, or None when it is unknown there."""
        view = self.view(node)
        record = self.known(tx_hash, view)
        if record is None:
            return None
        return TxStatus(level_of(record, view.head.height, view.final.height), record, view)

    def known(self, tx_hash: bytes, view: View) -> TxRecord | None:
        record = self.chain.records.get(tx_hash)
        if record is None or record.height > view.head.height or record.height < view.oldest:
            return None
        return record

    def head(self, node: int = 0) -> Block:
        return self.view(node).head

    def final(self, node: int = 0) -> Block:
        return self.view(node).final

    def at(self, finality: str = "final", node: int = 0) -> Block:
        """The block a finality names at this node: `optimistic`, `near-final` or `final`."""
        view = self.view(node)
        if finality == "optimistic":
            return view.head
        if finality == "near-final":
            return self.chain.by_hash.get(view.head.prev_hash, view.head)
        return view.final

    def block(self, ref: int | bytes, node: int = 0) -> Block:
        """By height or hash; raises `Unknown` for what this node has not."""
        found = self.chain.by_hash.get(ref) if isinstance(ref, bytes) else self.chain.by_height.get(ref)
        if found is None or found.height > self.view(node).head.height:
            raise Unknown("block", ref)
        return found

    def chunk(self, chunk_hash: bytes, node: int = 0) -> Block:
        return self.block(chunk_hash[::-1], node)

    def reader(self, block: Block) -> Reader:
        """Reads state as it was after `block`."""
        state = self.chain.state
        if block is self.chain.blocks[-1]:
            return state.head.get
        height = block.height

        def read(key: Key) -> object:
            return state.at(key, height)

        return read

    def account(self, account_id: str, *, finality: str = "final", node: int = 0) -> Account | None:
        account: Account | None = self.reader(self.at(finality, node))((account_id,))
        return account

    def access_key(
        self, account_id: str, public_key: str, *, finality: str = "final", node: int = 0
    ) -> tuple[AccessKey | None, Block]:
        """The key as of a finality, and the block it was read at."""
        block = self.at(finality, node)
        key: AccessKey | None = self.reader(block)((account_id, public_key))
        return key, block

    def gas_key_nonces(
        self, account_id: str, public_key: str, *, finality: str = "final", node: int = 0
    ) -> tuple[list[int] | None, Block]:
        block = self.at(finality, node)
        read = self.reader(block)
        key: AccessKey | None = read((account_id, public_key))
        if key is None or key.gas_balance is None:
            return None, block
        return [read((account_id, public_key, index)) for index in range(key.num_nonces)], block
