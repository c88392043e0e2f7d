"""What a chain is like: window, finality, floors and caps of its fees, how long to wait before a bump.

A preset is a starting point for each kind of chain; configuration overrides any of its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from txmanager.core.errors import InvalidSettings

GWEI = 10**9
Finality = int | Literal["finalized", "safe"]


@dataclass(frozen=True, slots=True)
class EvmNetwork:
    window: int = 16
    """How many consecutive nonces may be in flight before nodes showed that they take more: a full pool still holds
    16 executable ones of an account. 1 without a mempool: strictly one at a time."""
    finality: Finality = "finalized"
    """The tag whose block must include it, or how many blocks must (1: included is final)."""
    min_tip: int = 0
    max_fee: int = 500 * GWEI
    """Never offered more per unit of gas, replacements included: a lane that reached it waits, and says so."""
    bump_percent: int = 12
    """Pools want 10 % on both fees, strictly more; some chains want much more."""
    replace_after_s: float = 36.0
    """The lowest nonce that is not included by then gets a better price."""
    resend_after_s: float = 60.0
    """Bytes that are not included by then are sent again: a pool may have dropped them."""
    gas_margin_percent: int = 20
    """Added to an estimate: state moves between estimating and landing."""
    max_gas: int | None = None
    """The chain's limit of one transaction."""
    history_blocks: int = 10
    percentile: int = 50
    """Which tip of those paid in recent blocks is the market."""
    fees_fresh_s: float = 1.0
    doubles_within_s: float = 60.0
    """How fast prices may rise on one node's word alone: full blocks every 12 s, an eighth more each, take 70 s."""

    def __post_init__(self) -> None:
        if isinstance(self.finality, int) and self.finality < 1:
            raise InvalidSettings("finality", "must be at least 1 block")
        if self.bump_percent < 10:
            raise InvalidSettings("bump_percent", "must be at least 10: pools refuse cheaper replacements")
        if self.max_fee < max(1, self.min_tip):
            raise InvalidSettings("max_fee", "must be at least min_tip, and not 0")


_FAST_S = 15.0
"""Blocks every second or two: prices double sooner."""

PRESETS: Mapping[str, EvmNetwork] = {
    "ethereum": EvmNetwork(min_tip=GWEI // 100, max_gas=16_777_216),
    "polygon": EvmNetwork(min_tip=30 * GWEI, max_fee=5_000 * GWEI, replace_after_s=12.0, resend_after_s=30.0),
    # Sequencers order and confirm within a second; their blocks are not re-ordered short of a failure of the chain.
    "arbitrum": EvmNetwork(
        finality=20, max_fee=50 * GWEI, doubles_within_s=_FAST_S, replace_after_s=10.0, resend_after_s=10.0
    ),
    "optimism": EvmNetwork(
        finality=10, max_fee=50 * GWEI, doubles_within_s=_FAST_S, replace_after_s=12.0, resend_after_s=20.0
    ),
    "base": EvmNetwork(
        finality=10, max_fee=50 * GWEI, doubles_within_s=_FAST_S, replace_after_s=12.0, resend_after_s=20.0
    ),
    # No mempool: strictly in order, and a gap is refused.
    "hedera": EvmNetwork(window=1, finality=1, max_fee=10_000 * GWEI, replace_after_s=30.0, resend_after_s=10.0),
    "anvil": EvmNetwork(finality=1, max_fee=10_000 * GWEI, replace_after_s=6.0, resend_after_s=3.0, fees_fresh_s=0.2),
}

BY_CHAIN_ID: Mapping[int, str] = {
    1: "ethereum",
    11155111: "ethereum",
    17000: "ethereum",
    560048: "ethereum",
    137: "polygon",
    80002: "polygon",
    42161: "arbitrum",
    421614: "arbitrum",
    10: "optimism",
    11155420: "optimism",
    8453: "base",
    84532: "base",
    295: "hedera",
    296: "hedera",
    31337: "anvil",
}


def preset(name: str | None, chain_id: int) -> EvmNetwork:
    """The named preset, else that of the chain id, else careful defaults."""
    if name is None:
        name = BY_CHAIN_ID.get(chain_id)
        return PRESETS[name] if name is not None else EvmNetwork()
    if name not in PRESETS:
        raise InvalidSettings("preset", f"{name!r} is not one of {', '.join(PRESETS)}")
    return PRESETS[name]
