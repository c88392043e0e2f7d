"""Bytes that callers sign themselves, and what serving them asks of a chain: counts, prices, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

RAW_KEY = "raw:"
"""Followed by the hash: the idempotency key of such an intent."""


@dataclass(frozen=True, slots=True)
class Given:
    """A signed transaction, read and checked. Fees are per unit of gas; a gas price is both at once."""

    raw: bytes
    hash: str
    nonce: int
    sender: str
    chain_id: int
    to: str | None
    value: int
    gas: int
    max_fee: int
    tip: int
    type: int


@dataclass(frozen=True, slots=True)
class Quote:
    """What the chain asks for now, in the chain's smallest unit per unit of gas."""

    base_fee: int
    max_fee: int
    tip: int
    gas_price: int


class Counter(Protocol):
    """A chain as the nonce service sees it. Holds no key."""

    raw_kind: str
    """The kind of intent that carries bytes which its caller signed: never signed, replaced or killed here."""
    signed_kind: str
    """The kind of intent that a lane of ours signs."""

    @property
    def chain_id(self) -> int: ...

    def read(self, text: str) -> Given:
        """Read 0x hex of a signed transaction; raises `InvalidInput` for whatever no node would take."""
        ...

    def address(self, field: str, text: object) -> str:
        """An address in the one form that names a lane; raises `InvalidInput`."""
        ...

    def lane(self, address: str) -> str: ...

    async def counts(self, address: str) -> tuple[int, int]:
        """(transactions of the address in the newest block, the same with what waits in the node's pool)."""
        ...

    async def quote(self) -> Quote: ...

    async def close(self) -> None: ...
