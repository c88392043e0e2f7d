"""Receipts: which block they run in, what they cost, what comes back, and how contracts answer."""

from __future__ import annotations

import base64
import json

import pytest

from tests.devnet.world import ALICE, BOB, CAROL, NEAR, TGAS, World, call, failures
from txmanager.devnet import key_pair
from txmanager.devnet.contracts import CODE, STORAGE_DEPOSIT
from txmanager.devnet.model import (
    AddKey,
    CreateAccount,
    Delegate,
    DeleteAccount,
    DeleteKey,
    DeployContract,
    Permission,
    Transfer,
    TransferToGasKey,
    WithdrawFromGasKey,
)

NEW_KEY = key_pair(1, "new").public_key
TRUE, FALSE = ({"SuccessValue": base64.b64encode(word).decode()} for word in (b"true", b"false"))


@pytest.fixture
def world():
    world = World()
    yield world
    assert world.conserved()


def heights(record):
    return [outcome.height - record.height for outcome in record.outcomes]


def test_a_transfer_runs_one_block_after_inclusion_and_costs_exactly_its_gas(world):
    before = world.balance(ALICE), world.balance(BOB)
    record = world.do(ALICE, BOB, Transfer(NEAR))
    assert heights(record) == [0, 1, 2]  # gas is bought dearer than it is burnt: the difference comes back
    assert world.balance(BOB) == before[1] + NEAR
    burnt = sum(outcome.tokens_burnt for outcome in record.outcomes)
    assert world.balance(ALICE) == before[0] - NEAR - burnt
    assert burnt > 0


def test_a_receipt_to_oneself_runs_in_the_same_block(world):
    assert heights(world.do(ALICE, ALICE, AddKey(NEW_KEY))) == [0, 0, 1]


def test_unspent_gas_comes_back_in_its_own_receipt_a_block_later(world):
    before = world.balance(ALICE)
    record = world.do(ALICE, "counter.near", call("increment", gas=200 * TGAS))
    assert heights(record) == [0, 1, 2]
    assert record.executed_at == record.height + 1
    assert record.done_at == record.height + 2
    assert before - world.balance(ALICE) < 10 * TGAS * world.network.config.gas_price


def test_a_contract_earns_nothing_by_being_called(world):
    before = world.balance("counter.near")
    world.do(ALICE, "counter.near", call("increment"))
    assert world.balance("counter.near") == before


def test_creating_an_account_is_charged_beside_its_gas(world):
    record = world.do(ALICE, f"new.{ALICE}", CreateAccount(), Transfer(NEAR), AddKey(NEW_KEY))
    receipt = record.outcomes[1]
    assert receipt.tokens_burnt == 7 * 10**21 + (receipt.gas_burnt - 7_200_000_000_000) * 100_000_000


def test_a_panic_undoes_everything_and_sends_the_deposit_back(world):
    before = world.balance(ALICE), world.balance("counter.near")
    record = world.do(ALICE, "counter.near", call("fail", b'{"message":"no"}', deposit=NEAR))
    words = "Smart contract panicked: no"
    assert failures(record) == [{"FunctionCallError": {"ExecutionError": words}}]
    assert world.result(record)["Failure"]
    assert world.balance("counter.near") == before[1]
    burnt = sum(outcome.tokens_burnt for outcome in record.outcomes)
    assert world.balance(ALICE) == before[0] - burnt


def test_a_batch_is_all_or_nothing_and_names_the_action_that_failed(world):
    record = world.do(ALICE, "counter.near", call("increment"), call("fail"))
    assert record.outcomes[1].status["Failure"]["ActionError"]["index"] == 1
    assert world.network.chain.state.get(("counter.near", None, "n")) is None


def test_too_little_gas_fails_in_the_protocols_words(world):
    record = world.do(ALICE, "counter.near", call("increment", gas=TGAS))
    assert failures(record) == [{"FunctionCallError": {"ExecutionError": "Exceeded the prepaid gas."}}]


@pytest.mark.parametrize(
    ("receiver", "error"),
    [
        (BOB, {"CompilationError": {"CodeDoesNotExist": {"account_id": BOB}}}),
        ("counter.near", {"MethodResolveError": "MethodNotFound"}),
    ],
)
def test_calling_what_is_not_there(world, receiver, error):
    assert failures(world.do(ALICE, receiver, call("nothing"))) == [{"FunctionCallError": error}]


def test_deploying_a_built_in_contract_makes_it_callable(world):
    world.do(ALICE, ALICE, DeployContract(CODE["counter"]))
    record = world.do(BOB, ALICE, call("increment", b'{"by": 4}'))
    assert world.result(record) == {"SuccessValue": base64.b64encode(b"4").decode()}


