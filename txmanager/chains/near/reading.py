"""What a NEAR payload asks for, decided before anything is accepted: receivers, deposit, derived key, pool rules.

Everything that the bytes alone decide is refused here, so that a hopeless request costs neither a key nor a nonce.
Only the chain's height and the user's access key are left to the lane.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from txmanager.chains.near.borsh import U64_MAX, U128_MAX
from txmanager.chains.near.compile import Body, check_policy, compile_body, effects_of
from txmanager.chains.near.costs import check_cost, cost_at_risk
from txmanager.chains.near.delegates import check_delegate_policy, check_signature, delegate_hash, sender_key
from txmanager.chains.near.effects import ACTION_NAMES, OWN_ACCOUNT_EFFECTS, deposit_at_risk, receivers_of
from txmanager.chains.near.intents import CreateAccount, Delegate, Model, Recovery, parse_payload
from txmanager.chains.near.limits import MAX_TRANSACTION_BYTES
from txmanager.chains.near.names import LaneId, PublicKey
from txmanager.chains.near.policy import NearPolicy
from txmanager.core.errors import PolicyRefused
from txmanager.core.kinds import Reading
from txmanager.core.models import Json

_ANY_KEY = PublicKey(0, bytes(32))
"""No check made here looks at the lane's key."""


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What reading needs to know of a pool. Its account is None where the pool is served from elsewhere."""

    account: str | None = None
    policy: NearPolicy = field(default_factory=NearPolicy)
    max_bytes: int = MAX_TRANSACTION_BYTES
    """The largest transaction that the pool's endpoints take."""


ELSEWHERE = PoolRules(
    policy=NearPolicy(
        delegate_actions=ACTION_NAMES,
        delegate_max_deposit=U128_MAX,
        delegate_max_gas=U64_MAX,
        delegate_max_bytes=MAX_TRANSACTION_BYTES,
        own_account=OWN_ACCOUNT_EFFECTS,
    )
)
"""A pool whose settings we do not have: its own workers hold it to its policy."""


def read(kind: str, payload: Mapping[str, Json], rules: PoolRules) -> Reading:
    model = parse_payload(kind, payload)
    lane = LaneId("", rules.account or _unknown_account(model), _ANY_KEY)
    body = compile_body(model, lane, rules.max_bytes)
    signed = body.delegate
    if signed is not None:
        check_signature(signed)
    own, deposit, cost = effects_of(body, lane), deposit_at_risk(body.actions), cost_at_risk(body.actions)
    most = rules.policy.max_cost
    refusal = _refusal(body, own, lane, rules.policy)
    if signed is None:
        receivers, key = receivers_of(body.receiver_id, body.actions), _derived_key(model)
        return Reading(
            payload,
            receivers,
            deposit,
            key,
            own_account=own,
            cost=cost,
            worst=cost,
            max_cost=most,
            refusal=refusal,
        )
    digest = delegate_hash(signed)
    return Reading(
        payload={"signed_delegate": base64.b64encode(signed.encode_bare()).decode()},
        receivers=receivers_of(signed.delegate.receiver_id, signed.delegate.actions),
        deposit=deposit,
        derived_key=f"delegate:{digest}",
        identity={"delegate": digest},
        partition_key=sender_key(signed),
        own_account=own,
        cost=cost,
        worst=cost,
        max_cost=most,
        refusal=refusal,
    )


def _refusal(body: Body, own: frozenset[str], lane: LaneId, policy: NearPolicy) -> PolicyRefused | None:
    """A delegate's expiry is left to the lane, which knows the height."""
    try:
        check_policy(body, own, lane, policy)
        if policy.max_cost is not None:
            check_cost(body.actions, policy.max_cost)
        if body.delegate is not None:
            check_delegate_policy(body.delegate, policy)
    except PolicyRefused as refusal:
        return refusal
    return None


def _derived_key(model: Model) -> str | None:
    match model:
        case CreateAccount():
            return f"create:{model.new_account_id}:{PublicKey.parse(model.public_key).handle}"
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
