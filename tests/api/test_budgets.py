"""Budgets through the running programs: charged when accepted, corrected when done, told and changed by operators."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.api.stage import Stage, token
from tests.waiting import until_sync
from txmanager.cli import main

NEAR = 10**24
POLICY = """
[pools.main.policy]
budget = [{ network = "localnet", amount = "50 NEAR", per = "1d" }]
budget_per_key = [{ network = "localnet", amount = "2 NEAR", per = "1h" }]

[pools.strict]
network = "localnet"
account = "nobody.near"
[pools.strict.policy]
budget_per_key = [{ network = "localnet", amount = "2 NEAR", per = "1h" }]
required_prefixes = ["user:", "app:"]

[networks.elsewhere]
chain = "near"
rpc = [{ url = "http://127.0.0.1:9" }]

[pools.far]
network = "elsewhere"
account = "nobody.near"
"""
PAYER = f"""
[[api.tokens]]
name = "payer"
sha256 = "{hashlib.sha256(token("payer").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
budget = [
  {{ network = "localnet", amount = "10 NEAR", per = "1d" }},
  {{ network = "localnet", amount = "30 NEAR", per = "ever" }},
]
"""


@pytest.fixture(scope="module")
def paid(redis7, devnet) -> Iterator[Stage]:
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, pool_more=POLICY, api_more=PAYER) as running:
        yield running.start()


def budget(stage: Stage, name: str, by: str = "payer", **query: str) -> dict[str, int]:
    found = stage.get("/v1/budgets", by=by, params=query).json()["budgets"]
    [told] = [one for one in found if one["name"] == name]
    return {field: int(told[field]) for field in ("limit", "configured", "charged", "spent", "left")}


def test_intent_is_charged_at_worst_and_booked_at_what_it_cost(paid: Stage, key: str):
    before = budget(paid, "token:payer/localnet/1d")
    done = paid.transfer(key, str(NEAR), wait=20, by="payer").json()
    assert done["status"] == "done", done
    charge, cost = int(done["charge"]), int(done["cost"])
    assert NEAR < cost < charge < 2 * NEAR, "gas is bought dear and burnt cheap"
    assert cost == NEAR + int(done["outcome"]["result"]["tokens_burnt"])

    def corrected() -> bool:
        now = budget(paid, "token:payer/localnet/1d")
        booked = now["spent"] - before["spent"]
        return now["charged"] == 0 and 0 <= booked - cost < 10**15  # rounded up to a nanoNEAR

    until_sync(corrected, 10, what="the charge is corrected")
    for name, by in (("token:payer/localnet/ever", "payer"), ("pool:main/1d", "payer")):
        assert budget(paid, name, by)["spent"] >= cost
    again = paid.transfer(key, str(NEAR), by="payer")
    assert again.json()["cost"] == str(cost)


def test_over_budget_is_403_with_what_is_left_and_when(paid: Stage, key: str):
    refused = paid.transfer(key, str(60 * NEAR), by="payer")
    assert refused.status_code == 403
    problem = refused.json()
    assert (problem["code"], problem["budget"]) == ("budget_exhausted", "token:payer/localnet/1d")
    assert int(problem["needs"]) > 60 * NEAR
    assert 0 < int(problem["left"]) <= 10 * NEAR
    assert "retry-after" not in refused.headers, "it is more than the whole budget"
    assert "NEAR left" in problem["detail"]
    assert paid.get(f"/v1/intents/{key}?pool=main", by="payer").status_code == 404
    left = int(problem["left"])
    full = paid.transfer(f"{key}-2", str(left - 10**18), by="payer")  # no room for its gas
    assert full.status_code == 403
    assert int(full.headers["retry-after"]) > 3600, "until what was spent leaves the window"


def test_key_of_a_caller_has_a_budget_of_its_own_and_no_effect_on_the_fingerprint(paid: Stage, key: str):
    user = f"user:{secrets.token_hex(4)}"
    accepted = paid.transfer(key, str(NEAR), budget_key=user)
    assert accepted.status_code == 202, accepted.text
    assert paid.transfer(key, str(NEAR), budget_key="user:another").status_code == 200, "the same request"
    refused = paid.transfer(f"{key}-2", str(NEAR), budget_key=user)
    assert (refused.status_code, refused.json()["budget"]) == (403, f"key:default/main/{user}/1h")
    assert paid.transfer(f"{key}-2", str(NEAR), budget_key=f"{user}-other").status_code == 202
    shown = budget(paid, f"key:default/main/{user}/1h", "all", budget_key=user, pool="main")
    assert shown["limit"] == 2 * NEAR
    assert shown["left"] < NEAR
    assert paid.transfer(f"{key}-3", "1", budget_key="a b").status_code == 422


def test_pool_that_requires_prefixes_refuses_keys_that_callers_invent(paid: Stage, key: str):
    for told in ({}, {"budget_key": "me"}, {"budget_key": "xuser:1"}):
        refused = paid.transfer(key, **{"pool": "strict", **told})
        assert (refused.status_code, refused.json().get("field")) == (422, "budget_key"), refused.text
    assert paid.transfer(key, pool="strict", budget_key="app:1").json()["code"] == "no_lane"


def test_token_with_budgets_may_use_no_network_that_none_of_them_names(paid: Stage, key: str):
    refused = paid.transfer(key, pool="far", by="payer")
    assert (refused.status_code, refused.json()["code"]) == (403, "budget_exhausted")
    assert "elsewhere" in refused.json()["detail"]


def test_token_sees_its_own_budgets_and_operators_of_all_tenants_see_everybodys(paid: Stage):
    def names(by: str) -> set[str]:
        return {one["name"] for one in paid.get("/v1/budgets", by=by).json()["budgets"]}

    mine = {"token:payer/localnet/1d", "token:payer/localnet/ever", "pool:main/1d"}
    assert names("payer") == names("ops") == mine
    assert names("narrow") == {"pool:main/1d"}
    assert paid.get("/v1/budgets", by="writer").status_code == 403


def command(stage: Stage, *arguments: str) -> tuple[object, str]:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(out):
        patch.setattr("sys.argv", ["txmanager", *arguments, "--config", str(stage.config)])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code, out.getvalue()


def test_operator_sets_raises_and_resets_a_budget_and_the_audit_has_it(paid: Stage, key: str):
    name = "token:payer/localnet/1d"
    assert command(paid, "budgets", "set", name, "0.5 NEAR")[0] in (0, None)
    assert budget(paid, name)["limit"] == NEAR // 2
    refused = paid.transfer(key, str(NEAR), by="payer")
    assert (refused.status_code, refused.json()["budget"]) == (403, name)
    code, said = command(paid, "budgets", "raise", name, "14.5 NEAR")
    assert code in (0, None), said
    assert "of 15.00 NEAR" in said
    assert "the configuration says 10.00 NEAR" in said
    assert paid.transfer(key, str(NEAR), by="payer").status_code == 202, "the same key, once there is enough"
    assert command(paid, "budgets", "raise", name, "9100000 NEAR")[0] not in (0, None)
    assert command(paid, "budgets", "set", name, "5 apples")[0] not in (0, None)
    assert command(paid, "budgets", "set", "token:nobody/localnet/1d", "1")[0] not in (0, None)
    assert command(paid, "budgets", "reset", name)[0] in (0, None)
    now = budget(paid, name)
    assert now["limit"] == now["configured"] == 10 * NEAR
    shown = json.loads(command(paid, "budgets", "list", "--json")[1])
    assert {one["name"] for one in shown} == {name, "token:payer/localnet/ever", "pool:main/1d"}
    verbs = [entry["what"] for entry in paid.get("/v1/audit", by="ops").json()["audit"] if entry["on"] == name]
    assert verbs == [f"txmanager budgets {verb}" for verb in ("reset", "raise", "set")], "what was refused never acted"


def test_metrics_tell_limit_and_use_of_tokens_and_pools_and_of_no_key(paid: Stage):
    text = paid.get("/metrics").text
    assert 'txmanager_budget_limit{budget="token:payer/localnet/1d"}' in text
    assert 'txmanager_budget_used{budget="pool:main/1d"}' in text
    assert "key:" not in text