# accounts


def create(new_account_id, key=NEW_KEY):
    return json.dumps({"new_account_id": new_account_id, "new_public_key": key}).encode()


def test_the_root_contract_creates_an_account_and_answers_true(world):
    record = world.do(ALICE, "near", call("create_account", create("x.near"), 60 * TGAS, NEAR))
    assert world.result(record) == TRUE
    assert world.balance("x.near") == NEAR
    assert world.access_key("x.near", NEW_KEY)


def test_the_root_contract_answers_false_on_a_duplicate_and_the_deposit_comes_back(world):
    world.do(ALICE, "near", call("create_account", create("x.near"), 60 * TGAS, NEAR))
    before = world.balance(BOB)
    record = world.do(BOB, "near", call("create_account", create("x.near"), 60 * TGAS, NEAR))
    assert world.result(record) == FALSE  # a success, by the top status alone
    assert failures(record) == [{"AccountAlreadyExists": {"account_id": "x.near"}}]
    assert before - world.balance(BOB) < NEAR // 100
    assert world.balance("x.near") == NEAR


def test_creating_an_account_with_too_little_gas_creates_nothing_and_returns_the_deposit(world):
    before = world.balance(ALICE)
    record = world.do(ALICE, "near", call("create_account", create("x.near"), 15 * TGAS, NEAR))
    assert failures(record) == [{"FunctionCallError": {"ExecutionError": "Exceeded the prepaid gas."}}]
    assert world.account("x.near") is None
    assert before - world.balance(ALICE) < NEAR // 100


def test_create_account_advanced_gives_limited_keys_and_code(world):
    limited = {"public_key": NEW_KEY, "allowance": "5", "receiver_id": "counter.near", "method_names": "a, b"}
    options = {"limited_access_keys": [limited], "contract_bytes": list(CODE["counter"])}
    args = json.dumps({"new_account_id": "y.near", "options": options}).encode()
    assert world.result(world.do(ALICE, "near", call("create_account_advanced", args, 60 * TGAS, NEAR))) == TRUE
    key = world.access_key("y.near", NEW_KEY)
    assert key is not None
    assert key.permission == Permission("counter.near", ("a", "b"), 5)
    assert world.result(world.do(BOB, "y.near", call("increment"))) == {"SuccessValue": "MQ=="}


def test_the_roots_callback_is_private(world):
    args = json.dumps({"predecessor_account_id": ALICE, "amount": "1"}).encode()
    assert failures(world.do(ALICE, "near", call("on_account_created", args)))


def test_a_parent_creates_its_sub_account_once(world):
    actions = (CreateAccount(), Transfer(NEAR), AddKey(NEW_KEY))
    world.do(ALICE, f"sub.{ALICE}", *actions)
    assert world.balance(f"sub.{ALICE}") == NEAR
    again = world.do(ALICE, f"sub.{ALICE}", *actions)
    assert failures(again) == [{"AccountAlreadyExists": {"account_id": f"sub.{ALICE}"}}]


@pytest.mark.parametrize(
    ("new_id", "error"),
    [
        (f"sub.{BOB}", "CreateAccountNotAllowed"),
        (f"a.b.{ALICE}", "CreateAccountNotAllowed"),
        ("top", "CreateAccountOnlyByRegistrar"),
        ("ab" * 32, "OnlyImplicitAccountCreationAllowed"),
    ],
)
def test_accounts_that_may_not_be_created(world, new_id, error):
    [kind] = failures(world.do(ALICE, new_id, CreateAccount(), Transfer(1)))
    assert list(kind) == [error]


def test_a_transfer_makes_an_implicit_account_with_the_key_its_name_spells(world):
    import base58

    implicit = base58.b58decode(NEW_KEY[8:]).hex()
    world.do(ALICE, implicit, Transfer(NEAR))
    assert world.balance(implicit) == NEAR
    assert world.access_key(implicit, NEW_KEY)


def test_a_transfer_to_nobody_comes_back(world):
    before = world.balance(ALICE)
    record = world.do(ALICE, "nobody.near", Transfer(NEAR))
    assert failures(record) == [{"AccountDoesNotExist": {"account_id": "nobody.near"}}]
    assert before - world.balance(ALICE) < NEAR // 100


def test_a_deleted_account_leaves_all_it_has_to_its_heir(world):
    before = world.balance(BOB)
    had = world.balance(ALICE)
    world.do(ALICE, ALICE, DeleteAccount(BOB))
    assert world.account(ALICE) is None
    assert world.balance(BOB) - before > had - NEAR


