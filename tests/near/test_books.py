"""What an outcome says a transaction cost is what its signer's account lost, to the yoctoNEAR."""

from __future__ import annotations

from typing import Any

import pytest

from tests.near.test_outcomes import KEY, NEAR, delegate_of, intent
from tests.near.world import ALICE, BOB, NearWorld
from txmanager.chains.near import NearPolicy
from txmanager.chains.near import actions as act
from txmanager.core.models import Intent, Purpose
from txmanager.core.states import Status

ALLOWED = NearPolicy(delegate_max_deposit=NEAR, own_account=frozenset({"add_key", "transfer"}))
EXISTS = {"new_account_id": BOB.account_id, "public_key": KEY, "initial_balance": str(NEAR), "root_contract": "near"}


def called(method: str, contract: str, deposit: int, **args: Any) -> dict[str, Any]:
    return {"contract_id": contract, "method_name": method, "args": args, "deposit": str(deposit)}


def paying(world: NearWorld, deposit: int, method: str = "increment") -> dict[str, Any]:
    return delegate_of(world, act.FunctionCall(method, b"{}", 10**13, deposit))


def transaction(receiver: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {"receiver_id": receiver, "actions": list(actions)}


KINDS: dict[str, tuple[str, Any, Status]] = {
    "transfer": ("near.transfer", {"receiver_id": BOB.account_id, "amount": str(NEAR + 7)}, Status.DONE),
    "transfer to nobody": ("near.transfer", {"receiver_id": "nobody.near", "amount": str(NEAR)}, Status.FAILED),
    "transfer to itself": (
        "near.transaction",
        transaction(ALICE.account_id, {"type": "transfer", "amount": "5"}),
        Status.DONE,
    ),
    "sub-account": (
        "near.create_account",
        {"new_account_id": f"a.{ALICE.account_id}", "public_key": KEY, "initial_balance": str(NEAR)},
        Status.DONE,
    ),
    "created by the root": ("near.create_account", {**EXISTS, "new_account_id": "fresh.near"}, Status.DONE),
    "refused by the root": ("near.create_account", EXISTS, Status.FAILED),
    "call with a deposit": ("near.function_call", called("increment", "counter.near", 11), Status.DONE),
    "call that panics": ("near.function_call", called("fail", "counter.near", NEAR), Status.FAILED),
    "deposit that partly returns": (
        "near.function_call",
        called("storage_deposit", "ft.near", NEAR, account_id=ALICE.account_id),
        Status.DONE,
    ),
    "key": (
        "near.transaction",
        transaction(ALICE.account_id, {"type": "add_key", "public_key": KEY}),
        Status.DONE,
    ),
    "delegate": ("near.delegate", lambda world: paying(world, 13), Status.DONE),
    "delegate that fails inside": ("near.delegate", lambda world: paying(world, NEAR, "fail"), Status.FAILED),
}


def money(world: NearWorld, account: str = ALICE.account_id) -> int:
    return world.network.account(account).amount


@pytest.mark.parametrize("name", KINDS)
async def test_cost_is_what_the_account_lost(name: str):
    kind, payload, status = KINDS[name]
    world = NearWorld(policy=ALLOWED)
    wanted: Intent = intent("k", kind, payload(world) if callable(payload) else payload)
    before = money(world)
    outcome = await world.run(wanted)
    world.network.advance(20)  # refunds arrive later
    assert outcome.status is status
    assert outcome.cost == before - money(world)


async def test_delegate_that_is_refused_on_chain_gives_its_deposit_back():
    """Two relayed transactions of one nonce: the second one's receipt fails at the user's account."""
    world = NearWorld(policy=ALLOWED)
    wanted = intent("k", "near.delegate", paying(world, NEAR))
    ready = [p for _ in range(2) for p in await world.chain.prepare(world.lane, [wanted])]
    first = (await world.chain.nonce(world.lane)).next_nonce
    attempts = await world.chain.sign(world.lane, ready, first, Purpose.FIRST, 0)  # type: ignore[arg-type]
    before = money(world)
    await world.chain.broadcast(world.lane, attempts)
    world.network.advance(30)
    seen = await world.chain.look_up(world.lane, [(wanted, attempt) for attempt in attempts])
    outcomes = [one.outcome for one in seen if one.outcome is not None]
    assert [one.status for one in outcomes] == [Status.DONE, Status.FAILED]
    assert sum(one.cost or 0 for one in outcomes) == before - money(world)


async def test_no_op_costs_what_it_burnt():
    world = NearWorld()
    before = money(world)
    noop = await world.chain.noop(world.lane, (await world.chain.nonce(world.lane)).next_nonce, [], 0)
    assert noop is not None
    await world.chain.broadcast(world.lane, [noop])
    world.network.advance(20)
    [seen] = await world.chain.look_up(world.lane, [(intent("k", "near.transfer", {}), noop)])
    assert seen.outcome is not None
    assert seen.outcome.cost == before - money(world) > 0


async def test_attempt_of_an_older_release_is_read_from_its_bytes():
    world = NearWorld()
    wanted = intent("k", "near.transfer", {"receiver_id": BOB.account_id, "amount": "77"})
    [ready] = await world.chain.prepare(world.lane, [wanted])
    first = (await world.chain.nonce(world.lane)).next_nonce
    [attempt] = await world.chain.sign(world.lane, [ready], first, Purpose.FIRST, 0)  # type: ignore[list-item]
    assert attempt.terms["deposit"] == "77"
    await world.chain.broadcast(world.lane, [attempt])
    world.network.advance(20)
    attempt.terms.pop("deposit")  # type: ignore[attr-defined]
    [seen] = await world.chain.look_up(world.lane, [(wanted, attempt)])
    assert seen.outcome is not None
    assert seen.outcome.cost == 77 + int(seen.outcome.result["tokens_burnt"])  # type: ignore[index]
