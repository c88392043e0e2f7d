"""Many intents in one request: each stands alone, order is kept within a lane, a repeat has no further effect."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import RECEIVER, Stage, token
from tests.waiting import until_sync

NEAR = 10**24
PAYER = f"""
max_body_bytes = 4194304
[[api.tokens]]
name = "payer"
sha256 = "{hashlib.sha256(token("payer").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
budget = [{{ network = "localnet", amount = "3.5 NEAR", per = "1d" }}]
[[api.tokens]]
name = "counted"
sha256 = "{hashlib.sha256(token("counted").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
per_second = 0.01
burst = 10
max_queued = 3
"""


@pytest.fixture(scope="module")
def bulk(redis7, devnet) -> Iterator[Stage]:
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, api_more=PAYER) as running:
        yield running.start()


def item(key: str | None, amount: int = 1, **more: Any) -> dict[str, Any]:
    payload = {"receiver_id": f"dev{RECEIVER}.near", "amount": str(amount)}
    body = {"pool": "main", "kind": "near.transfer", "payload": payload, **more}
    return body if key is None else {"idempotency_key": key, **body}


def send(stage: Stage, items: list[Any], by: str = "all") -> list[dict[str, Any]]:
    answer = stage.post("/v1/batches", {"intents": items}, by=by)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def test_items_stand_alone_and_the_same_batch_replays_what_was_accepted_and_tries_the_rest(bulk: Stage, key: str):
    batch = [
        item(f"{key}-0"),
        item(f"{key}-1", amount=-1),
        item(None),
        item("create:not-yours"),
        {"kind": "near.transfer"},
        item(f"{key}-0", amount=2),
        item(f"{key}-2", pool="spare"),
        item(f"{key}-3", kind="near.unknown"),
        item(f"{key}-4"),
        item(f"{key}-4"),
    ]
    first = send(bulk, batch)
    assert [one["result"] for one in first] == [
        "accepted", "refused", "refused", "refused", "refused", "refused", "refused", "refused", "accepted", "replayed",
    ]  # fmt: skip
    codes = [one["problem"]["code"] for one in first if one["result"] == "refused"]
    assert codes == [
        "invalid_input", "missing_idempotency_key", "invalid_idempotency_key", "invalid_input",
        "idempotency_key_reused", "no_lane", "invalid_input",
    ]  # fmt: skip
    assert [one["status"] for one in first][:3] == [202, 422, 400]
    again = send(bulk, batch)
    assert again[0]["result"] == "replayed"
    assert [one["result"] for one in again][8:] == ["replayed", "replayed"]
    assert again[0]["record"]["idempotency_key"] == f"{key}-0"


def test_a_thousand_intents_are_accepted_in_order_and_each_lands_once(bulk: Stage, key: str):
    batch = [item(f"{key}-{n}", partition_key=key) for n in range(1_000)]
    results = send(bulk, batch)
    assert {one["result"] for one in results} == {"accepted"}
    lanes = {one["record"]["lane"] for one in results}
    assert len(lanes) == 1
    assert {one["result"] for one in send(bulk, batch)} == {"replayed"}

    def done() -> bool:
        return bulk.get(f"/v1/intents/{key}-999?pool=main").json()["status"] == "done"

    until_sync(done, 60, what="the last one landed")
    told = [bulk.get(f"/v1/intents/{key}-{n}?pool=main").json() for n in (0, 1, 2, 500, 501, 998, 999)]
    nonces = [record["nonce"] for record in told]
    assert nonces == sorted(nonces), "signed in the order of the array"
    too_many = bulk.post("/v1/batches", {"intents": [item(f"{key}-{n}") for n in range(1_001)]})
    assert (too_many.status_code, too_many.json()["code"]) == (422, "invalid_input")
    assert bulk.post("/v1/batches", {"intents": []}).status_code == 422


def test_budget_pays_for_items_in_their_order(bulk: Stage, key: str):
    batch = [item(f"{key}-{n}", NEAR, partition_key=key) for n in range(5)]
    results = send(bulk, batch, "payer")
    assert [one["result"] for one in results] == ["accepted"] * 3 + ["refused"] * 2
    refused = results[3]["problem"]
    assert (refused["code"], refused["budget"]) == ("budget_exhausted", "token:payer/localnet/1d")
    assert refused["retry_after_s"] >= 1
    lands = [one["record"]["charge"] for one in results[:3]]
    assert len(set(lands)) == 1


def test_items_count_one_by_one_against_rate_and_room(bulk: Stage, key: str):
    refused = bulk.post("/v1/batches", {"intents": [item(f"{key}-{n}") for n in range(11)]}, by="counted")
    assert refused.status_code == 429, "more than the burst"
    few = send(bulk, [item(f"{key}-{n}", pool="main", max_age_s=600) for n in range(6)], "counted")
    assert {one["problem"]["code"] for one in few if one["result"] == "refused"} <= {"token_queue_full"}
    assert [one["result"] for one in few][:3] == ["accepted"] * 3
    over = bulk.post("/v1/batches", {"intents": [item(f"{key}-x{n}") for n in range(6)]}, by="counted")
    assert over.status_code == 429
    assert int(over.headers["retry-after"]) >= 1
