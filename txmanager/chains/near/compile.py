"""From an intent to the parts of a transaction that no attempt changes. What can never succeed is refused."""

from __future__ import annotations

import json

from txmanager.chains.near import actions as act
from txmanager.chains.near import intents
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.effects import check_own_account, deposit_at_risk, in_words, own_effects
from txmanager.chains.near.limits import MAX_TRANSACTION_BYTES, check_actions, check_size
from txmanager.chains.near.names import LaneId, PublicKey, parent
from txmanager.chains.near.policy import NearPolicy
from txmanager.chains.near.transaction import call_bytes
from txmanager.core.errors import InvalidInput, PolicyRefused
from txmanager.core.values import value


@value(frozen=True, slots=True)
class Body:
    """What `Prepared.body` holds: receiver and actions, as values and as bytes."""

    receiver_id: str
    actions: tuple[act.Action, ...]
    receiver_bytes: bytes
    action_bytes: bytes

    @property
    def delegate(self) -> act.SignedDelegate | None:
        first = self.actions[0]
        return first if isinstance(first, act.SignedDelegate) else None


def compile_intent(
    payload: intents.Model, lane: LaneId, policy: NearPolicy, max_bytes: int = MAX_TRANSACTION_BYTES
) -> Body:
    """What is signed, held to the pool's policy: the ledger that it came from is no authority."""
    body = compile_body(payload, lane, max_bytes)
    check_policy(body, effects_of(body, lane), lane, policy)
    return body


def compile_body(payload: intents.Model, lane: LaneId, max_bytes: int) -> Body:
    receiver_id, actions = _call(payload, lane)
    check_actions(actions)
    body = make_body(receiver_id, actions)
    check_size(body.receiver_bytes, body.action_bytes, max_bytes)
    return body


def effects_of(body: Body, lane: LaneId) -> frozenset[str]:
    return own_effects(body.receiver_id, body.actions, lane.account_id)


def check_policy(body: Body, effects: frozenset[str], lane: LaneId, policy: NearPolicy) -> None:
    """Raises `PolicyRefused`. What is special to delegates is `check_delegate`'s."""
    if effects:
        check_own_account(effects, lane.account_id, policy.own_account)
    if policy.max_deposit is not None and (deposit := deposit_at_risk(body.actions)) > policy.max_deposit:
        raise PolicyRefused("deposit", f"{in_words(deposit)}; this pool spends at most {policy.max_deposit} at once")


def make_body(receiver_id: str, actions: tuple[act.Action, ...]) -> Body:
    receiver, encoded = call_bytes(receiver_id, actions)
    return Body(receiver_id, actions, receiver, encoded)


def _call(payload: intents.Model, lane: LaneId) -> tuple[str, tuple[act.Action, ...]]:
    match payload:
        case intents.CreateAccount():
            return _create_account(payload, lane)
        case intents.Delegate():
            signed = read_delegate(payload.signed_delegate)
            return signed.delegate.sender_id, (signed,)
        case intents.Recovery() | intents.FunctionCall():
            return payload.contract_id, (payload.action(),)
        case intents.Transaction():
            return payload.receiver_id, tuple(action.action() for action in payload.actions)
        case intents.Transfer():
            return payload.receiver_id, (act.Transfer(payload.amount),)
        case intents.AddKey():
            return lane.account_id, (payload.action(),)
    raise InvalidInput("kind", f"{type(payload).__name__} cannot be compiled here")


def _create_account(payload: intents.CreateAccount, lane: LaneId) -> tuple[str, tuple[act.Action, ...]]:
    new = payload.new_account_id
    if payload.root_contract is not None:
        if parent(new) is not None and parent(new) != payload.root_contract:
            raise InvalidInput(
                "new_account_id", f"{new} cannot be created by the root contract {payload.root_contract}"
            )
        args = json.dumps({"new_account_id": new, "new_public_key": payload.public_key}, separators=(",", ":"))
        call = act.FunctionCall("create_account", args.encode(), payload.gas, payload.initial_balance)
        return payload.root_contract, (call,)
    if parent(new) != lane.account_id:
        raise InvalidInput(
            "new_account_id",
            f"{new} is not a sub-account of {lane.account_id}: name it *.{lane.account_id}, or set root_contract",
        )
    own: tuple[act.Action, ...] = (act.CreateAccount(),)
    if payload.initial_balance:
        own += (act.Transfer(payload.initial_balance),)
    own += (act.AddKey(PublicKey.parse(payload.public_key)),)
    return new, own + tuple(action.action() for action in payload.extra_actions)
