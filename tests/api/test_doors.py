"""Other relayers' routes, asked as their own documents show: pagoda-relayer-rs on NEAR, OpenZeppelin Relayer on EVM."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.stage import Program, Stage, token
from tests.api.test_intents import user_delegate
from tests.evm.machines import PHRASE, Anvil
from tests.near.second_delegates import as_json
from tests.waiting import until_sync
from txmanager.chains.near import actions as act
from txmanager.core.errors import InvalidSettings
from txmanager.settings import Settings

ALLOWANCE = 90_000_000_000_000
"""Gas, in the words of the other relayer: what an account has that nobody set anything for."""
API = f"""
max_wait_s = 20.0
ledger_timeout_s = 10.0
[api.doors.pagoda]
pool = "main"
token = "walkin"
[api.doors.openzeppelin]
[[api.tokens]]
name = "walkin"
sha256 = "{hashlib.sha256(token("walkin").encode()).hexdigest()}"
scopes = ["submit", "read"]
"""
POOLS = """
[pools.main.policy]
budget_per_key = [{{ network = "localnet", amount = "0.09 NEAR", per = "ever" }}]
[networks.sepolia]
chain = "evm"
chain_id = 31337
rpc = [{{ url = "{rpc}" }}]
[pools.sepolia-example]
network = "sepolia"
keys = ["mnemonic:PHRASE:1"]
"""
# From its README and openapi.yaml. Nobody has the key that would make the signature right.
SIGNED_DELEGATE_ACTION = {
    "delegate_action": {
        "actions": [{"Transfer": {"deposit": "1"}}],
        "max_block_height": 922790412,
        "nonce": 103066617000686,
        "public_key": "ed25519:98GtfFzez3opomVpwa7i4m2nptHtc8Ha405XHMWszQtL",
        "receiver_id": "relayer.example.testnet",
        "sender_id": "example.testnet",
    },
    "signature": "ed25519:4uJu8KapH98h8cQm4btE0DKnbiFXSZNT7McDw4LHy7pdAt4Mz8DfuyQZadGgFExo77or9152iwcw2q12rnFWa6bg",
}
# From docs/evm.mdx of OpenZeppelin Relayer, byte for byte.
TRANSACTIONS = {
    "speed": """{
    "value": 1,
    "data": "0x",
    "to": "0xd9b55a2ba539031e3c18c9528b0dc3a7f603a93b",
    "speed": "average"
}""",
    "gas limit": """{
    "value": 1,
    "data": "0x",
    "to": "0xd9b55a2ba539031e3c18c9528b0dc3a7f603a93b",
    "speed": "average",
    "gas_limit": 21000
}""",
    "legacy": """{
    "value": 1,
    "data": "0x",
    "to": "0xd9b55a2ba539031e3c18c9528b0dc3a7f603a93b",
    "gas_price": "12312313123"
}""",
    # its own example has a comma after the last field, which no JSON reader takes
    "eip-1559": """{
    "value": 1,
    "data": "0x",
    "to": "0xd9b55a2ba539031e3c18c9528b0dc3a7f603a93b",
    "max_fee_per_gas": 30000000000,
    "max_priority_fee_per_gas": 20000000000
}""",
}
SENT = "/api/v1/relayers/sepolia-example/transactions"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def doors(redis7, devnet) -> Iterator[Stage]:
    with Anvil() as anvil:
        pools = POOLS.format(rpc=anvil.url)
        with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, api_more=API, pool_more=pools) as running:
            running.worker = Program("lanes", running.config, {"PHRASE": PHRASE})
            running.start()
            lanes = lambda: running.get("/v1/lanes?pool=sepolia-example").json()["lanes"]  # noqa: E731
            until_sync(lambda: [one["state"] for one in lanes()] == ["active"], 30, what="the EVM lane is there")
            yield running


@pytest.fixture
def walkin(doors: Stage) -> Iterator[httpx.Client]:
    """Somebody on this machine without a token."""
    with httpx.Client(base_url=doors.url, timeout=40) as client:
        yield client


def told(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.text


def relayed(answer: httpx.Response) -> dict[str, Any]:
    body = dict(json.loads(told(answer, 200)))
    assert body["message"] == "Relayed and sent transaction"
    assert body["status"] == {"SuccessValue": ""}
    return body


# -- pagoda-relayer-rs


def test_documented_meta_transactions_are_relayed_once_without_a_token(doors: Stage, walkin: httpx.Client):
    signed, _ = user_delegate(doors)
    first = relayed(walkin.post("/send_meta_tx", json=as_json(signed)))
    record = doors.get(f"/v1/intents/{first['idempotency_key']}?pool=main").json()
    assert (record["tx_hash"], record["status"]) == (first["Transaction Outcome"]["id"], "done")
    raw = signed.encode_bare()
    for again in (
        walkin.post("/send_meta_tx", json=as_json(signed)),
        walkin.post("/relay", json=list(raw)),
        walkin.post("/relay", content=raw, headers={"Content-Type": "application/octet-stream"}),
    ):
        assert relayed(again) == first
        assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/send_meta_tx", SIGNED_DELEGATE_ACTION),
        ("/relay", []),
        ("/relay", [1, 256]),
        ("/relay", {"borsh": []}),
        ("/send_meta_tx", [1]),
        ("/create_account_atomic", {"account_id": "example.near", "allowance": 1, "oauth_token": "x"}),
        ("/update_allowance", {"account_id": "Not An Account", "allowance": 1}),
        ("/update_allowance", {"account_id": "example.near", "allowance": "1"}),
    ],
)
def test_what_cannot_be_read_is_a_400_in_its_words(doors: Stage, path: str, body: Any):
    answer = doors.post(path, body)
    assert told(answer, 400).startswith("Error deserializing payload data object: ")


def test_forged_delegates_are_refused_before_gas_is_spent(doors: Stage, walkin: httpx.Client):
    signed, _ = user_delegate(doors)
    forged = act.SignedDelegate(signed.delegate, signed.curve, bytes(64))
    assert "signature" in told(walkin.post("/send_meta_tx", json=as_json(forged)), 400)


def allowance(doors: Stage, account: str) -> int:
    """As its clients ask: a GET with a body."""
    answer = doors.client.request("GET", "/get_allowance", json={"account_id": account})
    return int(told(answer, 200))


def test_allowances_are_gas_for_ever_and_need_operate_to_change(doors: Stage, walkin: httpx.Client):
    account = f"a{secrets.token_hex(4)}.near"
    wanted = {"account_id": account, "allowance": 900_000_000}
    assert allowance(doors, account) == ALLOWANCE
    assert "operate" in told(walkin.post("/update_allowance", json=wanted), 403)
    assert allowance(doors, account) == ALLOWANCE
    assert told(doors.post("/update_allowance", wanted), 201).startswith("Relayer DB updated for ")
    assert allowance(doors, account) == 900_000_000
    asked = [one["what"] for one in doors.get("/v1/audit").json()["audit"]]
    assert asked.count("POST /update_allowance") >= 2, "the refused call is written down, too"


def test_relaying_uses_the_senders_allowance_up(doors: Stage, walkin: httpx.Client):
    signed, _ = user_delegate(doors)
    sender = signed.delegate.sender_id
    doors.post("/update_allowance", {"account_id": sender, "allowance": ALLOWANCE})
    relayed(walkin.post("/send_meta_tx", json=as_json(signed)))
    until_sync(lambda: ALLOWANCE // 2 < allowance(doors, sender) < ALLOWANCE, 10, what="what it cost is booked")
    doors.post("/update_allowance", {"account_id": sender, "allowance": 0})
    try:
        other, _ = user_delegate(doors)
        assert "budget key:" in told(walkin.post("/send_meta_tx", json=as_json(other)), 400)
        assert relayed(walkin.post("/send_meta_tx", json=as_json(signed))), "what was relayed before is replayed"
    finally:
        doors.post("/update_allowance", {"account_id": sender, "allowance": ALLOWANCE})


def new_account(delegate: act.SignedDelegate, login: str, gas: int = ALLOWANCE) -> dict[str, Any]:
    name = f"a{secrets.token_hex(4)}.near"
    return {"account_id": name, "allowance": gas, "oauth_token": login, "signed_delegate_action": as_json(delegate)}


def test_one_login_pays_for_one_account(doors: Stage, walkin: httpx.Client):
    login = f"https://securetoken.google.com/pagoda-oboarding-dev:{secrets.token_hex(8)}"
    body = new_account(user_delegate(doors)[0], login)
    first = told(walkin.post("/create_account_atomic", json=body), 201)
    assert first.startswith(
        f"Added Oauth token for account_id {body['account_id']} with allowance (in Gas) {ALLOWANCE}"
    )
    assert login not in first
    assert told(walkin.post("/create_account_atomic", json=body), 201) == first
    again = walkin.post("/create_account_atomic", json=new_account(user_delegate(doors)[0], login))
    assert "has already been used to register an account" in told(again, 400)


def test_a_login_whose_account_was_not_created_may_try_again(doors: Stage, walkin: httpx.Client):
    login = secrets.token_hex(8)
    late, _ = user_delegate(doors, nonce=1)
    failed = json.loads(told(walkin.post("/create_account_atomic", json=new_account(late, login)), 500))
    assert failed["message"] == "Error sending transaction"
    assert "Failure" in failed["status"]
    fresh = new_account(user_delegate(doors)[0], login)
    told(walkin.post("/create_account_atomic", json=fresh), 201)
    third = walkin.post("/create_account_atomic", json=new_account(user_delegate(doors)[0], login))
    assert "has already been used" in told(third, 400)


def test_an_allowance_of_ones_own_choice_needs_operate_and_is_given_once(doors: Stage, walkin: httpx.Client):
    body = new_account(user_delegate(doors)[0], secrets.token_hex(8), 5_000_000)
    assert "operate" in told(walkin.post("/create_account_atomic", json=body), 403)
    told(doors.post("/create_account_atomic", body), 201)
    assert allowance(doors, body["account_id"]) == 5_000_000
    doors.post("/update_allowance", {"account_id": body["account_id"], "allowance": 1_000_000})
    told(doors.post("/create_account_atomic", body), 201)
    assert allowance(doors, body["account_id"]) == 1_000_000, "a repetition gives nothing back"


def test_a_used_login_gives_nobody_else_an_allowance(doors: Stage):
    login = secrets.token_hex(8)
    told(doors.post("/create_account_atomic", new_account(user_delegate(doors)[0], login)), 201)
    other = new_account(user_delegate(doors)[0], login, 10 * ALLOWANCE)
    assert "has already been used" in told(doors.post("/create_account_atomic", other), 400)
    assert allowance(doors, other["account_id"]) == ALLOWANCE


def test_allowances_of_another_tenant_are_named_by_who_serves_them_all(doors: Stage):
    account = f"a{secrets.token_hex(4)}.near"
    doors.post("/update_allowance", {"account_id": account, "allowance": 5_000_000}, by="other")
    for tenant, left in (("other", 5_000_000), ("default", ALLOWANCE)):
        answer = doors.get(f"/get_allowance?account_id={account}&tenant={tenant}", by="ops")
        assert int(told(answer, 200)) == left
    assert "tenant" in told(doors.get(f"/get_allowance?account_id={account}&tenant=default", by="other"), 403)


def test_dry_run_at_a_door_writes_nothing(doors: Stage, walkin: httpx.Client):
    signed, _ = user_delegate(doors)
    answer = walkin.post("/send_meta_tx?dry_run=true", json=as_json(signed))
    assert answer.json()["accepted"]["status"] == 202, answer.text
    body = new_account(signed, secrets.token_hex(8), 7_000_000)
    assert doors.post("/create_account_atomic?dry_run=true", body).json()["accepted"]["ok"]
    wanted = {"account_id": body["account_id"], "allowance": 7_000_000}
    assert "dry_run" in told(doors.post("/update_allowance?dry_run=true", wanted), 400)
    assert allowance(doors, body["account_id"]) == ALLOWANCE
    first = walkin.post("/send_meta_tx", json=as_json(signed))
    relayed(first)
    assert "idempotency-replayed" not in first.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Forwarded-For": "192.0.2.1"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
    ],
)
def test_only_callers_on_this_machine_need_no_token(doors: Stage, walkin: httpx.Client, headers: Any, status: int):
    signed, _ = user_delegate(doors)
    told(walkin.post("/send_meta_tx", json=as_json(signed), headers=headers), status)


def test_the_rest_of_the_api_still_asks_for_a_token(doors: Stage, walkin: httpx.Client):
    assert walkin.get("/v1/lanes").status_code == 401
    assert walkin.post(SENT, content=TRANSACTIONS["speed"], headers=JSON).status_code == 401


# -- OpenZeppelin Relayer


def sent(doors: Stage, body: str, **headers: str) -> httpx.Response:
    return doors.client.post(SENT, content=body, headers={**JSON, **headers})


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_documented_transactions_are_sent_and_confirmed(doors: Stage, name: str):
    answer = sent(doors, TRANSACTIONS[name])
    body = answer.json()
    assert (answer.status_code, body["success"], body["error"]) == (200, True, None), body
    data, asked = body["data"], json.loads(TRANSACTIONS[name])
    assert uuid.UUID(data["id"]).version == 4
    assert answer.headers["idempotency-key"] == data["id"]
    assert (data["relayer_id"], data["to"], data["value"]) == ("sepolia-example", asked["to"], "1")
    assert data["gas_limit"] == asked.get("gas_limit")
    assert data["speed"] == asked.get("speed")

    def confirmed() -> dict[str, Any] | None:
        found = doors.get(f"{SENT}/{data['id']}").json()["data"]
        return found if found["status"] == "confirmed" else None

    ended = until_sync(confirmed, 30, what="it is final")
    assert len(ended["hash"]) == 66
    assert ended["from"].startswith("0x")
    assert ended["confirmed_at"] >= ended["sent_at"] >= ended["created_at"] == data["created_at"]
    told_before = {name: data[name] for name in ("to", "value", "gas_limit", "gas_price", "max_fee_per_gas", "speed")}
    assert {name: ended[name] for name in told_before} == told_before, "a final record keeps no payload"


def test_a_key_of_ones_own_makes_a_repetition_safe_and_none_does_not(doors: Stage, key: str):
    first, again = (sent(doors, TRANSACTIONS["speed"], **{"Idempotency-Key": key}) for _ in range(2))
    assert first.json()["data"]["id"] == again.json()["data"]["id"] == key
    assert again.headers["idempotency-replayed"] == "true"
    other = sent(doors, TRANSACTIONS["gas limit"], **{"Idempotency-Key": key})
    assert (other.status_code, other.json()["code"]) == (400, "idempotency_key_reused")
    one, two = sent(doors, TRANSACTIONS["speed"]), sent(doors, TRANSACTIONS["speed"])
    assert one.json()["data"]["id"] != two.json()["data"]["id"]


def test_a_retry_that_comes_after_valid_until_gets_what_was_accepted(doors: Stage, key: str):
    """Told that it is late, a client would believe that nothing was sent."""
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    body = json.dumps(json.loads(TRANSACTIONS["speed"]) | {"valid_until": soon})
    first = sent(doors, body, **{"Idempotency-Key": key})
    assert first.status_code == 200, first.text
    time.sleep(3.1)
    again = sent(doors, body, **{"Idempotency-Key": key})
    assert (again.status_code, again.json()["data"]["id"]) == (200, key), again.text
    assert again.headers["idempotency-replayed"] == "true"
    for late in (sent(doors, body), sent(doors, body, **{"Idempotency-Key": f"{key}-2"})):
        assert late.status_code == 400, late.text
        assert "in the past" in late.json()["error"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"to": None, "data": None}, "at least one of them"),
        ({"gas_price": "1"}, "set one of speed"),
        ({"speed": None}, "set one of speed"),
        ({"value": None}, "value"),
        ({"speed": "warp"}, "speed"),
        ({"to": "0x12"}, "40 hex digits"),
        ({"valid_until": "2020-01-01T00:00:00Z"}, "in the past"),
        ({"valid_until": "tomorrow"}, "RFC 3339"),
        ({"nonce": 7}, "nonce"),
    ],
)
def test_what_is_wrong_with_a_transaction_is_a_400_of_its_form(doors: Stage, change: dict[str, Any], says: str):
    body = {name: it for name, it in (json.loads(TRANSACTIONS["speed"]) | change).items() if it is not None}
    answer = sent(doors, json.dumps(body))
    assert answer.status_code == 400, answer.text
    assert (answer.json()["success"], answer.json()["data"]) == (False, None)
    assert says in answer.json()["error"]


def test_unknown_transactions_and_relayers_are_told_in_its_form(doors: Stage):
    missing = doors.get(f"{SENT}/{uuid.uuid4()}")
    assert (missing.status_code, missing.json()["success"]) == (404, False)
    assert doors.get("/api/v1/relayers/nobody/transactions/x").status_code == 400


# -- both


@pytest.mark.parametrize(
    ("method", "path", "instead"),
    [
        ("POST", "/send_meta_tx_async", "/v1/near/delegate-actions"),
        ("POST", "/sign_meta_tx", "/v1/near/delegate-actions"),
        ("POST", "/update_all_allowances", "budget_per_key"),
        ("POST", "/register_account", "/create_account_atomic"),
        ("GET", "/api/v1/relayers", "/v1/system"),
        ("GET", SENT, "/v1/intents?pool="),
        ("GET", f"{SENT}/", "/v1/intents?pool="),
        ("DELETE", f"{SENT}/x", "/v1/intents/{key}/cancel"),
        ("PUT", f"{SENT}/x", "by itself"),
        ("PATCH", "/api/v1/relayers/sepolia-example", "[pools.NAME]"),
        ("POST", "/api/v1/relayers/sepolia-example/rpc", "gateway"),
    ],
)
def test_what_is_not_mapped_names_the_route_to_use(doors: Stage, method: str, path: str, instead: str):
    answer = doors.client.request(method, path, json={} if method != "GET" else None)
    assert answer.status_code == 501
    assert instead in answer.text


def test_doors_are_closed_by_default(stage: Stage):
    for path in ("/relay", "/send_meta_tx", "/update_allowance", SENT):
        assert stage.post(path, {}).json()["code"] == "no_route"


def settings(**api: Any) -> Settings:
    return Settings.model_validate(
        {
            "networks": {"n": {"chain": "near", "rpc": [{"url": "http://127.0.0.1:1"}]}},
            "pools": {"main": {"network": "n", "account": "a.near"}},
            "api": api,
        }
    )


TOKEN = {"name": "wallet", "sha256": "0" * 64, "scopes": ["submit"]}


@pytest.mark.parametrize(
    ("api", "says"),
    [
        ({"doors": {"other": {}}}, "api.doors.other: is no door"),
        ({"doors": {"openzeppelin": {}}}, "use one of: pagoda"),
        ({"doors": {"pagoda": {"token": "wallet"}}}, "api.doors.pagoda.token: names no"),
        ({"doors": {"pagoda": {"pool": "gone"}}}, "api.doors.pagoda.pool: names no"),
        ({"doors": {"pagoda": {"token": "wallet"}}, "tokens": [TOKEN], "host": "0.0.0.0"}, "on this machine"),
    ],
)
def test_a_door_that_cannot_be_opened_safely_is_an_error_at_start(api: dict[str, Any], says: str):
    with pytest.raises(InvalidSettings) as caught:
        settings(**api)
    assert says in str(caught.value)
    settings(doors={"pagoda": {"token": "wallet", "pool": "main"}}, tokens=[TOKEN])
