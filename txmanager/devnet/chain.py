"""The chain: blocks made from pools, receipts carried from block to block, and the way back.

No transaction is included twice, with a stale nonce or outside its validity. Supply is exact: what the
accounts, gas keys and travelling receipts hold, plus what was burnt, is what genesis had.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from typing import Any, NamedTuple

from . import fees
from .config import Config
from .errors import InvalidTx
from .genesis import Genesis
from .model import AccessKey, Account, Block, Outcome, Receipt, Tx, TxRecord
from .pool import Pool
from .runtime import run
from .state import Key, State
from .validate import Charge, check_shape, check_signer, check_upper_bound

MAX_BACKLOG = 20_000 * fees.TGAS  # delayed receipts at which a shard counts as fully congested
_GC_STEP = 1_000

_Saved = tuple[int, int, int, int | None, int | None]


class _Undo(NamedTuple):
    """All it takes to make the newest block not have happened."""

    state: dict[Key, Any]
    queue: tuple[Receipt, ...]
    waiting: dict[bytes, Receipt]
    answers: dict[bytes, Any]
    burnt: int
    records: dict[bytes, tuple[TxRecord, _Saved]]


class Chain:
    def __init__(self, genesis: Genesis, config: Config, now: float) -> None:
        self.genesis = genesis
        self.config = config
        self.state = State(genesis.state)
        first = Block(genesis.height, genesis.hash, bytes(32), genesis.height - 1, now, 0, supply=genesis.supply)
        self.blocks = [first]  # the canonical chain, oldest kept first
        self.by_hash = {first.hash: first}
        self.by_height = {first.height: first}
        self.records: dict[bytes, TxRecord] = {}
        self.next_height = genesis.height + 1
        self.burnt = 0
        self.refused: Counter[str] = Counter()
        """Transactions that a node or a block refused, by reason, since this process began."""
        self._queue: deque[Receipt] = deque()  # in the order they will run
        self._waiting: dict[bytes, Receipt] = {}  # callbacks by the receipt they wait for
        self._answers: dict[bytes, Any] = {}  # receipts answered by a child, and who waits for them
        self._touched: dict[bytes, tuple[TxRecord, _Saved]] = {}
        self._undo: deque[_Undo] = deque(maxlen=config.finality_lag)

    # making a block

    def produce(self, pool: Pool, producer: int, now: float) -> Block:
        prev = self.blocks[-1]
        height = self.next_height
        self.next_height += 1
        before = (tuple(self._queue), dict(self._waiting), dict(self._answers), self.burnt)
        self._touched = {}
        at = max(now, prev.timestamp_ms + 0.001)  # block time only grows, whatever the clock does
        digest = hashlib.sha256(prev.hash + height.to_bytes(8, "little") + repr(at).encode())
        block = Block(height, digest.digest(), prev.hash, prev.height, at, producer)

        local: list[Receipt] = []
        gas = 0
        if len(pool):
            for tx in pool.take():
                gas += self._include(tx, block, prev, local)
                if gas >= self.config.tx_gas_limit:
                    break
        block.gas_used = gas
        self._run_receipts(block, local, len(before[0]))

        undo = self.state.seal(height)
        self._undo.append(_Undo(undo, *before, self._touched))
        block.burnt = self.burnt - before[3]
        block.supply = self.genesis.supply - self.burnt
        self.blocks.append(block)
        self.by_hash[block.hash] = block
        self.by_height[height] = block
        if len(self.blocks) > self.config.keep_blocks + _GC_STEP:
            self._collect_garbage()
        return block

    def _include(self, tx: Tx, block: Block, prev: Block, local: list[Receipt]) -> int:
        """Turn a transaction into its receipt. One that is not valid is dropped without a word."""
        if tx.hash in self.records:
            return 0
        base = self.by_hash.get(tx.block_hash)
        if base is None or prev.height > base.height + self.config.validity:
            return 0
        price = self.config.gas_price
        try:
            # The cheap check first: a pool is full of what another producer has already included.
            charge = check_signer(self.state.get, tx, self.config)
            check_upper_bound(tx, block.height)
            check_shape(tx)
        except InvalidTx as refusal:
            self.refused[refusal.name] += 1
            return 0
        self._charge(tx, charge)
        receipt = Receipt(
            id=hashlib.sha256(tx.hash + block.height.to_bytes(8, "little")).digest(),
            tx_hash=tx.hash,
            predecessor_id=tx.signer_id,
            receiver_id=tx.receiver_id,
            signer_id=tx.signer_id,
            signer_key=tx.public_key,
            actions=tx.actions,
            gas=fees.receipt_gas(tx.actions, tx.receiver_id),
            deposit=charge.deposit,
            gas_key=tx.public_key if charge.key.gas_balance is not None else None,
        )
        burnt = fees.tx_gas(tx.actions, tx.signer_id, tx.receiver_id, tx.public_key)
        self.burnt += burnt * price
        status = {"SuccessReceiptId": receipt.id}
        outcome = Outcome(tx.hash, tx.signer_id, status, block.height, block.hash, burnt, burnt * price, (receipt.id,))
        record = TxRecord(tx, block.height, [outcome], open=1)
        self._touched[tx.hash] = (record, (0, 0, 0, None, None))
        self.records[tx.hash] = record
        block.txs.append(tx)
        if tx.signer_id == tx.receiver_id:
            local.append(receipt)  # an account's receipt to itself does not leave the chunk
        else:
            self._queue.append(receipt)
            block.receipts.append(receipt)
        return burnt

    def _charge(self, tx: Tx, charge: Charge) -> None:
        account, key, gas_cost, deposit = charge
        where = (tx.signer_id, tx.public_key)
        if key.gas_balance is not None:
            self.state.put((tx.signer_id,), account.holding(account.amount - deposit))
            self.state.put(where, key._replace(gas_balance=key.gas_balance - gas_cost))
            self.state.put((*where, tx.nonce_index), tx.nonce)
            return
        cost = gas_cost + deposit
        permission = key.permission
        if permission is not None and permission.allowance is not None:
            permission = permission._replace(allowance=permission.allowance - cost)
        self.state.put((tx.signer_id,), account.holding(account.amount - cost))
        self.state.put(where, AccessKey(tx.nonce, permission))

    # receipts

    def _run_receipts(self, block: Block, local: list[Receipt], due: int) -> None:
        """Those of this chunk's own accounts, then the `due` oldest: none made in this very block."""
        for receipt in local:
            self._run_one(receipt, block)
        for _ in range(due):
            if block.gas_used >= self.config.receipt_gas_limit:
                break  # what is left runs in later blocks, still in order
            self._run_one(self._queue.popleft(), block)

    def _run_one(self, receipt: Receipt, block: Block) -> None:
        record = self.records.get(receipt.tx_hash)
        ran = run(self.state, receipt, block.height, self.config)
        block.gas_used += ran.gas_burnt
        self.burnt += ran.tokens_burnt + ran.lost
        ids = tuple([child.id for child in ran.children])
        outcome = Outcome(
            receipt.id,
            receipt.receiver_id,
            ran.status,
            block.height,
            block.hash,
            ran.gas_burnt,
            ran.tokens_burnt,
            ids,
            ran.logs,
            receipt,
        )
        self._pass_on(receipt, ran.answered_by, ran.status)
        for child in ran.children:
            if child.waits_for is not None:
                self._waiting[child.waits_for] = child
            else:
                self._queue.append(child)
            block.receipts.append(child)
        if record is not None:
            self._account_for(record, receipt, outcome, ran.children, block.height)

    def _pass_on(self, receipt: Receipt, answered_by: bytes | None, status: Any) -> None:
        """Give the result to whoever waits for it, unless a child will speak for this receipt."""
        awaited = self._answers.pop(receipt.id, receipt.id)
        if awaited not in self._waiting:
            return
        if answered_by is not None:
            self._answers[answered_by] = awaited
            return
        callback = self._waiting.pop(awaited)
        callback.input = status
        self._queue.append(callback)

    def _account_for(
        self, record: TxRecord, receipt: Receipt, outcome: Outcome, children: list[Receipt], height: int
    ) -> None:
        saved = (len(record.outcomes), record.open, record.open_refunds, record.executed_at, record.done_at)
        self._touched.setdefault(record.tx.hash, (record, saved))
        record.outcomes.append(outcome)
        refunds = sum(1 for child in children if child.refund)
        record.open += len(children) - refunds - (not receipt.refund)
        record.open_refunds += refunds - receipt.refund
        if record.open == 0 and record.executed_at is None:
            record.executed_at = height
        if record.open == 0 and record.open_refunds == 0:
            record.done_at = height

    def backlog(self) -> float:
        """Congestion by delayed receipts, 0 to 1."""
        if len(self._queue) < 100:
            return 0.0
        return min(1.0, sum(receipt.gas for receipt in self._queue) / MAX_BACKLOG)

    # going back

    def orphan(self, depth: int) -> list[Block]:
        """Take back up to `depth` blocks, never a final one. The next block is made at a new height."""
        orphans = []
        for _ in range(min(depth, len(self._undo), len(self.blocks) - 1)):
            undo = self._undo.pop()
            block = self.blocks.pop()
            del self.by_hash[block.hash], self.by_height[block.height]
            self.state.unseal(block.height, undo.state)
            self._queue, self._waiting, self._answers = deque(undo.queue), undo.waiting, undo.answers
            self.burnt = undo.burnt
            for tx_hash, (record, saved) in undo.records.items():
                if saved[0] == 0:
                    del self.records[tx_hash]
                    continue
                del record.outcomes[saved[0] :]
                _, record.open, record.open_refunds, record.executed_at, record.done_at = saved
            orphans.append(block)
        return orphans

    def _collect_garbage(self) -> None:
        old, self.blocks = self.blocks[:_GC_STEP], self.blocks[_GC_STEP:]
        for block in old:
            del self.by_hash[block.hash], self.by_height[block.height]
            for tx in block.txs:
                self.records.pop(tx.hash, None)
        self.state.horizon = self.blocks[0].height

    # proof

    def holdings(self) -> int:
        """Every yocto that exists: accounts, gas keys, and what travels in receipts."""
        total = 0
        for value in self.state.head.values():
            if isinstance(value, Account):
                total += value.amount + value.locked
            elif isinstance(value, AccessKey):
                total += value.gas_balance or 0
        for receipt in (*self._queue, *self._waiting.values()):
            total += receipt.deposit + receipt.gas * self.config.purchase_price
        return total
