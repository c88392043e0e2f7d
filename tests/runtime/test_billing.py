"""From the configuration's budgets to a bill: who pays, how much, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from txmanager.core.budgets import charge_of, excess
from txmanager.core.errors import BudgetExhausted, InvalidSettings, PolicyRefused
from txmanager.core.models import Attempt, Outcome, Purpose, Record, new_intent
from txmanager.core.states import Status
from txmanager.runtime.accept.billing import Billing, build_billing, too_small
from txmanager.settings import Settings
from txmanager.settings.family import Unit, find

GWEI = 10**9


def settings(*, token: list[Any] | None = None, pool: dict[str, Any] | None = None, **more: Any) -> Settings:
    return Settings.model_validate(
        {
            "networks": {
                "sepolia": {"chain": "evm", "chain_id": 11155111, "rpc": [{"url": "http://x"}]},
                "main": {"chain": "near", "rpc": [{"url": "http://x"}]},
            },
            "pools": {
                "e": {"network": "sepolia", "policy": pool or {}, "max_inflight": 16},
                "n": {"network": "main", "account": "a.near"},
            },
            "api": {
                "tokens": [
                    {"name": "bob", "sha256": "0" * 64, "scopes": ["submit"], "limits": {"budget": token or []}},
                ]
            },
            **more,
        }
    )


def budget(amount: object = "1 ETH", per: object = "1d", network: str = "sepolia") -> dict[str, object]:
    return {"network": network, "amount": amount, "per": per}


def billing(**told: Any) -> Billing:
    return build_billing(settings(**told))


def test_without_budgets_nothing_is_charged_and_max_cost_is_noted_as_before():
    billed = billing().bill("bob", "default", "e", None, 5, 9, None)
    assert (billed.bill, billed.limits) == (None, {"max_cost": "9"})


def test_all_budgets_that_apply_pay_the_narrowest_first_and_the_charge_bounds_every_signature():
    made = billing(
        token=[budget(), budget(per="ever")], pool={"budget": [budget("10 ETH")], "budget_per_key": [budget()]}
    )
    billed = made.bill("bob", "default", "e", "user:1", 7 * GWEI + 1, None, 90 * GWEI)
    assert billed.bill is not None
    assert billed.bill.units == 8
    assert [b.name for b in billed.bill.budgets] == [
        "key:default/e/user:1/1d", "token:bob/sepolia/1d", "token:bob/sepolia/ever", "pool:e/1d",
    ]  # fmt: skip
    assert billed.limits["max_cost"] == str(7 * GWEI + 1)
    noted = charge_of(new_intent(key="k", pool="e", kind="evm.transfer", payload={}, limits=billed.limits))
    assert noted is not None
    assert (noted.amount, noted.units) == (7 * GWEI + 1, 8)


def test_where_gas_is_not_known_the_charge_is_max_cost_and_with_neither_it_is_refused():
    made = billing(token=[budget()])
    billed = made.bill("bob", "default", "e", None, None, 20 * GWEI, 9 * GWEI)
    assert billed.bill is not None
    assert billed.bill.units == 9
    with pytest.raises(PolicyRefused, match="max_cost"):
        made.bill("bob", "default", "e", None, None, None, None)
    assert made.bill("alice", "default", "e", None, None, None, None).bill is None, "nobody pays for it"


def test_intent_beyond_every_sum_is_above_the_whole_budget():
    with pytest.raises(BudgetExhausted) as refused:
        billing(token=[budget()]).bill("bob", "default", "e", None, 1 << 256)
    assert refused.value.retry_after_s is None
    assert refused.value.left == 10**18


def test_token_with_budgets_of_another_network_is_refused_and_without_any_is_not():
    made = billing(token=[budget()])
    with pytest.raises(BudgetExhausted, match="main"):
        made.bill("bob", "default", "n", None, 5)
    assert made.bill("alice", "default", "n", None, 5).bill is None


def test_worst_case_of_evm_is_value_and_all_gas_at_the_highest_price():
    told = settings()
    read = find("evm").reading(told.networks["sepolia"], told.pools["e"])
    to = "0x" + "1" * 40
    assert read("evm.transaction", {"to": to, "value": "7", "gas": 21000, "max_fee_per_gas": "3"}).worst == 7 + 63_000
    assert read("evm.transaction", {"to": to, "value": "7"}).worst is None
    assert read("evm.transfer", {"to": to, "value": "7"}).worst is None
    whole = read("evm.transaction", {"to": to, "gas": 21000}).worst
    assert whole is not None
    assert whole > 21_000, "the network's own max_fee"


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"token": [budget(network="nowhere")]}, "network"),
        ({"token": [budget(), budget("2 ETH", "24h")]}, "per"),
        ({"token": [budget(per="8d")]}, "per"),
        ({"token": [budget("1 NEAR")]}, "amount"),
        ({"token": [budget("0.0000000000000000001 ETH")]}, "amount"),
        ({"token": [budget("999999999")]}, "amount"),
        ({"token": [budget("10000000 ETH")]}, "amount"),
        ({"pool": {"budget": [budget(network="main", amount="1 NEAR")]}}, "network"),
        ({"pool": {"required_prefixes": ["user:"]}}, "required_prefixes"),
    ],
)
def test_budget_that_cannot_be_held_is_refused_at_start(told: dict[str, Any], field: str):
    with pytest.raises(InvalidSettings, match=field):
        settings(**told)


@pytest.mark.parametrize("per", ["1 d", "59s", "0d", "1w", 60, None, "forever"])
def test_span_that_nobody_can_read_is_refused(per: object):
    with pytest.raises(ValueError, match="per"):
        settings(token=[budget(per=per)])


def test_budget_that_holds_fewer_than_max_inflight_worst_cases_is_warned_of():
    told = settings(token=[budget("1 ETH"), budget("100 ETH", "2d")], pool={"max_cost": str(10**17)})
    [warning] = too_small(told, build_billing(told))
    assert "token:bob/sepolia/1d" in warning


def test_amounts_are_read_exactly():
    unit = Unit("wei", scales={"gwei": 9, "ETH": 18})
    assert [unit.parse(text) for text in ("12", "1.5 gwei", "0.000000000000000001 ETH", "1.50 ETH")] == [
        12, 1_500_000_000, 1, 15 * 10**17,
    ]  # fmt: skip
    for wrong in ("1.5", "x ETH", "1 eth", "1.1.1 gwei", "- ETH", "٣ ETH", ""):
        with pytest.raises(ValueError, match=r"."):
            unit.parse(wrong)


def test_excess_is_what_it_cost_above_its_charge():
    limits = billing(token=[budget()]).bill("bob", "default", "e", None, 7 * GWEI).limits
    intent = new_intent(key="k", pool="e", kind="evm.transfer", payload={}, limits=limits)
    attempts = (Attempt(1, "h", b"", Purpose.FIRST, 0),)
    done = Record(intent, "evm:1:0x1", "l", Status.DONE, "1-0", 1, 2, attempts, Outcome(Status.DONE, cost=8 * GWEI))
    assert excess(done) == GWEI
    assert (
        excess(Record(intent, "evm:1:0x1", "l", Status.DONE, "1-0", 1, 2, attempts, Outcome(Status.DONE, cost=1))) == 0
    )
