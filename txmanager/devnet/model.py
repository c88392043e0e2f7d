"""The chain's nouns: actions, transactions, accounts, keys, receipts, outcomes, blocks.

Everything stored in chain state is an immutable tuple, so that an old block's view can share it with
the head. Nothing here knows a wire format, JSON or a clock.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NO_CODE = bytes(32)


class CreateAccount(NamedTuple):
    pass


class DeployContract(NamedTuple):
    code: bytes


class FunctionCall(NamedTuple):
    method_name: str
    args: bytes
    gas: int
    deposit: int = 0


class Transfer(NamedTuple):
    deposit: int


class Permission(NamedTuple):
    """What a function-call key may do; a key without one has full access."""

    receiver_id: str
    method_names: tuple[str, ...] = ()
    allowance: int | None = None


class AddKey(NamedTuple):
    public_key: str
    permission: Permission | None = None
    num_nonces: int | None = None  # a gas key when set
    nonce: int = 0  # ignored by the protocol, echoed in views
    balance: int = 0  # must be zero; only there to be refused


class DeleteKey(NamedTuple):
    public_key: str


class DeleteAccount(NamedTuple):
    beneficiary_id: str


class TransferToGasKey(NamedTuple):
    public_key: str
    deposit: int


class WithdrawFromGasKey(NamedTuple):
    public_key: str
    amount: int


class Unsupported(NamedTuple):
    """An action that decodes but that this network refuses to run."""

    name: str
    view: Any


class Delegate(NamedTuple):
    """A signed delegate action (NEP-366); `signature_ok` is filled by whoever decoded it."""

    sender_id: str
    receiver_id: str
    actions: tuple[Action, ...]
    nonce: int
    max_block_height: int
    public_key: str
    signature_ok: bool = True
    signature: str = "ed25519:" + "1" * 64
    second: bool = False  # DelegateV2, which a gas key can sign
    nonce_index: int | None = None


Action = (
    CreateAccount
    | DeployContract
    | FunctionCall
    | Transfer
    | AddKey
    | DeleteKey
    | DeleteAccount
    | TransferToGasKey
    | WithdrawFromGasKey
    | Unsupported
    | Delegate
)


@dataclass(slots=True, eq=False)
class Tx:
    """A decoded transaction. `valid_signature` is None until somebody has to know."""

    signer_id: str
    public_key: str
    nonce: int
    receiver_id: str
    block_hash: bytes
    actions: tuple[Action, ...]
    hash: bytes = b""
    nonce_index: int | None = None
    strict: bool = False
    version: int = 0
    size: int = 256
    signature: bytes = bytes(64)
    valid_signature: bool | None = True

    def __post_init__(self) -> None:
        if not self.hash:
            # Only a simulator builds a Tx by hand; its identity must still depend on all it says.
            named = tuple((type(action).__name__, action) for action in self.actions)
            identity = (self.signer_id, self.public_key, self.nonce, self.nonce_index, self.strict)
            identity += (self.receiver_id, self.block_hash, named)  # type: ignore[assignment]
            self.hash = hashlib.sha256(repr(identity).encode()).digest()

    @property
    def lane(self) -> tuple[str, str, int | None]:
        """The nonce sequence it belongs to: what a pool groups by."""
        return (self.signer_id, self.public_key, self.nonce_index)


class Account(NamedTuple):
    amount: int
    locked: int = 0
    code_hash: bytes = NO_CODE
    storage_usage: int = 100
    keys: tuple[str, ...] = ()

    def holding(self, amount: int) -> Account:
        """The account with another balance; the most frequent change of all, so spelled out for speed."""
        return Account(amount, self.locked, self.code_hash, self.storage_usage, self.keys)


class AccessKey(NamedTuple):
    nonce: int
    permission: Permission | None = None
    gas_balance: int | None = None  # a gas key when set
    num_nonces: int = 0


@dataclass(slots=True, eq=False)
class Receipt:
    """Work for one account. `waits_for` counts the inputs a callback still lacks."""

    id: bytes
    tx_hash: bytes
    predecessor_id: str
    receiver_id: str
    signer_id: str
    signer_key: str
    actions: tuple[Action, ...]
    gas: int  # prepaid, execution fees included
    deposit: int
    refund: bool = False
    gas_key: str | None = None  # where unspent gas goes back to, when a gas key paid
    output_to: bytes | None = None
    waits_for: bytes | None = None
    input: Any = None  # the awaited status, once known


@dataclass(slots=True, eq=False)
class Outcome:
    """What running one transaction or receipt did. `status` is in the protocol's own JSON shape."""

    id: bytes
    executor_id: str
    status: Any
    height: int
    block_hash: bytes
    gas_burnt: int
    tokens_burnt: int
    receipt_ids: tuple[bytes, ...] = ()
    logs: tuple[str, ...] = ()
    receipt: Receipt | None = None

    @property
    def failed(self) -> bool:
        return isinstance(self.status, dict) and "Failure" in self.status


@dataclass(slots=True, eq=False)
class TxRecord:
    """A transaction on the chain, from inclusion until its last refund ran."""

    tx: Tx
    height: int
    outcomes: list[Outcome]  # the transaction's own first, then receipts in order of execution
    open: int = 0  # receipts not run yet, refunds excepted
    open_refunds: int = 0
    executed_at: int | None = None  # height at which nothing but refunds was left
    done_at: int | None = None


@dataclass(slots=True, eq=False)
class Block:
    height: int
    hash: bytes
    prev_hash: bytes
    prev_height: int
    timestamp_ms: float
    producer: int
    txs: list[Tx] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    gas_used: int = 0
    burnt: int = 0
    supply: int = 0

    @property
    def chunk_hash(self) -> bytes:
        # One shard, one chunk a block: reversing the hash names it without an index to keep.
        return self.hash[::-1]
