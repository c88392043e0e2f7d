"""A pure EVM chain: accounts, a pool with gaps and replacement, base fees, blocks, reorgs, eviction. No clock, no I/O.

It takes raw bytes and answers as clients do. What is in `effects` is the canonical chain's own view of who paid what.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import rlp  # type: ignore[import-untyped]
from coincurve import PublicKey

from txmanager.chains.evm.transaction import Fees, read_raw
from txmanager.signing.evm import keccak256

CHAIN_ID = 7
GWEI = 10**9
BLOCK_TXS = 6


class Refusal(Exception):
    """A JSON-RPC error's message."""


@dataclass(frozen=True, slots=True)
class Tx:
    hash: str
    sender: str
    nonce: int
    to: str
    value: int
    gas: int
    fees: Fees


@dataclass(frozen=True, slots=True)
class Block:
    number: int
    hash: str
    base_fee: int
    txs: tuple[Tx, ...]


@dataclass(slots=True)
class Machine:
    rng: random.Random
    balance: dict[str, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    pool: dict[str, dict[int, Tx]] = field(default_factory=dict)
    known: dict[bytes, Tx] = field(default_factory=dict)
    """Decoding costs more than everything else: once for each bytes."""
    next_base_fee: int = GWEI
    forks: int = 0
    room: int | None = None
    """How many of one account the pool takes; what could be mined next always has a place."""

    def __post_init__(self) -> None:
        self.blocks.append(Block(0, "0x" + "00" * 32, GWEI, ()))

    # -- reading

    @property
    def head(self) -> Block:
        return self.blocks[-1]

    def count(self, address: str, height: int | None = None) -> int:
        upto = self.head.number if height is None else height
        return sum(1 for b in self.blocks[: upto + 1] for tx in b.txs if tx.sender == address)

    def pending_count(self, address: str) -> int:
        """The next nonce after what the pool could mine."""
        nonce = self.count(address)
        while nonce in self.pool.get(address, {}):
            nonce += 1
        return nonce

    def find(self, hash: str) -> tuple[Block, Tx] | None:
        for block in reversed(self.blocks):
            for tx in block.txs:
                if tx.hash == hash:
                    return block, tx
        return None

    def final(self, hash: str, depth: int) -> bool:
        found = self.find(hash)
        return found is not None and found[0].number <= self.head.number - depth + 1

    def decode(self, raw: bytes) -> Tx:
        if raw not in self.known:
            told = read_raw(raw)
            parts = rlp.decode(raw[1:])
            digest = keccak256(raw[:1] + rlp.encode(parts[:-3]))
            r, s = (part.rjust(32, b"\0") for part in parts[-2:])
            signature = r + s + bytes([int.from_bytes(parts[-3], "big")])
            public = PublicKey.from_signature_and_message(signature, digest, hasher=None).format(compressed=False)
            sender = "0x" + keccak256(public[1:])[12:].hex()
            hash, to = "0x" + keccak256(raw).hex(), "0x" + told.body.to.hex()
            self.known[raw] = Tx(hash, sender, told.nonce, to, told.body.value, told.body.gas, told.fees)
        return self.known[raw]

    # -- the pool

    def send(self, raw: bytes) -> str:
        tx = self.decode(raw)
        mine = self.pool.setdefault(tx.sender, {})
        rival = mine.get(tx.nonce)
        next_nonce = self.count(tx.sender)
        if rival is not None and rival.hash == tx.hash:
            raise Refusal("already known")
        if tx.nonce < next_nonce:
            raise Refusal(f"nonce too low: next nonce {next_nonce}, tx nonce {tx.nonce}")
        if tx.value + tx.gas * tx.fees.max_fee > self.balance.get(tx.sender, 0):
            raise Refusal("insufficient funds for gas * price + value")
        if rival is not None:
            enough = (rival.fees.max_fee * 110 // 100, rival.fees.tip * 110 // 100)
            if tx.fees.max_fee <= enough[0] or tx.fees.tip <= enough[1]:
                raise Refusal("replacement transaction underpriced")
        if rival is None and self.room is not None and len(mine) >= self.room and tx.nonce != next_nonce:
            raise Refusal("txpool is full")
        mine[tx.nonce] = tx
        return tx.hash

    def drop(self) -> None:
        """A pool forgets: one transaction, or all of them."""
        for mine in self.pool.values():
            for nonce in sorted(mine):
                if self.rng.random() < 0.5:
                    del mine[nonce]

    # -- the chain

    def mine(self) -> None:
        taken: list[Tx] = []
        spent = dict(self.balance)
        base_fee = self.next_base_fee
        while len(taken) < BLOCK_TXS:
            ready = [tx for address in self.pool if (tx := self._next(address, taken)) is not None]
            ready = [tx for tx in ready if tx.fees.max_fee >= base_fee and self._pays(tx, spent, base_fee)]
            if not ready:
                break
            best = max(ready, key=lambda tx: (min(tx.fees.tip, tx.fees.max_fee - base_fee), tx.hash))
            price = base_fee + min(best.fees.tip, best.fees.max_fee - base_fee)
            spent[best.sender] -= best.value + best.gas * price
            spent[best.to] = spent.get(best.to, 0) + best.value
            taken.append(best)
        self.balance = spent
        number = self.head.number + 1
        hash = "0x" + keccak256(f"{number}:{self.forks}:{self.rng.random()}".encode()).hex()
        self.blocks.append(Block(number, hash, base_fee, tuple(taken)))
        for tx in taken:
            self.pool[tx.sender].pop(tx.nonce, None)
        for address, mine in self.pool.items():
            used = self.count(address)
            for nonce in [n for n in mine if n < used]:
                del mine[nonce]
        self.next_base_fee = max(GWEI // 10, base_fee * 9 // 10 if len(taken) < BLOCK_TXS else base_fee * 9 // 8)

    def _next(self, address: str, taken: list[Tx]) -> Tx | None:
        nonce = self.count(address) + sum(1 for tx in taken if tx.sender == address)
        return self.pool[address].get(nonce)

    @staticmethod
    def _pays(tx: Tx, balance: dict[str, int], base_fee: int) -> bool:
        return tx.value + tx.gas * tx.fees.max_fee <= balance.get(tx.sender, 0)

    def reorg(self, depth: int, keep: float) -> None:
        """The last blocks never were; each of their transactions is back in the pool, or forgotten."""
        depth = min(depth, len(self.blocks) - 1)
        gone, self.blocks = self.blocks[-depth:], self.blocks[:-depth]
        self.forks += 1
        for block in reversed(gone):
            for tx in reversed(block.txs):
                price = block.base_fee + min(tx.fees.tip, tx.fees.max_fee - block.base_fee)
                self.balance[tx.sender] += tx.value + tx.gas * price
                self.balance[tx.to] -= tx.value
                if self.rng.random() < keep:
                    self.pool.setdefault(tx.sender, {}).setdefault(tx.nonce, tx)
        for _ in range(depth):
            self.mine()

    # -- JSON-RPC

    def rpc(self, method: str, params: Any) -> Any:
        match method:
            case "eth_chainId":
                return hex(CHAIN_ID)
            case "eth_sendRawTransaction":
                return self.send(bytes.fromhex(params[0][2:]))
            case "eth_getBlockByNumber":
                return {"number": hex(self.head.number), "hash": self.head.hash}
            case "eth_blockNumber":
                return hex(self.head.number)
            case "eth_getTransactionCount":
                if params[1] == "pending":
                    return hex(self.pending_count(params[0]))
                height = None if params[1] == "latest" else int(params[1], 16)
                return hex(self.count(params[0], height))
            case "eth_getTransactionByHash":
                pooled = any(tx.hash == params[0] for mine in self.pool.values() for tx in mine.values())
                return {"hash": params[0]} if pooled or self.find(params[0]) is not None else None
            case "eth_getBalance":
                return hex(self.balance.get(params[0], 0))
            case "eth_feeHistory":
                recent = [b for b in self.blocks[-5:] if b.txs]
                tips = [sorted(tx.fees.tip for tx in b.txs)[len(b.txs) // 2] for b in recent]
                return {
                    "baseFeePerGas": [hex(b.base_fee) for b in recent] + [hex(self.next_base_fee)],
                    "gasUsedRatio": [0.5] * len(recent),
                    "reward": [[hex(tip)] for tip in tips],
                }
            case "eth_gasPrice":
                return hex(self.next_base_fee)
            case "eth_estimateGas":
                if int(params[0].get("value", "0x0"), 16) > self.balance.get(params[0]["from"], 0) and len(params) < 3:
                    raise Refusal("insufficient funds for transfer")
                return hex(21_000)
            case "eth_getTransactionReceipt":
                found = self.find(params[0])
                if found is None:
                    return None
                block, tx = found
                price = block.base_fee + min(tx.fees.tip, tx.fees.max_fee - block.base_fee)
                return {
                    "transactionHash": tx.hash,
                    "blockNumber": hex(block.number),
                    "blockHash": block.hash,
                    "status": "0x1",
                    "gasUsed": hex(tx.gas),
                    "effectiveGasPrice": hex(price),
                }
        raise Refusal(f"the method {method} does not exist")
