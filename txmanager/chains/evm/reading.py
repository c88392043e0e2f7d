"""What an EVM payload asks for, decided before anything is accepted: receiver, value, the pool's limit.

Whether it would revert is left to the lane, which asks the chain before it takes a nonce.
"""

from __future__ import annotations

from collections.abc import Mapping

from txmanager.chains.evm.intents import parse_payload
from txmanager.chains.evm.raw import intrinsic_gas
from txmanager.chains.evm.transaction import Body
from txmanager.core.errors import PolicyRefused
from txmanager.core.kinds import CREATE, Reading
from txmanager.core.models import Json


def read(
    kind: str,
    payload: Mapping[str, Json],
    max_value: int | None = None,
    max_cost: int | None = None,
    max_fee: int | None = None,
) -> Reading:
    """`max_fee` is the most that the network's lanes ever bid for a unit of gas."""
    wanted = parse_payload(kind, payload)
    body, refusal = wanted.body(), None
    # Gas is estimated and priced later: what it costs at least is known now.
    cost = wanted.value + max(body.gas, intrinsic_gas(body))
    if max_cost is not None and cost > max_cost:
        refusal = PolicyRefused("max_cost", f"it costs at least {cost} wei; the pool's max_cost allows {max_cost}")
    if max_value is not None and wanted.value > max_value:
        refusal = PolicyRefused("value", f"is {wanted.value} wei; the pool's max_deposit allows {max_value}")
    receivers = frozenset({wanted.to or CREATE})
    worst = _worst(body, max_fee)
    return Reading(payload, receivers, wanted.value, cost=cost, worst=worst, max_cost=max_cost, refusal=refusal)


def _worst(body: Body, max_fee: int | None) -> int | None:
    """Value and all gas at the highest price; None while nobody knows how much gas that is."""
    prices = [price for price in (body.max_fee_limit, max_fee) if price is not None]
    return body.value + body.gas * min(prices) if body.gas and prices else None