def test_a_refund_to_a_deleted_account_is_burnt(world):
    """A panicking call is on its way while its sender vanishes: nobody is left to refund."""
    slow = world.tx(ALICE, "counter.near", call("fail", deposit=NEAR))
    gone = world.tx(ALICE, ALICE, DeleteAccount(BOB))
    world.network.submit(slow)
    world.network.submit(gone)
    world.network.advance(10)
    assert world.account(ALICE) is None
    lost = next(o for o in world.record(slow).outcomes if o.receipt is not None and o.receipt.refund and o.failed)
    assert lost.tokens_burnt == 0  # no outcome says so, as on a real network; the supply does
    assert world.network.chain.burnt > NEAR


# keys


def test_keys_are_added_and_deleted_and_only_by_their_owner(world):
    world.do(ALICE, ALICE, AddKey(NEW_KEY))
    again = {"account_id": ALICE, "public_key": NEW_KEY}
    assert failures(world.do(ALICE, ALICE, AddKey(NEW_KEY))) == [{"AddKeyAlreadyExists": again}]
    stranger = {"account_id": ALICE, "actor_id": BOB}
    assert failures(world.do(BOB, ALICE, DeleteKey(NEW_KEY))) == [{"ActorNoPermission": stranger}]
    world.do(ALICE, ALICE, DeleteKey(NEW_KEY))
    assert world.access_key(ALICE, NEW_KEY) is None
    assert failures(world.do(ALICE, ALICE, DeleteKey(NEW_KEY))) == [{"DeleteKeyDoesNotExist": again}]


def test_a_function_call_keys_allowance_pays_and_gets_its_refund(world):
    world.do(ALICE, ALICE, AddKey(NEW_KEY, Permission("counter.near", ("increment",), NEAR)))
    record = world.do(ALICE, "counter.near", call("increment"), public_key=NEW_KEY)
    key = world.access_key(ALICE, NEW_KEY)
    assert key is not None
    assert key.permission is not None
    burnt = sum(o.tokens_burnt for o in record.outcomes)
    assert key.permission.allowance == NEAR - burnt


def test_a_gas_key_pays_for_gas_and_the_account_for_deposits(world):
    world.do(ALICE, ALICE, AddKey(NEW_KEY, None, num_nonces=2))
    world.do(ALICE, ALICE, TransferToGasKey(NEW_KEY, NEAR))
    before = world.balance(ALICE)
    record = world.do(ALICE, BOB, Transfer(5), public_key=NEW_KEY, nonce_index=1, version=1)
    assert world.balance(ALICE) == before - 5
    key = world.access_key(ALICE, NEW_KEY)
    assert key is not None
    assert key.gas_balance == NEAR - sum(o.tokens_burnt for o in record.outcomes)
    world.do(ALICE, ALICE, WithdrawFromGasKey(NEW_KEY, 1000))
    short = world.do(ALICE, ALICE, WithdrawFromGasKey(NEW_KEY, 2 * NEAR))
    assert "InsufficientGasKeyBalance" in failures(short)[0]


def test_a_deleted_gas_keys_balance_is_burnt_unless_it_is_large(world):
    world.do(ALICE, ALICE, AddKey(NEW_KEY, None, num_nonces=2), TransferToGasKey(NEW_KEY, 2 * NEAR))
    [kind] = failures(world.do(ALICE, ALICE, DeleteKey(NEW_KEY)))
    assert kind["GasKeyBalanceTooHigh"]["balance"] == str(2 * NEAR)
    world.do(ALICE, ALICE, WithdrawFromGasKey(NEW_KEY, NEAR))
    record = world.do(ALICE, ALICE, DeleteKey(NEW_KEY))
    assert sum(o.tokens_burnt for o in record.outcomes) > NEAR
    assert world.network.gas_key_nonces(ALICE, NEW_KEY)[0] is None


# the token


def ft(method, deposit=1, **args):
    return call(method, json.dumps(args).encode(), deposit=deposit)


