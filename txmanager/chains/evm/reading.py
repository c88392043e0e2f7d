"""What an EVM payload asks for, decided before anything is accepted: receiver, value, the pool's limit.

Whether it would revert is left to the lane, which asks the chain before it takes a nonce.
"""

from __future__ import annotations

from collections.abc import Mapping

from txmanager.chains.evm.intents import parse_payload
from txmanager.chains.evm.raw import intrinsic_gas
from txmanager.core.errors import PolicyRefused
from txmanager.core.kinds import CREATE, Reading
from txmanager.core.models import Json


def read(kind: str, payload: Mapping[str, Json], max_value: int | None = None, max_cost: int | None = None) -> Reading:
    wanted = parse_payload(kind, payload)
    body, refusal = wanted.body(), None
    # Gas is estimated and priced later: what it costs at least is known now.
    cost = wanted.value + max(body.gas, intrinsic_gas(body))
    if max_cost is not None and cost > max_cost:
        refusal = PolicyRefused("max_cost", f"it costs at least {cost} wei; the pool's max_cost allows {max_cost}")
    if max_value is not None and wanted.value > max_value:
        refusal = PolicyRefused("value", f"is {wanted.value} wei; the pool's max_deposit allows {max_value}")
    receivers = frozenset({wanted.to or CREATE})
    return Reading(payload, receivers, wanted.value, cost=cost, max_cost=max_cost, refusal=refusal)
