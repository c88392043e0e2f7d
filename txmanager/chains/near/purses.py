"""What NEAR lanes pay from: an account that all of its keys share, and what one key has beside it.

A gas key has a balance of its own, which anybody may add to. A function-call key may have an allowance: a part of the
account's money that it may spend, which only a new key brings back.
"""

from __future__ import annotations

from collections.abc import Mapping

from txmanager.chains.near.names import LaneId
from txmanager.core.funds import PurseName
from txmanager.core.models import Json
from txmanager.settings.family import PurseSide


def purse_of(lane: str, name: PurseName) -> str:
    """`near:NETWORK:ACCOUNT`, or `near:NETWORK:ACCOUNT:KEY` for what is the key's alone."""
    named = LaneId.parse(lane)
    account = f"near:{named.network}:{named.account_id}"
    return account if name == "account" else f"{account}:{named.public_key}"


def pay(purse: str, amount: int) -> tuple[str, Mapping[str, Json]]:
    _, _, account_id, *key = purse.split(":", 3)
    if not key:
        return "near.transfer", {"receiver_id": account_id, "amount": str(amount)}
    filling: dict[str, Json] = {"type": "transfer_to_gas_key", "public_key": key[0], "amount": str(amount)}
    return "near.transaction", {"receiver_id": account_id, "actions": [filling]}


PURSES = PurseSide(frozenset({"account", "gas_key", "allowance"}), purse_of, pay, "near:example:example.near")
