"""Submitting and reading: one life per key, one answer per life, clear words for everything else."""

from __future__ import annotations

import base64
import secrets
import uuid
from urllib.parse import quote

import httpx
import pytest

from tests.api.stage import KEY, USER, Stage, bearer
from tests.waiting import until_sync
from txmanager.chains.near import PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.transaction import sign_delegate
from txmanager.signing import Ed25519Signer, Secret

RECORD_FIELDS = [
    "idempotency_key",
    "kind",
    "pool",
    "lane",
    "status",
    "tx_hash",
    "nonce",
    "attempts",
    "outcome",
    "error",
    "created_at",
    "updated_at",
    "metadata",
]


def new_name(stage: Stage) -> str:
    return f"a{secrets.token_hex(6)}.{stage.account_id}"


def test_an_account_is_created_and_the_retry_gets_the_same_bytes(stage: Stage):
    body = {"pool": "main", "new_account_id": new_name(stage), "new_public_key": KEY, "initial_balance": "10"}
    first = stage.post("/v1/near/accounts?wait=20", body)
    assert first.status_code == 200, first.text
    record = first.json()
    assert list(record) == RECORD_FIELDS
    assert record["status"] == "done"
    assert record["idempotency_key"] == f"create:{body['new_account_id']}:{KEY}"
    assert "idempotency-replayed" not in first.headers
    again = stage.post("/v1/near/accounts", body)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.content == first.content
    read = stage.get(f"/v1/intents/{quote(record['idempotency_key'], safe='')}?pool=main")
    assert read.content == first.content
    view = {"request_type": "view_account", "finality": "final", "account_id": body["new_account_id"]}
    assert stage.devnet.rpc("query", view)["amount"] == "10"


def test_a_first_accept_is_202_and_waiting_for_the_end_is_200(stage: Stage, key: str):
    accepted = stage.transfer(key)
    assert (accepted.status_code, accepted.json()["status"]) == (202, "queued")
    final = stage.get(f"/v1/intents/{key}?wait=20")
    assert final.json()["status"] == "done"
    assert stage.transfer(key + "x", wait=20).status_code == 200


def test_a_final_record_is_the_same_bytes_before_and_after_it_is_retired(stage: Stage, key: str):
    first = stage.transfer(key, wait=20, metadata={"b": 1, "a": [1.5, None]}).content
    answers = {stage.get(f"/v1/intents/{key}").content for _ in range(50)}
    assert answers == {first}


def test_another_payload_under_the_same_key_is_refused_and_changes_nothing(stage: Stage, key: str):
    first = stage.transfer(key, "1", wait=20)
    refused = stage.transfer(key, "2")
    assert refused.status_code == 422
    problem = refused.json()
    assert problem["code"] == "idempotency_key_reused"
    assert "stands unchanged" in problem["kept"]
    assert stage.transfer(key, "1").content == first.content


@pytest.mark.parametrize("key", [None, "", "with space", "x" * 256, "ümlaut"])
def test_a_missing_or_broken_key_is_400(stage: Stage, key):
    headers = bearer() if key is None else {**bearer(), "Idempotency-Key": key.encode("latin-1")}
    body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "1"}}
    refused = stage.client.post("/v1/intents", json=body, headers=headers)
    assert refused.status_code == 400
    assert refused.json()["code"] in ("missing_idempotency_key", "invalid_idempotency_key")


def test_two_keys_in_one_request_are_ambiguous(stage: Stage):
    headers = [*bearer().items(), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "1"}}
    assert stage.client.post("/v1/intents", json=body, headers=headers).status_code == 400


def test_keys_that_look_derived_cannot_be_taken_by_others(stage: Stage):
    refused = stage.transfer("delegate:9Xq")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_idempotency_key")


