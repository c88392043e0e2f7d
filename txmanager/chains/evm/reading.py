"""What an EVM payload asks for, decided before anything is accepted: receiver, value, the pool's limit.

Whether it would revert is left to the lane, which asks the chain before it takes a nonce.
"""

from __future__ import annotations

from collections.abc import Mapping

from txmanager.chains.evm.intents import parse_payload
from txmanager.core.errors import PolicyRefused
from txmanager.core.kinds import CREATE, Reading
from txmanager.core.models import Json


def read(kind: str, payload: Mapping[str, Json], max_value: int | None) -> Reading:
    wanted = parse_payload(kind, payload)
    refusal = None
    if max_value is not None and wanted.value > max_value:
        refusal = PolicyRefused("value", f"is {wanted.value} wei; the pool's max_deposit allows {max_value}")
    return Reading(payload, frozenset({wanted.to or CREATE}), wanted.value, refusal=refusal)
