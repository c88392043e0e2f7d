"""What an EVM payload asks for, decided before anything is accepted: receiver, value, the pool's limit.

Whether it would revert is left to the lane, which asks the chain before it takes a nonce.
"""

from __future__ import annotations

from collections.abc import Mapping

from txmanager.chains.evm.intents import parse_payload
from txmanager.core.errors import InvalidInput
from txmanager.core.kinds import Reading
from txmanager.core.models import Json


def read(kind: str, payload: Mapping[str, Json], max_value: int | None) -> Reading:
    wanted = parse_payload(kind, payload)
    if max_value is not None and wanted.value > max_value:
        raise InvalidInput("value", f"is {wanted.value} wei; the pool's max_deposit allows {max_value}")
    return Reading(payload, frozenset({wanted.to} if wanted.to else ()), wanted.value)
