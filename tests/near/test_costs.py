"""What a transaction may cost at worst: never less than a node asks for, and read back from the signed bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.near.strategies import account_ids, delegates, one_of, plain_actions, public_keys, signers, u64
from tests.near.world import BOB, NearWorld, transfer
from txmanager.chains.near import actions as act
from txmanager.chains.near.costs import (
    PURCHASE_PRICE,
    STORAGE_PRICE,
    Prices,
    purchase_price,
    read_funds,
    read_prices,
    worst_cost,
)
from txmanager.chains.near.judge import judge as judge_status
from txmanager.chains.near.names import PublicKey
from txmanager.chains.near.policy import KeyView
from txmanager.chains.near.transaction import Envelope, actions_of, call_bytes
from txmanager.chains.near.views import AccountView
from txmanager.core.chain import Prepared, Verdict
from txmanager.core.funds import FREE, Reserve, Word, judge
from txmanager.core.models import Purpose
from txmanager.core.states import Status
from txmanager.devnet import fees, wire
from txmanager.devnet.model import Unsupported
from txmanager.rpc import ConnectionFailed

any_action = one_of(plain_actions(public_keys))
frames = st.none() | st.integers(0, 1023)


@given(
    signers,
    account_ids,
    u64,
    frames,
    st.booleans(),
    st.lists(any_action, max_size=4),
    delegates(any_action, public_keys),
)
@settings(max_examples=60, deadline=None)
def test_what_was_signed_is_read_back_and_costs_no_less_than_a_node_asks(
    signer, account_id, nonce, index, strict, plain, delegate
):
    envelope = Envelope(account_id, PublicKey.parse(signer.public_key), signer, index, strict)
    for actions in (tuple(plain), (*plain, act.SignedDelegate(delegate, 1, bytes(65)))):
        receiver, encoded = call_bytes("receiver.near", actions)
        raw = envelope.sign_now([(nonce, receiver, encoded)], bytes(32))[0].raw
        assert actions_of(raw) == actions
        told = wire.decode(raw).actions
        inner = [a for action in told for a in getattr(action, "actions", ())]
        if not any(isinstance(action, Unsupported) for action in (*told, *inner)):
            asked = fees.tx_gas(told, account_id, "receiver.near") + fees.receipt_gas(told, "receiver.near")
            cost = worst_cost(actions, 10)
            assert cost.fee >= asked * 10
            assert cost.deposit == fees.deposit_of(told)


def test_a_transfer_and_a_call_cost_what_the_real_node_wants():
    """A real node wanted 4.5e20 for a transfer, and 0.101 NEAR for a call with 100 Tgas."""
    assert 4.4e20 < worst_cost((act.Transfer(0),), PURCHASE_PRICE).fee < 4.6e20
    call = act.FunctionCall("m", b"{}", 100 * 10**12)
    assert 1.01e23 < worst_cost((call,), PURCHASE_PRICE).fee < 1.02e23


@pytest.mark.parametrize(
    ("told", "price"),
    [
        ({"min_gas_price": "100000000", "runtime_config": {"min_gas_purchase_price": "1000000000"}}, 10**9),
        ({"min_gas_purchase_price": 10**9, "min_gas_price": "1"}, 10**9),
        ({"min_gas_price": "100000000", "runtime_config": {}}, 10**8),
        ({"min_gas_price": "-1", "runtime_config": []}, PURCHASE_PRICE),
        ({"min_gas_price": "9" * 400}, PURCHASE_PRICE),
        ({}, PURCHASE_PRICE),
    ],
)
def test_the_price_gas_is_bought_at_is_read_and_never_guessed_low(told, price):
    assert purchase_price(told) == price


async def test_the_whole_balance_fits_to_the_last_yocto_and_one_more_does_not():
    """Our word and the node's are the same close to the edge: what we let through is let in."""
    world = NearWorld()
    view = await world.chain.nonce(world.lane)
    funds = view.funds
    assert funds is not None
    [bare] = await world.chain.prepare(world.lane, [transfer("k", "0")])
    assert isinstance(bare, Prepared)
    assert bare.cost is not None
    [purse] = funds.purses
    most = purse.balance - bare.cost.fee
    for key, amount, word in (("more", purse.balance, Word.FAIL), ("most", most, Word.PROCEED)):
        [ready] = await world.chain.prepare(world.lane, [transfer(key, str(amount))])
        assert isinstance(ready, Prepared)
        assert ready.cost is not None
        assert judge(ready.cost, funds, FREE, Reserve()).word is word
        [attempt] = await world.chain.sign(world.lane, [ready], view.next_nonce, Purpose.FIRST, 0)
        assert world.chain.cost(attempt) == ready.cost
        refused = (await world.chain.probe(world.lane, attempt)).verdict is Verdict.INSUFFICIENT_FUNDS
        assert refused is (word is Word.FAIL)


@pytest.mark.parametrize(("used", "locked", "kept"), [(770, 0, 0), (771, 0, 771), (1000, 400, 600), (1000, 2000, 0)])
def test_what_pays_for_storage_cannot_be_spent_and_a_small_account_pays_none(used, locked, kept):
    account = AccountView(10_000 * STORAGE_PRICE, locked * STORAGE_PRICE, used, 9)
    funds = read_funds(KeyView(1, 9, "h"), account)
    assert funds is not None
    assert funds.height == 9
    assert [purse.balance for purse in funds.purses] == [(10_000 - kept) * STORAGE_PRICE]


