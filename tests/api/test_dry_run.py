"""`?dry_run=true` says exactly what the call that follows is answered with, and writes nothing."""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import KEY, Stage, token
from tests.waiting import until_sync

PAYER = f"""
[[api.tokens]]
name = "payer"
sha256 = "{hashlib.sha256(token("payer").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
max_deposit = "3000000000000000000000000"
max_queued = 40
budget = [{{ network = "localnet", amount = "12 NEAR", per = "1d" }}]
"""
NEAR = 10**24


@pytest.fixture(scope="module")
def paid(redis7, devnet) -> Iterator[Stage]:
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, api_more=PAYER) as running:
        yield running.start()


def ask(stage: Stage, request: dict[str, Any]) -> tuple[Any, Any]:
    """The dry run's answer, then the real one's."""
    told = {name: value for name, value in request.items() if name != "path"}
    path = request.get("path", "/v1/intents")
    dry = stage.post(f"{path}?dry_run=true", told["body"], key=told["key"], by=told["by"])
    real = stage.post(path, told["body"], key=told["key"], by=told["by"])
    return dry, real


def transfer(amount: int, receiver: str = "dev1.near", **more: Any) -> dict[str, Any]:
    payload = {"receiver_id": receiver, "amount": str(amount)}
    return {"pool": "main", "kind": "near.transfer", "payload": payload, **more}


def drawn(rng: random.Random, keys: list[str]) -> dict[str, Any]:
    """Any request: good and bad payloads, few keys, several tokens and pools."""
    body = rng.choice(
        [
            transfer(rng.choice([1, 5, NEAR])),
            transfer(rng.choice([2 * NEAR, 4 * NEAR, 90 * NEAR])),
            transfer(1, "NOT AN ACCOUNT"),
            transfer(1, pool="spare"),
            transfer(1, pool="nowhere"),
            transfer(1, budget_key="user:1"),
            {**transfer(1), "kind": "near.unknown"},
            {**transfer(1), "payload": {"receiver_id": "dev1.near"}},
        ]
    )
    return {"body": body, "key": rng.choice(keys), "by": rng.choice(["payer", "payer", "all", "narrow", "other"])}


@pytest.mark.parametrize("seed", range(6))
def test_dry_run_says_what_the_call_that_follows_says(paid: Stage, seed: int):
    rng = random.Random(seed)
    for n in range(30):
        # A key that is refused stays with its payload for a day: a new one each time, or one that was accepted.
        keys = [f"dry-{seed}-{n}-{secrets.token_hex(3)}", f"dry-{seed}-kept"]
        request = drawn(rng, keys)
        if request["key"].endswith("kept"):
            request["body"] = transfer(rng.choice([1, 1, 2]))
        dry, real = ask(paid, request)
        if dry.status_code != 200:  # wrong before anything is asked: both say the same
            assert (dry.status_code, dry.json()["code"]) == (real.status_code, real.json()["code"]), request
            continue
        told = dry.json()["accepted"]
        if 429 in (told["status"], real.status_code) and told["status"] != real.status_code:
            continue  # the sum of what waits was read anew between the two
        assert told["status"] == real.status_code, (request, told, real.text)
        if told["ok"]:
            assert told["lane"] == real.json()["lane"]
            assert told["replayed"] == (real.headers.get("idempotency-replayed") == "true")
            if not told["replayed"]:
                assert told["charge"] == real.json().get("charge")
        else:
            assert told["problem"]["code"] == real.json()["code"], request


def test_dry_run_writes_nothing(paid: Stage, key: str):
    again = "/v1/intents?dry_run=true"
    until_sync(lambda: paid.post(again, transfer(NEAR), key=key, by="payer").json()["accepted"]["ok"], what="room")
    before = paid.get("/v1/budgets", by="payer").json()
    for _ in range(2):
        answer = paid.post("/v1/intents?dry_run=true", transfer(NEAR), key=key, by="payer").json()
        assert answer["accepted"]["ok"] is True
        assert answer["accepted"]["replayed"] is False
    assert paid.get(f"/v1/intents/{key}?pool=main").status_code == 404
    now = paid.get("/v1/budgets", by="payer").json()
    before_and_now = zip(before["budgets"], now["budgets"], strict=True)
    assert all(int(one["charged"]) <= int(then["charged"]) for then, one in before_and_now), "a dry run was charged"


def test_forecast_tells_what_acceptance_does_not_check(paid: Stage, key: str):
    fine = paid.post("/v1/intents?dry_run=true", transfer(5), key=key).json()["forecast"]
    assert (fine["known"], fine["possible"]) == (True, True)
    assert int(fine["cost"]["most"]) > 5
    assert fine["cost"]["deposit"] == "5"
    body = {"pool": "main", "new_account_id": f"a{secrets.token_hex(6)}.somebody-else.near", "new_public_key": KEY}
    odd = paid.post("/v1/near/accounts?dry_run=true", body)
    assert odd.status_code == 422, "what is wrong with the request itself is answered as ever"


def test_dry_run_counts_against_the_rate(paid: Stage, key: str):
    answers = [paid.post("/v1/intents?dry_run=true", transfer(1), key=key, by="slow").status_code for _ in range(4)]
    assert 429 in answers


def test_flag_that_is_neither_true_nor_false_is_refused(paid: Stage, key: str):
    refused = paid.post("/v1/intents?dry_run=yes", transfer(1), key=key)
    assert (refused.status_code, refused.json()["field"]) == (422, "dry_run")
