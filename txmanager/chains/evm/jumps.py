"""How far one node's word about prices is believed: not further than our own history says it can have moved.

A price may be a little above what it was; more needs a second node, and without one it needs time. What stays far
below the cap is never questioned: it is not worth a lie, and quiet chains multiply their prices within seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from txmanager.chains.evm.network import EvmNetwork
from txmanager.chains.evm.transaction import Fees
from txmanager.core.values import value

HEADROOM = 2
"""How many times the last price is believed at once."""
SMALL, UNKNOWN = 50, 8
"""What is never questioned, and what is believed without a history, as parts of the cap."""
AT_ONCE, FORGOTTEN = 2.0, 10.0
"""How many doublings may lie between two readings; after how many times that span a history says nothing."""
ENOUGH = 10
"""Nobody has to pay more times the market to be included: whoever says so wants our money."""


@value(frozen=True, slots=True)
class Level:
    """What a unit of gas cost when we last believed somebody, and when that was."""

    price: int
    at: float


def limit(level: Level | None, now: float, network: EvmNetwork, *, alone: bool) -> int:
    """How much is believed of one node. With others to ask, time alone makes nothing believable."""
    small, unknown = network.max_fee // SMALL, network.max_fee // UNKNOWN
    if not alone:
        return small if level is None else max(small, HEADROOM * level.price)
    if level is None:
        return unknown
    spans = _spans(level, now, network)
    grown = max(small, HEADROOM * _risen(level, spans))
    return max(grown, unknown) if spans > FORGOTTEN else grown


def believed(price: int, others: Sequence[int], most: int) -> int:
    """The price a node tells, up to the limit; above it what a second node says, too, or the limit if there is none."""
    if price <= most:
        return price
    return min(price, max(others)) if others else most


def after(level: Level | None, price: int, now: float, network: EvmNetwork, *, alone: bool, confirmed: bool) -> Level:
    """What is remembered of a price that was believed: `confirmed` by a second node, or of one that was `alone`."""
    if confirmed:
        return Level(price, now)
    if level is None:
        return Level(price // HEADROOM, now)  # a first word alone is no reason to believe twice as much next time
    spans = _spans(level, now, network)
    if price <= level.price:
        # It does not fall faster than it may rise: one low answer must not forget what the chain costs.
        return Level(max(price, int(level.price / 2 ** min(AT_ONCE, spans))), now)
    # Within the limit, and nobody confirmed it: small steps must not add up to any price, so only time raises it.
    return Level(min(price, _risen(level, spans)) if alone else level.price, now)


def enough(market: Fees, network: EvmNetwork) -> int:
    """The highest price that a replacement is worth, whatever a node says of the last one."""
    return max(network.max_fee // SMALL, ENOUGH * market.max_fee)


def _spans(level: Level, now: float, network: EvmNetwork) -> float:
    return max(0.0, now - level.at) / network.doubles_within_s


def _risen(level: Level, spans: float) -> int:
    return int(level.price * 2 ** min(AT_ONCE, spans))
