"""The settings of a network. Frozen: what a chain was made under is part of what it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Config:
    chain_id: str = "localnet"
    block_ms: float = 600.0
    producers: int = 3
    nodes: int = 2
    delay_ms: tuple[float, float] = (0.0, 20.0)  # from a node to each producer, drawn anew for each
    loss: float = 0.0  # the share of deliveries to one producer that never arrive
    validity: int = 86_400  # blocks a transaction lives after its base block
    keep_blocks: int = 100_000  # five epochs
    gas_price: int = 100_000_000
    purchase_price: int = 1_000_000_000  # gas is bought at this price and burnt at the other; the rest is refunded
    tx_gas_limit: int = 500 * 10**12
    receipt_gas_limit: int = 1_000 * 10**12
    finality_lag: int = 2
