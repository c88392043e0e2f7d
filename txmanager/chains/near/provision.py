"""More lanes for an account: make its access keys what a list says, by transactions of our own.

Safe to run again at any point: keys that are there are left alone, and a transaction that a crash left behind can only
have added keys of the same list. Whoever calls must keep the private keys durably *before*, or a key could be added
that nobody holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.chains.near.actions import CallPermission
from txmanager.chains.near.chain import NearChain
from txmanager.chains.near.names import LaneId, PublicKey
from txmanager.chains.near.policy import NearPolicy
from txmanager.core.chain import Impossible
from txmanager.core.errors import NotAllowed, Unavailable
from txmanager.core.models import Json, Outcome, Purpose, new_intent
from txmanager.core.states import Status
from txmanager.settings.family import Clerk, GasKeys

_ADDING_KEYS = NearPolicy(own_account=frozenset({"add_key", "transfer_to_gas_key"}))
_POLL_S = 0.5
_PATIENCE_S = 60.0
_LOOKS = 10


async def provision(
    chain: NearChain,
    lane: str,
    public_keys: Sequence[str],
    permission: CallPermission | None = None,
    *,
    gas_keys: GasKeys | None = None,
    per_transaction: int = 20,
    clerk: Clerk | None = None,
) -> list[str]:
    """Add what is missing, signed by the full-access key of `lane`, which no worker may be using. Answers what was
    added; raises `NotAllowed` when a key is there with another permission, `Unavailable` when it is worth trying again.
    """
    account_id, clerk = LaneId.parse(lane).account_id, clerk or Clerk()
    added: list[str] = []
    for _ in range(_LOOKS):
        there = await chain.keys(account_id)
        _check(account_id, public_keys, there, permission, gas_keys)
        missing = [key for key in public_keys if PublicKey.parse(key).handle not in there]
        wanted = len(added) + len(missing)
        while missing:
            batch, missing = missing[:per_transaction], missing[per_transaction:]
            actions = [_action(key, permission, gas_keys) for key in batch]
            outcome = await _run(chain, lane, account_id, actions, clerk)
            if outcome.status is Status.DONE:
                added.extend(batch)
                clerk.say(f"added {len(added)} of {wanted} keys ({outcome.tx_hash})")
            elif (outcome.error or {}).get("code") == "add_key_already_exists":
                break  # an earlier run's transaction landed in between: look again
            else:
                raise NotAllowed(f"adding keys to {account_id} failed: {(outcome.error or {}).get('message')}")
        else:
            if gas_keys is not None and gas_keys.fund:
                await _fund(chain, lane, account_id, public_keys, gas_keys, clerk)
            return added
    raise Unavailable(f"somebody else adds keys to {account_id} at the same time; run it again")


async def key_limits(chain: NearChain, lane: str) -> tuple[str, tuple[str, ...], int | None] | None:
    """Receiver, methods and allowance of the lane's key; None of one with full access. `NotAllowed` for a gas key, the
    balance of which can be filled up, and for a key that the chain does not have."""
    named = LaneId.parse(lane)
    listed = (await chain.keys(named.account_id)).get(named.public_key.handle)
    if listed is None:
        raise NotAllowed(f"{named.public_key} is not a key of {named.account_id}")
    permission = listed.get("permission")
    if _gas_key(permission) is not None:
        raise NotAllowed(f"{named.public_key} is a gas key: fill up its balance instead, see docs/money.md")
    call = permission.get("FunctionCall") if isinstance(permission, Mapping) else None
    if not isinstance(call, Mapping):
        return None
    allowance = call.get("allowance")
    methods = tuple(map(str, call.get("method_names") or ()))
    return str(call.get("receiver_id")), methods, None if allowance is None else int(allowance)


def _check(
    account_id: str,
    public_keys: Sequence[str],
    there: Mapping[str, Mapping[str, Any]],
    permission: CallPermission | None,
    gas_keys: GasKeys | None,
) -> None:
    for key in public_keys:
        listed = there.get(PublicKey.parse(key).handle)
        if listed is not None and not _same(listed.get("permission"), permission, gas_keys):
            raise NotAllowed(f"{key} is on {account_id} with another permission; delete it, or ask for that permission")


def _gas_key(permission: Any) -> Mapping[str, Any] | None:
    """The body of a gas key's permission; None of every other one."""
    body = (
        (permission.get("GasKeyFullAccess") or permission.get("GasKeyFunctionCall"))
        if isinstance(permission, Mapping)
        else None
    )
    return body if isinstance(body, Mapping) else None