def test_a_key_with_slashes_and_percent_signs_is_found_again(stage: Stage):
    key = f"a/b%2Fc?{secrets.token_hex(4)}"
    assert stage.transfer(key, wait=20).json()["idempotency_key"] == key
    assert stage.get(f"/v1/intents/{quote(key, safe='')}").json()["idempotency_key"] == key
    assert stage.get(f"/v1/intents/{quote(key + 'x', safe='')}").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "near.transfer", "payload": {"receiver_id": "X", "amount": "1"}}, "receiver_id"),
        ({"kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": 1.5}}, "amount"),
        ({"kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "1", "x": 1}}, "x"),
        ({"kind": "near.nothing", "payload": {}}, "kind"),
        ({"kind": "near.transfer", "payload": []}, "payload"),
        ({"kind": "near.transfer"}, "payload"),
        ({"kind": "near.transfer", "payload": {}, "surprise": 1}, "surprise"),
        ({"kind": "near.transfer", "payload": {}, "max_age_s": 0}, "max_age_s"),
        ({"kind": "near.transfer", "payload": {}, "max_age_s": "1"}, "max_age_s"),
        ({"kind": "near.transfer", "payload": {}, "pool": "nope"}, "pool"),
        ({"kind": "near.transfer", "payload": {}, "pool": "no pe"}, "pool"),
        (
            {
                "kind": "near.transfer",
                "payload": {"receiver_id": "dev1.near", "amount": "1"},
                "metadata": {"a": "x" * 5000},
            },
            "metadata",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_field_is_named(stage: Stage, key: str, body, field):
    refused = stage.post("/v1/intents", {"pool": "main", **body}, key=key)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert stage.get(f"/v1/intents/{key}").status_code == 404, "nothing was kept"


def test_an_account_outside_the_relayer_is_refused_before_its_key_is_used_up(stage: Stage):
    body = {"pool": "main", "new_account_id": "alice.elsewhere.near", "new_public_key": KEY}
    refused = stage.post("/v1/near/accounts", body)
    assert (refused.status_code, refused.json()["field"]) == (422, "new_account_id")
    bad_key = stage.post("/v1/near/accounts", {**body, "new_public_key": "ed25519:x"})
    assert (bad_key.status_code, bad_key.json()["field"]) == (422, "new_public_key")


def test_the_pool_must_be_named_where_there_are_several(stage: Stage, key: str):
    body = {"kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "1"}}
    assert stage.post("/v1/intents", body, key=key).json()["field"] == "pool"
    only = stage.post("/v1/intents", body, key=key, by="narrow")
    assert (only.status_code, only.json()["pool"]) == (202, "main"), "a token with one pool means that one"


def test_a_pool_without_lanes_is_503_and_keeps_nothing(stage: Stage, key: str):
    refused = stage.transfer(key, pool="spare")
    assert (refused.status_code, refused.json()["code"]) == (503, "no_lane")
    assert int(refused.headers["retry-after"]) >= 1


def test_transactions_and_recoveries_have_routes_of_their_own(stage: Stage, key: str):
    body = {"pool": "main", "receiver_id": "dev1.near", "actions": [{"type": "transfer", "amount": "2"}]}
    assert stage.post("/v1/near/transactions?wait=20", body, key=key).json()["status"] == "done"
    assert stage.post("/v1/near/transactions", body).json()["code"] == "missing_idempotency_key"
    message = secrets.token_hex(4)
    recovery = {"pool": "main", "account_id": "alice.near", "message_id": message, "contract_id": "dev1.near"}
    record = stage.post("/v1/near/recoveries?wait=20", {**recovery, "method_name": "recover"}).json()
    assert record["idempotency_key"] == f"recovery:alice.near:{message}"
    assert record["status"] == "failed", "dev1.near has no contract"
    assert "Idempotency-Key of your own" in record["error"]["hint"]


def test_tenants_do_not_see_each_others_keys(stage: Stage, key: str):
    assert stage.transfer(key, "1", wait=20).status_code == 200
    assert stage.get(f"/v1/intents/{key}", by="other").status_code == 404
    assert stage.transfer(key, "2", by="other").status_code == 202, "the same key, another tenant, another intent"


def steer_all(stage: Stage, verb: str) -> None:
    for lane in stage.get("/v1/lanes?pool=main").json()["lanes"]:
        moved = stage.client.post(f"/v1/lanes/{quote(lane['lane'])}/{verb}", headers=bearer("ops"))
        assert moved.json()["state"] == {"pause": "paused", "resume": "active"}[verb]


def test_a_queued_intent_can_be_cancelled(stage: Stage, key: str):
    def submit_to_a_paused_lane() -> str | None:
        """Producers know of a pause a second later at most; until then the lane still takes intents."""
        stage.transfer(f"{key}-{secrets.token_hex(4)}", wait=20)
        steer_all(stage, "pause")
        name = f"{key}-{secrets.token_hex(4)}"
        if stage.transfer(name).status_code == 202:
            return name
        steer_all(stage, "resume")
        return None

    try:
        name = until_sync(submit_to_a_paused_lane)
        cancelled = stage.client.post(f"/v1/intents/{name}/cancel")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        assert stage.client.post(f"/v1/intents/{name}/cancel").content == cancelled.content
        until_sync(lambda: stage.transfer(f"{key}-{secrets.token_hex(4)}").json().get("code") == "no_lane", every=0.2)
    finally:
        steer_all(stage, "resume")
    until_sync(lambda: stage.transfer(f"{key}-{secrets.token_hex(4)}").status_code == 202, every=0.2)


def test_a_final_intent_can_be_neither_cancelled_nor_resolved(stage: Stage, key: str):
    assert stage.transfer(key, wait=20).status_code == 200
    refused = stage.client.post(f"/v1/intents/{key}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed")
    assert stage.post(f"/v1/intents/{key}/resolve", {"verb": "track"}).status_code == 409
    assert stage.post(f"/v1/intents/{key}/resolve", {"verb": "bribe"}).status_code == 422


def test_lanes_are_listed_read_and_steered(stage: Stage):
    lanes = stage.get("/v1/lanes").json()["lanes"]
    assert len(lanes) == 4
    one = stage.get(f"/v1/lanes/{quote(lanes[0]['lane'], safe='')}").json()
    assert one["pool"] == "main"
    assert stage.get("/v1/lanes/near:x:y:ed25519:z").status_code == 404
    assert stage.get("/v1/lanes/no-lane").status_code == 422
    refused = stage.client.post(f"/v1/lanes/{one['lane']}/close", headers=bearer("ops"))
    assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed"), "an active lane is drained first"


def test_a_rebaseline_resumes_or_stays_paused_as_it_is_asked(stage: Stage):
    [lane, *_] = stage.get("/v1/lanes").json()["lanes"]
    path = f"/v1/lanes/{quote(lane['lane'], safe='')}"

    def stands() -> tuple[str, str]:
        found = stage.get(path).json()
        return found["state"], found["reason"]

    assert stage.post(f"{path}/rebaseline", {"paused": "yes"}, by="ops").status_code == 422
    assert stage.post(f"{path}/rebaseline", {"paused": True}, by="ops").status_code == 200
    until_sync(lambda: stands()[1].startswith("rebaselined"), 30, what="the owner rebaselined the lane")
    assert stands()[0] == "paused"
    assert stage.client.post(f"{path}/rebaseline", headers=bearer("ops")).status_code == 200
    until_sync(lambda: stands()[0] == "active", 30, what="the lane works again")


# -- delegates


def user_delegate(stage: Stage, **changes) -> tuple[act.SignedDelegate, Ed25519Signer]:
    user = stage.devnet.account(USER)
    signer = Ed25519Signer.parse(Secret(user["private_key"]))
    told = {
        "sender_id": user["account_id"],
        "receiver_id": "dev1.near",
        "actions": (act.Transfer(1),),
        "nonce": secrets.randbelow(10**6) + stage.devnet.nonce(user, "final") + 1,
        "max_block_height": stage.devnet.head()["height"] + 1000,
        "public_key": PublicKey.parse(user["public_key"]),
    } | changes
    return sign_delegate(act.DelegateAction(**told), signer), signer


def as_base64(signed: act.SignedDelegate, *, with_tag: bool = False) -> str:
    return base64.b64encode(signed.encode() if with_tag else signed.encode_bare()).decode()


def test_a_delegate_is_relayed_once_under_any_key_and_in_any_form(stage: Stage):
    signed, _ = user_delegate(stage)
    mine, yours = str(uuid.uuid4()), str(uuid.uuid4())
    body = {"pool": "main", "signed_delegate": as_base64(signed)}
    first = stage.post("/v1/near/delegate-actions?wait=20", body, key=mine)
    assert first.status_code == 200, first.text
    assert first.json()["status"] == "done"
    assert first.json()["idempotency_key"].startswith("delegate:")
    for again in (
        stage.post("/v1/near/delegate-actions", body, key=yours),
        stage.post("/v1/near/delegate-actions", body),
        stage.post("/v1/near/delegate-actions", {**body, "signed_delegate": as_base64(signed, with_tag=True)}),
        stage.get(f"/v1/intents/{mine}"),
        stage.get(f"/v1/intents/{yours}"),
    ):
        assert (again.status_code, again.content) == (200, first.content)


def test_an_alias_cannot_be_turned_to_another_delegate(stage: Stage, key: str):
    one, two = user_delegate(stage)[0], user_delegate(stage, actions=(act.Transfer(2),))[0]
    body = {"pool": "main", "signed_delegate": as_base64(one)}
    assert stage.post("/v1/near/delegate-actions?wait=20", body, key=key).status_code == 200
    refused = stage.post("/v1/near/delegate-actions", {**body, "signed_delegate": as_base64(two)}, key=key)
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert stage.transfer(key).json()["code"] == "idempotency_key_reused"


def test_a_delegate_is_checked_before_gas_is_spent(stage: Stage):
    signed, _ = user_delegate(stage)
    forged = act.SignedDelegate(signed.delegate, signed.curve, bytes(64))
    greedy, _ = user_delegate(stage, actions=(act.Transfer(10**24),))
    elsewhere, _ = user_delegate(stage, receiver_id="dev0.near")
    for wrong, by, status in ((forged, "all", 422), (greedy, "all", 422), (elsewhere, "narrow", 403)):
        refused = stage.post("/v1/near/delegate-actions", {"pool": "main", "signed_delegate": as_base64(wrong)}, by=by)
        assert refused.status_code == status, refused.text
        assert refused.json()["kept"] == "Nothing was accepted or changed."


# -- who may


@pytest.mark.parametrize(
    ("by", "method", "path", "status"),
    [
        ("reader", "POST", "/v1/intents", 403),
        ("writer", "GET", "/v1/intents/x", 403),
        ("writer", "GET", "/v1/lanes", 403),
        ("reader", "POST", "/v1/intents/x/cancel", 403),
        ("writer", "POST", "/v1/lanes/near:x:y:ed25519:z/pause", 403),
        ("reader", "GET", "/v1/webhooks/dead", 403),
        ("nobody", "GET", "/v1/lanes", 401),
    ],
)
def test_scopes_bound_what_a_token_may_do(stage: Stage, by, method, path, status):
    refused = stage.client.request(method, path, headers=bearer(by), json={} if method == "POST" else None)
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"


def test_a_token_is_needed(stage: Stage):
    with httpx.Client(base_url=stage.url) as anonymous:
        refused = anonymous.get("/v1/lanes")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert anonymous.get("/v1/lanes", headers={"Authorization": "Basic eDp5"}).status_code == 401


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"payload": {"receiver_id": "dev2.near", "amount": "1"}}, "receiver_id"),
        ({"payload": {"receiver_id": "dev1.near", "amount": "6"}}, "deposit"),
        ({"pool": "spare"}, "pool"),
        ({"kind": "near.function_call", "payload": {}}, "kind"),
    ],
)
def test_a_tokens_limits_hold_before_anything_is_accepted(stage: Stage, key: str, change, field):
    body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "5"}}
    refused = stage.post("/v1/intents", {**body, **change}, key=key, by="narrow")
    assert (refused.status_code, refused.json()["field"]) == (403, field)


def test_a_quota_answers_429_with_the_time_to_come_back(stage: Stage, key: str):
    answers = [stage.transfer(f"{key}-{n}", by="slow") for n in range(4)]
    assert [answer.status_code for answer in answers] == [202, 202, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 4
    assert stage.get(f"/v1/intents/{key}-0", by="slow").status_code == 200, "reading is not charged"
