"""The drop-in for near-api-py: the same calls, the same effects on the chain, one effect per key."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from tests.near.world import ALICE, BOB, NearWorld, intent
from txmanager.chains.near import NearPolicy, near_api_account
from txmanager.chains.near.near_api_account import Account, TransactionError, ViewFunctionError, through
from txmanager.core.errors import InvalidInput
from txmanager.core.models import Outcome
from txmanager.devnet.contracts import CODE

NEAR = 10**24


class Manager:
    """Executes each key once on the devnet, as the manager promises, and remembers the outcome."""

    def __init__(self) -> None:
        self.world = NearWorld(policy=NearPolicy(own_account=frozenset({"deploy_contract"})))
        self.done: dict[str, Outcome] = {}

    async def execute(self, pool, idempotency_key, *, kind, payload, timeout_s) -> Outcome:
        if idempotency_key not in self.done:
            wanted = intent(idempotency_key, kind, payload)
            self.done[idempotency_key] = await self.world.run(wanted)
        return self.done[idempotency_key]


class Provider:
    def __init__(self, world: NearWorld) -> None:
        self._world = world

    def _query(self, **params):
        handle = self._world.node(0)("query", {"finality": "optimistic", **params})
        return asyncio.run(handle)["result"]

    def get_account(self, account_id):
        return self._query(request_type="view_account", account_id=account_id)

    def view_call(self, account_id, method, args):
        import base64

        encoded = base64.b64encode(args).decode()
        return self._query(request_type="call_function", account_id=account_id, method_name=method, args_base64=encoded)


@pytest.fixture
def manager():
    made = Manager()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made.account = Account(through(made, loop), "p", ALICE.account_id, Provider(made.world))
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_calls_transfers_and_views_work_as_before(manager):
    account = manager.account
    before = int(Provider(manager.world).get_account(BOB.account_id)["amount"])
    account.send_money(BOB.account_id, 5)
    assert int(Provider(manager.world).get_account(BOB.account_id)["amount"]) == before + 5
    answer = account.function_call("counter.near", "increment", {"by": 4})
    assert answer["status"] == {"SuccessValue": "NA=="}
    assert answer["transaction_outcome"]["outcome"]["logs"] == ["counter is 4"]
    assert account.view_function("counter.near", "get_num", {})["result"] == 4
    assert int(account.state["amount"]) > 0


def test_a_repeated_key_has_one_effect_and_no_key_means_a_new_one(manager):
    account = manager.account
    for _ in range(3):
        account.function_call("counter.near", "increment", {}, idempotency_key="once")
    assert account.view_function("counter.near", "get_num", {})["result"] == 1
    for _ in range(2):
        account.function_call("counter.near", "increment", {})
    assert account.view_function("counter.near", "get_num", {})["result"] == 3


def test_accounts_and_contracts_are_created_as_before(manager):
    account, key = manager.account, bytes(range(32))
    name = f"one.{ALICE.account_id}"
    first = account.create_account(name, key, NEAR)
    assert account.create_account(name, key, NEAR) == first  # the derived key: the same account, the same answer
    contract = f"two.{ALICE.account_id}"
    account.create_and_deploy_contract(contract, key, CODE["counter"], 5 * NEAR)
    assert account.function_call(contract, "increment", {})["status"] == {"SuccessValue": "MQ=="}
    third = f"three.{ALICE.account_id}"
    account.create_deploy_and_init_contract(third, None, CODE["counter"], 5 * NEAR, {}, init_method_name="reset")
    assert account.view_function(third, "get_num", {})["result"] == 0
    account.deploy_contract(CODE["counter"])


def test_failures_raise_near_api_pys_own_errors(manager):
    with pytest.raises(TransactionError) as caught:
        manager.account.function_call("counter.near", "fail", {"message": "no"})
    assert caught.value.args[0]["code"] == "contract_panicked"
    with pytest.raises(ViewFunctionError):
        manager.account.view_function("counter.near", "nothing", {})
    with pytest.raises(InvalidInput, match="provider"):
        Account(lambda *_: None, "p", "a.near").fetch_state()


def test_every_public_method_of_near_api_py_is_there_with_its_arguments():
    original = pytest.importorskip("near_api.account", reason="near-api-py installs on Python < 3.12 only")
    assert near_api_account.TransactionError is original.TransactionError
    for name, member in vars(original.Account).items():
        if name.startswith("_"):
            continue
        ours = inspect.getattr_static(Account, name)
        if isinstance(member, property):
            assert isinstance(ours, property), name
            continue
        theirs = list(inspect.signature(member).parameters)
        assert list(inspect.signature(ours).parameters)[: len(theirs)] == theirs, name