def _same(permission: Any, wanted: CallPermission | None, gas_keys: GasKeys | None) -> bool:
    if gas_keys is not None:
        body = _gas_key(permission)
        if body is None or body.get("num_nonces") != gas_keys.lanes:
            return False
        permission = "FullAccess" if "GasKeyFullAccess" in permission else {"FunctionCall": body}
    if wanted is None:
        return bool(permission == "FullAccess")
    call = permission.get("FunctionCall") if isinstance(permission, Mapping) else None
    # The allowance shrinks with use, so it is not compared.
    return (
        isinstance(call, Mapping)
        and call.get("receiver_id") == wanted.receiver_id
        and set(call.get("method_names") or ()) == set(wanted.method_names)
    )


def _action(key: str, permission: CallPermission | None, gas_keys: GasKeys | None) -> dict[str, Json]:
    action: dict[str, Json] = {"type": "add_key", "public_key": key}
    if gas_keys is not None:
        action["num_nonces"] = gas_keys.lanes
    if permission is None:
        return action
    fields: dict[str, Json] = {"receiver_id": permission.receiver_id, "method_names": list(permission.method_names)}
    if permission.allowance is not None:
        fields["allowance"] = str(permission.allowance)
    return {**action, "permission": fields}


async def _fund(
    chain: NearChain,
    lane: str,
    account_id: str,
    public_keys: Sequence[str],
    gas_keys: GasKeys,
    clerk: Clerk,
) -> None:
    """Fill up what the keys have for gas. A run that was cut off left a balance on the chain, and is taken up there."""
    there = await chain.keys(account_id)
    for key in public_keys:
        body = _gas_key(there.get(PublicKey.parse(key).handle, {}).get("permission")) or {}
        missing = gas_keys.fund - int(body.get("balance", 0))
        if missing <= 0:
            continue
        action: dict[str, Json] = {"type": "transfer_to_gas_key", "public_key": key, "amount": str(missing)}
        outcome = await _run(chain, lane, account_id, [action], clerk)
        if outcome.status is not Status.DONE:
            raise NotAllowed(f"funding {key} failed: {(outcome.error or {}).get('message')}")
        clerk.say(f"gave {missing} yoctoNEAR to {key} ({outcome.tx_hash})")


async def _run(
    chain: NearChain, lane: str, account_id: str, actions: Sequence[Mapping[str, Json]], clerk: Clerk
) -> Outcome:
    payload: dict[str, Json] = {"receiver_id": account_id, "actions": list(actions)}
    intent = new_intent(key="provision", pool="provision", kind="near.transaction", payload=payload)
    ready = await chain.prepare_own(lane, intent, _ADDING_KEYS)
    if isinstance(ready, Impossible):
        raise NotAllowed(str(ready.error["message"]))
    view = await chain.nonce(lane)
    [attempt] = await chain.sign(lane, [ready], view.next_nonce, Purpose.FIRST, 0)
    refusal = (await chain.probe(lane, attempt)).message
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    while asyncio.get_running_loop().time() < deadline:
        [sighting] = await chain.look_up(lane, [(intent, attempt)])
        if sighting.outcome is not None:
            await clerk.book(lane, intent, attempt, sighting.outcome)
            return sighting.outcome
        [proof] = await chain.prove_dead(lane, [attempt])
        if proof is not None or refusal:
            break
        await asyncio.sleep(_POLL_S)
    raise Unavailable(f"a transaction of {account_id} did not land ({refusal or 'not included in time'}); run it again")
