"""`max_cost` on EVM: value and gas at the highest price together. The price is what gives way: a fee limit per unit of
gas follows from it, and every price, the first as well as each replacement's, stays below that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from txmanager.chains.evm.transaction import Body
from txmanager.core.chain import Impossible, Prepared
from txmanager.core.funds import Cost
from txmanager.core.models import Intent, failure
from txmanager.core.spending import allowed


def highest_price(intent: Intent, pool: int | None, body: Body) -> int | None:
    """What a unit of gas may cost so that all of it together stays within max_cost; below 1 nothing does."""
    limit = allowed(intent, pool)
    return None if limit is None else (limit - body.value) // max(1, body.gas)


def within_max_cost(
    prepared: Prepared, pool: int | None, base_fee: int, worst: Callable[[Body], Cost]
) -> Prepared | Impossible:
    """The same with the fee limit that follows, or why it cannot be signed now: like `max_fee_per_gas`."""
    intent, body = prepared.intent, prepared.body
    assert isinstance(body, Body)
    price = highest_price(intent, pool, body)
    if price is None:
        return prepared
    if price < max(1, base_fee):
        message = (
            f"{body.value} wei and {body.gas} gas at a base fee of {base_fee} wei cost more than its max_cost, "
            f"{allowed(intent, pool)}; nothing was spent"
        )
        by_base_fee = price >= 1  # below that, no base fee would do
        return Impossible(failure("max_cost", message, new_key_helps=True, field="max_cost"), by_node=by_base_fee)
    limit = price if body.max_fee_limit is None else min(price, body.max_fee_limit)
    body = replace(body, max_fee_limit=limit)
    return Prepared(intent, body, worst(body))
