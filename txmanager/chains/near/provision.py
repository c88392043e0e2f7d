"""More lanes for an account: make its access keys what a list says, by transactions of our own.

Safe to run again at any point: keys that are there are left alone, and a transaction that a crash left behind can only
have added keys of the same list. Whoever calls must keep the private keys durably *before*, or a key could be added
that nobody holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from txmanager.chains.near.actions import CallPermission
from txmanager.chains.near.chain import NearChain
from txmanager.chains.near.names import LaneId, PublicKey
from txmanager.chains.near.policy import NearPolicy
from txmanager.core.chain import Impossible
from txmanager.core.errors import NotAllowed, Unavailable
from txmanager.core.models import Json, Outcome, Purpose, new_intent
from txmanager.core.states import Status

_ADDING_KEYS = NearPolicy(own_account=frozenset({"add_key"}))
_POLL_S = 0.5
_PATIENCE_S = 60.0
_LOOKS = 10


async def provision(
    chain: NearChain,
    lane: str,
    public_keys: Sequence[str],
    permission: CallPermission | None = None,
    *,
    per_transaction: int = 20,
    report: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Add what is missing, signed by the full-access key of `lane`, which no worker may be using. Answers what was
    added; raises `NotAllowed` when a key is there with another permission, `Unavailable` when it is worth trying again.
    """
    account_id = LaneId.parse(lane).account_id
    added: list[str] = []
    for _ in range(_LOOKS):
        there = await chain.keys(account_id)
        _check(account_id, public_keys, there, permission)
        missing = [key for key in public_keys if PublicKey.parse(key).handle not in there]
        wanted = len(added) + len(missing)
        while missing:
            batch, missing = missing[:per_transaction], missing[per_transaction:]
            outcome = await _add(chain, lane, account_id, batch, permission)
            if outcome.status is Status.DONE:
                added.extend(batch)
                report(f"added {len(added)} of {wanted} keys ({outcome.tx_hash})")
            elif (outcome.error or {}).get("code") == "add_key_already_exists":
                break  # an earlier run's transaction landed in between: look again
            else:
                raise NotAllowed(f"adding keys to {account_id} failed: {(outcome.error or {}).get('message')}")
        else:
            return added
    raise Unavailable(f"somebody else adds keys to {account_id} at the same time; run it again")


def _check(
    account_id: str,
    public_keys: Sequence[str],
    there: Mapping[str, Mapping[str, Any]],
    permission: CallPermission | None,
) -> None:
    for key in public_keys:
        listed = there.get(PublicKey.parse(key).handle)
        if listed is not None and not _same(listed.get("permission"), permission):
            raise NotAllowed(f"{key} is on {account_id} with another permission; delete it, or ask for that permission")


def _same(told: Any, wanted: CallPermission | None) -> bool:
    if wanted is None:
        return bool(told == "FullAccess")
    call = told.get("FunctionCall") if isinstance(told, Mapping) else None
    # The allowance shrinks with use, so it is not compared.
    return (
        isinstance(call, Mapping)
        and call.get("receiver_id") == wanted.receiver_id
        and set(call.get("method_names") or ()) == set(wanted.method_names)
    )


def _action(key: str, permission: CallPermission | None) -> dict[str, Json]:
    if permission is None:
        return {"type": "add_key", "public_key": key}
    told: dict[str, Json] = {"receiver_id": permission.receiver_id, "method_names": list(permission.method_names)}
    if permission.allowance is not None:
        told["allowance"] = str(permission.allowance)
    return {"type": "add_key", "public_key": key, "permission": told}


async def _add(
    chain: NearChain, lane: str, account_id: str, keys: Sequence[str], permission: CallPermission | None
) -> Outcome:
    payload = {"receiver_id": account_id, "actions": [_action(key, permission) for key in keys]}
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
            return sighting.outcome
        [proof] = await chain.prove_dead(lane, [attempt])
        if proof is not None or refusal:
            break
        await asyncio.sleep(_POLL_S)
    raise Unavailable(f"a transaction of {account_id} did not land ({refusal or 'not included in time'}); run it again")