def test_tokens_move_between_registered_accounts_only(world):
    def held(account_id):
        return world.network.chain.state.get(("ft.near", None, f"b:{account_id}"))

    before = held(ALICE), held(BOB)
    record = world.do(ALICE, "ft.near", ft("ft_transfer", receiver_id=BOB, amount="10"))
    assert (held(ALICE), held(BOB)) == (before[0] - 10, before[1] + 10)
    assert record.outcomes[1].logs[0].startswith('EVENT_JSON:{"standard":"nep141"')
    world.do(ALICE, f"sub.{ALICE}", CreateAccount(), Transfer(NEAR))
    refused = world.do(ALICE, "ft.near", ft("ft_transfer", receiver_id=f"sub.{ALICE}", amount="1"))
    assert "is not registered" in failures(refused)[0]["FunctionCallError"]["ExecutionError"]
    spare = world.balance(ALICE)
    world.do(ALICE, "ft.near", ft("storage_deposit", NEAR, account_id=f"sub.{ALICE}"))
    assert spare - world.balance(ALICE) < STORAGE_DEPOSIT * 2  # what it did not need came back
    world.do(ALICE, "ft.near", ft("ft_transfer", receiver_id=f"sub.{ALICE}", amount="1"))
    assert held(f"sub.{ALICE}") == 1


# delegates


def delegate(world, *actions, **changes):
    told = {
        "sender_id": BOB,
        "receiver_id": "counter.near",
        "actions": actions or (call("increment"),),
        "nonce": world.nonce(BOB, world.key(BOB)) + 1,
        "max_block_height": world.network.head().height + 100,
        "public_key": world.key(BOB),
    }
    return Delegate(**{**told, **changes})


def test_a_relayed_call_runs_as_the_user_and_costs_the_relayer(world):
    before = world.balance(BOB), world.balance(ALICE), world.nonce(BOB, world.key(BOB))
    record = world.do(ALICE, BOB, delegate(world))
    assert world.result(record) == {"SuccessValue": ""}  # the outer receipt answers for itself
    inner = next(o for o in record.outcomes if o.receipt is not None and o.receipt.predecessor_id == BOB)
    assert inner.status == {"SuccessValue": "MQ=="}
    assert world.balance(BOB) == before[0]
    assert world.balance(ALICE) < before[1]
    assert world.nonce(BOB, world.key(BOB)) == before[2] + 1


def test_a_relayed_deposit_is_paid_by_the_relayer_and_refunded_to_the_user(world):
    before = world.balance(BOB)
    world.do(ALICE, BOB, delegate(world, call("fail", deposit=NEAR)))
    assert world.balance(BOB) == before + NEAR


def test_delegates_are_checked_in_the_protocols_order(world):
    """Every fault at once, repaired one by one: the first one standing is the one that is told."""
    start = world.nonce(BOB, world.key(BOB))
    broken = {
        "signature_ok": False,
        "max_block_height": 5,
        "sender_id": CAROL,
        "public_key": NEW_KEY,
        "nonce": start,
    }
    limited = key_pair(2, "limited").public_key
    world.do(BOB, BOB, AddKey(limited, Permission("counter.near", ("increment",), None)))
    steps = [
        ("signature_ok", True, "DelegateActionInvalidSignature"),
        ("max_block_height", 10**12, "DelegateActionExpired"),
        ("sender_id", BOB, "DelegateActionSenderDoesNotMatchTxReceiver"),
        ("public_key", limited, "DelegateActionAccessKeyError"),
        ("nonce", 10**18, "DelegateActionInvalidNonce"),
        ("nonce", world.nonce(BOB, limited) + 1, "DelegateActionNonceTooLarge"),
        ("actions", (call("increment"),), "DelegateActionAccessKeyError"),
    ]
    broken["actions"] = (call("reset"),)
    for field, repaired, expected in steps:
        [kind] = failures(world.do(ALICE, BOB, delegate(world, **broken)))
        assert (kind if isinstance(kind, str) else next(iter(kind))) == expected
        broken[field] = repaired
    assert not failures(world.do(ALICE, BOB, delegate(world, **broken)))


def test_a_delegate_lives_up_to_its_last_block_and_is_spent_by_its_nonce(world):
    last = world.network.head().height + 2  # included in the next block, run in the one after
    signed = delegate(world, max_block_height=last)
    assert not failures(world.do(ALICE, BOB, signed))
    [kind] = failures(world.do(ALICE, BOB, delegate(world, max_block_height=world.network.head().height + 1)))
    assert kind == "DelegateActionExpired"
    told = {"delegate_nonce": signed.nonce, "ak_nonce": signed.nonce}
    replayed = delegate(world, nonce=signed.nonce)
    assert failures(world.do(ALICE, BOB, replayed)) == [{"DelegateActionInvalidNonce": told}]


def test_a_failed_delegate_spends_the_relayers_gas_and_returns_the_deposit_to_it(world):
    before = world.balance(ALICE), world.balance(BOB)
    world.do(ALICE, BOB, delegate(world, Transfer(NEAR), signature_ok=False))
    assert world.balance(BOB) == before[1]
    assert 0 < before[0] - world.balance(ALICE) < NEAR // 10