def test_every_kind_of_key_has_its_purses():
    account = AccountView(100, 0, 0, 9)

    def purses(**key: int) -> list[tuple[str, int, bool, bool]]:
        funds = read_funds(KeyView(1, 9, "h", **key), account)
        assert funds is not None
        return [(p.name, p.balance, p.fees, p.deposits) for p in funds.purses]

    assert purses() == [("account", 100, True, True)]
    assert purses(allowance=5) == [("account", 100, True, True), ("allowance", 5, True, False)]
    assert purses(gas_balance=7) == [("account", 100, False, True), ("gas_key", 7, True, False)]
    assert read_funds(KeyView(1, 9, "h"), None) is None, "an account nobody knows says nothing"


def test_a_delegates_deposits_are_ours_to_pay():
    inner = act.DelegateAction(BOB.account_id, "ft.near", (act.Transfer(5),), 1, 1, PublicKey(0, bytes(32)))
    assert worst_cost((act.SignedDelegate(inner, 0, bytes(64)),), 1).deposit == 5


# what was really burnt, and what the protocol asks for

RECORDED = Path(__file__).parent.parent / "devnet" / "answers.jsonl"


def recorded_outcomes() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for line in RECORDED.read_text().splitlines():
        case = json.loads(line)
        told = case["answer"].get("result")
        if isinstance(told, dict) and told.get("final_execution_status") == "FINAL" and "receipts_outcome" in told:
            found.append((case["case"], told))
    return found


@pytest.mark.parametrize(
    ("name", "told"), recorded_outcomes(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_outcome_counts_what_the_real_node_burnt_to_the_yocto(name, told):
    kind = "near.delegate" if "delegate" in name else "near.transaction"
    outcome = judge_status(kind, {}, told, told["transaction"]["hash"], 1)
    outcomes = [told["transaction_outcome"], *told["receipts_outcome"]]
    burnt = sum(int(o["outcome"]["tokens_burnt"]) for o in outcomes)
    assert outcome.result is not None
    assert outcome.result["tokens_burnt"] == str(burnt)
    if outcome.status is Status.FAILED:
        assert outcome.error is not None
        assert outcome.error["spent"] == str(burnt)


def test_the_creation_charge_is_a_part_of_what_was_burnt():
    created = [told for name, told in recorded_outcomes() if name.startswith("create account")]
    assert created
    for told in created:
        outcome = judge_status("near.create_account", {}, told, "h", 1)
        assert outcome.result is not None
        if outcome.status is Status.DONE:
            assert int(str(outcome.result["tokens_burnt"])) > 7 * 10**21


def test_the_recorded_protocol_config_has_both_prices():
    [config] = [
        case["answer"]["result"]
        for case in map(json.loads, RECORDED.read_text().splitlines())
        if case["case"] == "protocol config"
    ]
    assert read_prices(config) == Prices(10**9, 7 * 10**21)
    assert read_prices({}) == Prices()
    assert read_prices({"runtime_config": {"account_creation_charge": "x"}}).creation == 0


def test_a_charge_above_the_gas_it_replaces_comes_on_top():
    create = (act.CreateAccount(), act.Transfer(1))
    plain = worst_cost(create, 10**9)
    assert worst_cost(create, 10**9, 7 * 10**21) == plain
    assert worst_cost(create, 10**9, 9 * 10**21).fee == plain.fee + 9 * 10**21 - 7_200 * 10**18
    inner = act.DelegateAction(BOB.account_id, "new.bob.near", create, 1, 1, PublicKey(0, bytes(32)))
    relayed = (act.SignedDelegate(inner, 0, bytes(64)),)
    assert worst_cost(relayed, 10**9, 9 * 10**21).fee > worst_cost(relayed, 10**9).fee


def telling(world: NearWorld, prices: dict[str, Any], number: int = 0):
    """A node whose epoch and protocol are what the test says; `away` makes it fail."""
    honest = world.node(0, f"node{number}")

    async def handle(method: str, params: Any) -> Any:
        if method == "EXPERIMENTAL_protocol_config" and prices.get("away"):
            raise ConnectionFailed("gone")
        answer = await honest(method, params)
        if method == "EXPERIMENTAL_protocol_config":
            answer["result"]["runtime_config"] = {"min_gas_purchase_price": str(prices["price"])}
        if method == "block":
            answer["result"]["header"] = {**answer["result"]["header"], "epoch_id": prices["epoch"]}
        return answer

    return handle, True, False


async def fee(world: NearWorld) -> int:
    [ready] = await world.chain.prepare(world.lane, [transfer("k")])
    assert isinstance(ready, Prepared)
    assert ready.cost is not None
    return ready.cost.fee


async def test_prices_are_read_at_the_start_and_in_each_new_epoch():
    world = NearWorld()
    prices: dict[str, Any] = {"price": 10**9, "epoch": "one", "away": True}
    world.see(telling(world, prices))
    with pytest.raises(ConnectionFailed):
        await fee(world)
    prices["away"] = False
    first = await fee(world)
    prices["price"] = 2 * 10**9
    world.calls.clear()
    assert await fee(world) == first
    assert "EXPERIMENTAL_protocol_config" not in world.calls
    await world.chain.recent_block()
    prices |= {"epoch": "two", "away": True}
    await world.chain.recent_block()
    assert await fee(world) == first, "what was read last counts while nobody answers"
    prices["away"] = False
    assert await fee(world) == 2 * first


async def test_one_node_that_asks_for_too_much_makes_no_lane_poor():
    world = NearWorld()
    honest, liar = {"price": 10**9, "epoch": "one"}, {"price": 10**20, "epoch": "one"}
    world.see(telling(world, liar, 1), telling(world, honest, 2))
    assert await fee(world) < 10**21
