"""What a NEAR payload asks for, decided before anything is accepted: receivers, deposit, derived key, pool rules.

Everything that the bytes alone decide is refused here, so that a hopeless request costs neither a key nor a nonce.
Only the chain's height and the user's access key are left to the lane.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from txmanager.chains.near import actions as act
from txmanager.chains.near.borsh import U64_MAX, U128_MAX
from txmanager.chains.near.compile import compile_intent
from txmanager.chains.near.delegates import check_delegate, delegate_hash
from txmanager.chains.near.intents import CreateAccount, Delegate, Model, Recovery, parse_payload
from txmanager.chains.near.limits import MAX_TRANSACTION_BYTES, attached_deposit
from txmanager.chains.near.names import LaneId, PublicKey
from txmanager.chains.near.policy import NearPolicy
from txmanager.core.kinds import Reading
from txmanager.core.models import Json

_ANY_KEY = PublicKey(0, bytes(32))
"""No check made here looks at the lane's key."""


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What reading needs to know of a pool. Its account is None where the pool is served from elsewhere."""

    account: str | None = None
    policy: NearPolicy = field(default_factory=NearPolicy)


ELSEWHERE = PoolRules(
    policy=NearPolicy(delegate_max_deposit=U128_MAX, delegate_max_gas=U64_MAX, delegate_max_bytes=MAX_TRANSACTION_BYTES)
)
"""A pool whose settings we do not have: its own workers hold it to its policy."""


def read(kind: str, payload: Mapping[str, Json], rules: PoolRules) -> Reading:
    model = parse_payload(kind, payload)
    lane = LaneId("", rules.account or _unknown_account(model), _ANY_KEY)
    body = compile_intent(model, lane, rules.policy)
    if body.delegate is not None:
        return _read_delegate(body.delegate, rules.policy)
    receivers, deposit = frozenset({body.receiver_id}), attached_deposit(body.actions)
    return Reading(payload, receivers, deposit, _derived_key(model))


def _read_delegate(signed: act.SignedDelegate, policy: NearPolicy) -> Reading:
    # the height is the lane's business: as far below as the policy asks for, expiry never strikes here
    check_delegate(signed, policy, -policy.delegate_min_blocks_left)
    digest = delegate_hash(signed)
    return Reading(
        payload={"signed_delegate": base64.b64encode(signed.encode_bare()).decode()},
        receivers=frozenset({signed.delegate.receiver_id}),
        deposit=attached_deposit(signed.delegate.actions),
        derived_key=f"delegate:{digest}",
        identity={"delegate": digest},
    )


def _derived_key(model: Model) -> str | None:
    match model:
        case CreateAccount():
            return f"create:{model.new_account_id}:{model.public_key}"
        case Recovery():
            return f"recovery:{model.account_id}:{model.message_id}"
        case Delegate():
            raise AssertionError("a delegate is read by its content")
    return None


def _unknown_account(model: Model) -> str:
    """A pool we know nothing of: its worker decides whether the name is a sub-account of its own."""
    if isinstance(model, CreateAccount):
        return model.new_account_id.partition(".")[2] or model.new_account_id
    return ""
