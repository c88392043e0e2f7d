"""Resident lanes on real workerd and the devnet: what the seed asks for, without Python and without Redis."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.devnet.process import Devnet
from tests.resident.conftest import RECEIVER, Make
from tests.resident.node_door import NodeDoor
from tests.servers.resident import Resident
from tests.waiting import until
from txmanager.chains.near import PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import LaneSpec, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.runtime.deliver.events import lane_mark
from txmanager.signing import Ed25519Signer

KEY = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
NEAR = 10**24
COUNTER = "counter.near"


@pytest.fixture(scope="module")
def shared(devnet: Devnet, accounts: Iterator[int]) -> Iterator[Resident]:
    """For tests that break nothing."""
    account = devnet.account(next(accounts))
    with Resident(account["account_id"], account["keys"][:4], [devnet.url]) as running:
        yield running


def transfer(amount: int = 1, receiver: str = "dev1.near") -> dict[str, Any]:
    return {"kind": "near.transfer", "payload": {"receiver_id": receiver, "amount": str(amount)}}


def post(client: httpx.Client, body: dict[str, Any], key: str | None = None, path: str = "/v1/intents?wait=30") -> Any:
    return client.post(path, json=body, headers={} if key is None else {"Idempotency-Key": key})


def balance(devnet: Devnet, account_id: str) -> int | None:
    params = {"request_type": "view_account", "finality": "final", "account_id": account_id}
    told = devnet.post("query", params).json().get("result")
    return None if told is None else int(told["amount"])


def refused_nonces(devnet: Devnet) -> int:
    return int(devnet.admin("", method="GET")["refused"].get("InvalidNonce", 0))


def new_key() -> str:
    return f"k{secrets.token_hex(8)}"


def test_an_account_is_created_once_with_its_extra_actions(shared: Resident, devnet: Devnet):
    client = shared.client()
    account = f"a{secrets.token_hex(5)}.{shared.account_id}"
    extra = [{"type": "add_key", "public_key": "ed25519:" + "1" * 32}]
    asked = {"new_account_id": account, "new_public_key": KEY, "initial_balance": str(NEAR), "extra_actions": extra}
    first = post(client, asked, path="/v1/near/accounts?wait=30")
    assert (first.status_code, first.json()["status"]) == (200, "done"), first.text
    again = post(client, asked, path="/v1/near/accounts?wait=30")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.content == first.content
    assert first.json()["idempotency_key"] == f"create:{account}:{KEY}"
    assert balance(devnet, account) == NEAR
    told = devnet.post("query", {"request_type": "view_access_key_list", "finality": "final", "account_id": account})
    assert len(told.json()["result"]["keys"]) == 2


def test_a_users_delegate_is_paid_for_once_in_every_form(shared: Resident, devnet: Devnet):
    client, user = shared.client(), Ed25519Signer.generate()
    account = f"u{secrets.token_hex(5)}.{shared.account_id}"
    made = {"new_account_id": account, "public_key": user.public_key, "initial_balance": str(NEAR)}
    assert post(client, made, path="/v1/near/accounts?wait=30").json()["status"] == "done"
    nonce = devnet.nonce({"account_id": account, "public_key": user.public_key}) + 1
    call = act.FunctionCall("increment", b"{}", 10**13)
    inner = act.DelegateAction(account, COUNTER, (call,), nonce, 10**12, PublicKey.parse(user.public_key))
    signed = sign_delegate(inner, user)
    bare, tagged = (base64.b64encode(raw).decode() for raw in (signed.encode_bare(), signed.encode()))
    path = "/v1/near/delegate-actions?wait=30"
    first = post(client, {"signed_delegate": bare}, path=path)
    assert first.json()["status"] == "done", first.text
    assert post(client, {"signed_delegate": tagged}, path=path).content == first.content
    own = new_key()
    assert post(client, {"signed_delegate": tagged}, own, path).content == first.content
    assert client.get(f"/v1/intents/{own}").content == first.content
    forged = base64.b64encode(signed.encode_bare()[:-1] + b"\x00").decode()
    refused = post(client, {"signed_delegate": forged}, path=path)
    assert (refused.status_code, refused.json()["field"]) == (422, "signed_delegate.signature")
    # one that would fail is not paid for
    late = sign_delegate(act.DelegateAction(account, COUNTER, (call,), nonce, 10**12 + 1, inner.public_key), user)
    told = post(client, {"signed_delegate": base64.b64encode(late.encode_bare()).decode()}, path=path).json()
    assert (told["status"], told["attempts"]) == ("failed", [])
    assert "ran already" in told["error"]["message"]


def test_a_recovery_is_tried_once_per_message_and_a_failure_is_replayed(shared: Resident):
    client, path = shared.client(), "/v1/near/recoveries?wait=30"
    message = secrets.token_hex(8)
    asked = {"account_id": "alice.near", "message_id": message, "contract_id": COUNTER, "method_name": "increment"}
    first = post(client, asked, path=path)
    assert (first.json()["status"], first.json()["outcome"]["result"]["logs"][0][:10]) == ("done", "counter is")
    assert post(client, asked, path=path).content == first.content
    failing = {**asked, "message_id": f"{message}x", "method_name": "fail"}
    failed = post(client, failing, path=path)
    assert (failed.json()["status"], failed.json()["error"]["code"]) == ("failed", "contract_panicked")
    assert post(client, failing, path=path).content == failed.content


def test_200_concurrent_on_one_key_are_serialised(make_resident: Make, devnet: Devnet):
    """The seed's own test: one access key, 200 submissions at once, one total order, no InvalidNonce."""
    resident, before = make_resident(lanes=1), refused_nonces(devnet)
    keys = [new_key() for _ in range(200)]

    async def everybody() -> list[dict[str, Any]]:
        limits = httpx.Limits(max_connections=None)
        headers = {"Authorization": "Bearer token-all"}
        async with httpx.AsyncClient(base_url=resident.url, headers=headers, timeout=150, limits=limits) as http:

            async def one(n: int, key: str) -> dict[str, Any]:
                told = await http.post("/v1/intents", json=transfer(1 + n), headers={"Idempotency-Key": key})
                assert told.status_code == 202, told.text
                while True:
                    answer = (await http.get(f"/v1/intents/{key}?wait=30")).json()
                    if answer["status"] not in ("queued", "inflight"):
                        return dict(answer)

            watching = asyncio.create_task(watch())
            try:
                return await asyncio.gather(*(one(n, key) for n, key in enumerate(keys)))
            finally:
                watching.cancel()

    async def watch() -> None:
        ledger = resident.ledger()
        try:
            while True:
                lane = await ledger.lane(resident.lanes[0])
                waiting.append(0 if lane is None else lane.unretired)
                await asyncio.sleep(0.2)
        finally:
            await ledger.close()

    waiting: list[int] = []
    answers = asyncio.run(everybody())
    assert max(waiting) < 80, "final records go home while the queue is not empty"
    assert {answer["status"] for answer in answers} == {"done"}
    nonces = sorted(answer["nonce"] for answer in answers)
    assert nonces == list(range(nonces[0], nonces[0] + 200))
    assert refused_nonces(devnet) == before
    accepted = sorted(answers, key=lambda answer: answer["nonce"])
    times = [answer["created_at"] for answer in accepted]
    assert times == sorted(times), "the order of nonces is the order of acceptance"


async def test_load_keeps_order_and_idempotency_while_a_lane_drains(make_resident: Make, devnet: Devnet):
    """The seed's load test: four lanes, every key three times at once, one lane drained between retries."""
    resident, before = make_resident(lanes=4), balance(devnet, devnet.account(RECEIVER)["account_id"])
    keys = [new_key() for _ in range(60)]
    headers = {"Authorization": "Bearer token-all"}
    async with httpx.AsyncClient(base_url=resident.url, headers=headers, timeout=150) as http:

        async def ask(n: int) -> tuple[str, str]:
            told = await http.post("/v1/intents?wait=60", json=transfer(10 + n), headers={"Idempotency-Key": keys[n]})
            assert told.status_code == 200, told.text
            return told.json()["status"], told.json()["tx_hash"]

        first = await asyncio.gather(*(ask(n) for n in range(30) for _ in range(3)))
        drained = await http.post(f"/v1/lanes/{resident.lanes[0]}/drain")
        assert drained.json()["state"] == "draining", drained.text
        second = await asyncio.gather(*(ask(n) for n in range(60) for _ in range(2)))
        answers = {(n // 3): told for n, told in enumerate(first)}
        for n, told in enumerate(second):
            assert told[0] == "done"
            assert answers.setdefault(n // 2, told) == told, "every retry is told the same"
    assert len({hash for _, hash in answers.values()}) == 60
    paid = (balance(devnet, devnet.account(RECEIVER)["account_id"]) or 0) - (before or 0)
    assert paid == sum(10 + n for n in range(60))
    ledger = resident.ledger()
    try:
        lanes = [await ledger.lane(lane) for lane in resident.lanes]
        assert [lane.depth for lane in lanes if lane is not None] == [0, 0, 0, 0]
        records = [await ledger.read(new_intent(key=k, pool="main", kind="x", payload={}).id) for k in keys]
        for lane in resident.lanes:
            own = sorted((r for r in records if r and r.lane == lane), key=lambda r: r.attempts[0].nonce)
            places = [tuple(map(int, r.position.split("-"))) for r in own]
            assert places == sorted(places)
            assert lane != resident.lanes[0] or not [r for r in own if keys.index(r.id.key) >= 30]
    finally:
        await ledger.close()


def test_a_second_payload_under_one_key_is_refused_and_every_wrong_field_is_named(shared: Resident):
    client, key = shared.client(), new_key()
    assert post(client, transfer(1), key).status_code == 200
    reused = post(client, transfer(2), key)
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
    for body, used, status, field in [
        (transfer(1, "Bob"), new_key(), 422, "receiver_id"),
        ({"kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": 1.5}}, new_key(), 422, "amount"),
        ({"kind": "near.magic", "payload": {}}, new_key(), 422, "kind"),
        (transfer(1), None, 400, None),
        (transfer(1), "create:x", 400, "Idempotency-Key"),
        ({**transfer(1), "surplus": 1}, new_key(), 422, "surplus"),
    ]:
        told = post(client, body, used)
        assert (told.status_code, told.json().get("field")) == (status, field), told.text


def test_effects_on_the_own_account_are_denied_by_default(shared: Resident):
    body = {
        "kind": "near.transaction",
        "payload": {"receiver_id": shared.account_id, "actions": [{"type": "add_key", "public_key": KEY}]},
    }
    told = post(shared.client(), body, new_key())
    assert (told.status_code, told.json()["code"]) == (403, "own_account_refused")
    told = post(shared.client("writer"), body, new_key())
    assert (told.status_code, told.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("token", "body", "status", "code"),
    [
        ("nobody", transfer(), 401, "unauthorized"),
        ("reader", transfer(), 403, "forbidden"),
        ("narrow", transfer(6), 403, "forbidden"),
        ("narrow", transfer(1, "dev2.near"), 403, "forbidden"),
        (
            "narrow",
            {"kind": "near.function_call", "payload": {"contract_id": COUNTER, "method_name": "x"}},
            403,
            "forbidden",
        ),
        ("narrow", transfer(5), 200, None),
    ],
)
def test_a_token_moves_money_within_its_limits_only(
    token: str, body: Any, status: int, code: str | None, shared: Resident
):
    told = post(shared.client(token), body, new_key())
    assert (told.status_code, told.json().get("code")) == (status, code), told.text


def test_a_tokens_rate_holds_and_its_tenant_sees_nothing_of_others(shared: Resident):
    slow, key = shared.client("slow"), new_key()
    codes = [slow.post("/v1/intents", json=transfer(), headers={"Idempotency-Key": new_key()}) for _ in range(4)]
    assert [told.status_code for told in codes][:2] == [202, 202]
    assert 429 in [told.status_code for told in codes]
    assert post(shared.client(), transfer(), key).status_code == 200
    assert shared.client("other").get(f"/v1/intents/{key}").status_code == 404
    assert post(shared.client("other"), transfer(2), key).status_code == 200, "another tenant's key is another key"


async def test_what_no_front_sealed_is_set_aside_and_the_lane_goes_on(make_resident: Make):
    resident = make_resident(lanes=1)
    assert post(resident.client(), transfer(), new_key()).status_code == 200
    ledger, [lane] = resident.ledger(), resident.lanes
    try:
        intent = new_intent(key="forged", pool="main", kind="near.transfer", payload=transfer(7)["payload"])
        [claimed] = await ledger.claim([Claim(intent.id, intent.fingerprint, lane, "life")])
        await ledger.append(lane, [Entry(intent, claimed.life, claimed.born, seal="1.00000000.0")])
        await until(lambda: _status(ledger, intent, Status.HELD), 30, what="it is set aside")
        assert post(resident.client(), transfer(), new_key()).json()["status"] == "done"
    finally:
        await ledger.close()


async def _status(ledger: Any, intent: Any, status: Status) -> bool:
    record = await ledger.read(intent.id)
    return record is not None and record.status is status


async def test_a_lane_is_resident_or_external_and_never_both(make_resident: Make):
    resident = make_resident(lanes=1)
    assert post(resident.client(), transfer(), new_key()).status_code == 200
    ledger, [lane] = resident.ledger(), resident.lanes
    try:
        taken = await ledger.lease(lane, "worker", "a-token-of-a-worker", 60_000)
        assert (taken.fence, taken.owner) == (None, "resident")
        with pytest.raises(Exception, match=r"keyless|sort|sign"):
            await ledger.register(LaneSpec(lane, "main"))
        external = f"{lane[:-1]}{'2' if lane[-1] == '1' else '1'}"
        await ledger.register(LaneSpec(external, "main"))
        owned = await ledger.lease(external, "worker", "a-token-of-a-worker", 60_000)
        assert owned.fence is not None
    finally:
        await ledger.close()


async def test_foreign_use_of_the_key_quarantines_the_lane_and_an_operator_ends_it(make_resident: Make, devnet: Devnet):
    resident = make_resident(lanes=1)
    client, [lane] = resident.client(), resident.lanes
    assert post(client, transfer(), new_key()).status_code == 200
    names = {"account_id": resident.account_id, "public_key": lane.split(":", 3)[3]}
    before = devnet.nonce(names, "final")
    devnet.admin("/foreign", {**names, "by": 3})
    # Final, which is what the resident reads: before that it cannot know, and would sign.
    await until(lambda: devnet.nonce(names, "final") >= before + 3, 30, what="the foreign nonces are final")
    key = new_key()
    told = client.post("/v1/intents", json=transfer(9), headers={"Idempotency-Key": key})
    assert told.status_code == 202
    await until(lambda: client.get(f"/v1/lanes/{lane}").json()["state"] == "quarantined", 30, what="quarantine")
    assert client.get(f"/v1/lanes/{lane}").json()["reason"] == "foreign_nonce_use"
    assert client.get(f"/v1/intents/{key}").json()["attempts"] == []
    assert client.post(f"/v1/lanes/{lane}/rebaseline").status_code == 200
    assert client.get(f"/v1/intents/{key}?wait=30").json()["status"] == "done"
    assert LaneState(client.get(f"/v1/lanes/{lane}").json()["state"]) is LaneState.ACTIVE


async def test_one_node_alone_never_makes_an_intent_fail(make_resident: Make, devnet: Devnet):
    """Two nodes must agree before `failed`: while one says so and the other one does not know it yet, it waits."""
    lies = {"on": True}

    def failed(method: str, params: Any) -> Any:
        if method != "EXPERIMENTAL_tx_status" or not lies["on"]:
            return None
        told = devnet.post(method, params).json()
        if told.get("result", {}).get("final_execution_status") != "FINAL":
            return None
        error = {"ActionError": {"index": 0, "kind": {"AccountDoesNotExist": {"account_id": "x"}}}}
        for outcome in told["result"]["receipts_outcome"][:1]:
            outcome["outcome"]["status"] = {"Failure": error}
        return {"result": told["result"]}

    def lags(method: str, _params: Any) -> Any:
        if method != "EXPERIMENTAL_tx_status" or not lies["on"]:
            return None
        return {
            "error": {"name": "HANDLER_ERROR", "cause": {"name": "UNKNOWN_TRANSACTION", "info": {}}, "code": -32000}
        }

    async with NodeDoor(devnet.url, None) as liar, NodeDoor(devnet.url, None) as behind:
        liar.answer, behind.answer = failed, lags
        resident = await asyncio.to_thread(make_resident, liar.url, behind.url, lanes=1)
        client, key = resident.client(), new_key()
        told = await asyncio.to_thread(post, client, transfer(3), key, "/v1/intents")
        assert told.status_code == 202
        await until(lambda: liar.asked.get("EXPERIMENTAL_tx_status", 0) >= 5, 30, what="it was looked up five times")
        record = await asyncio.to_thread(client.get, f"/v1/intents/{key}")
        assert record.json()["status"] == "inflight", "one node said failed, and nobody agreed"
        lies["on"] = False
        record = await asyncio.to_thread(client.get, f"/v1/intents/{key}?wait=40")
        assert record.json()["status"] == "done"


async def test_a_refused_intent_is_held_by_name_and_an_operator_lets_the_lane_go_on(
    make_resident: Make, devnet: Devnet
):
    """Bytes that nodes refuse for good are neither failed nor signed again. The operator ends it once the death of
    its bytes is proven; the lane waits by name until then."""
    refusing = {"on": True}
    data = {"TxExecutionError": {"InvalidTxError": {"ActionsValidation": "DelegateActionMustBeOnlyOne"}}}
    error = {
        "name": "HANDLER_ERROR",
        "cause": {"name": "INVALID_TRANSACTION", "info": {}},
        "code": -32000,
        "data": data,
    }

    async with NodeDoor(devnet.url, None) as door:
        door.answer = lambda method, _: {"error": error} if method == "send_tx" and refusing["on"] else None
        resident = await asyncio.to_thread(make_resident, door.url, lanes=1)
        client, key, [lane] = resident.client(), new_key(), resident.lanes
        await asyncio.to_thread(post, client, transfer(3), key, "/v1/intents")

        async def state() -> tuple[str, str]:
            told = (await asyncio.to_thread(client.get, f"/v1/lanes/{lane}")).json()
            return told["state"], told["reason"]

        async def paused() -> bool:
            return await state() == ("paused", f"held: {key} (rejected)")

        await until(paused, 30, what="the lane is paused by name")
        waits = new_key()
        await asyncio.to_thread(post, client, transfer(4), waits, "/v1/intents")
        record = (await asyncio.to_thread(client.get, f"/v1/intents/{key}")).json()
        assert (record["status"], len(record["attempts"])) == ("held", 1)
        refused = await asyncio.to_thread(client.post, f"/v1/intents/{key}/resolve", json={"verb": "resign"})
        assert (refused.status_code, refused.json()["field"]) == (422, "verb")
        # its bytes are alive: `fail` waits for a proof, which a higher nonce of the key gives
        await asyncio.to_thread(client.post, f"/v1/intents/{key}/resolve", json={"verb": "fail"})
        names = {"account_id": resident.account_id, "public_key": lane.split(":", 3)[3]}
        [other] = devnet.admin("/foreign", {**names, "by": 5})["hashes"]
        devnet.until_landed(other, resident.account_id)
        refusing["on"] = False
        await asyncio.to_thread(client.post, f"/v1/intents/{key}/resolve", json={"verb": "fail"})
        record = (await asyncio.to_thread(client.get, f"/v1/intents/{key}?wait=40")).json()
        assert (record["status"], record["attempts"][0]["dead"]["cause"]) == ("failed", "overtaken"), record

        async def quarantined() -> bool:
            return (await state())[0] == "quarantined"  # the nonce that overtook it was nobody's of ours

        await until(quarantined, 30, what="quarantine")
        await asyncio.to_thread(client.post, f"/v1/lanes/{lane}/rebaseline")
        record = (await asyncio.to_thread(client.get, f"/v1/intents/{waits}?wait=40")).json()
        assert record["status"] == "done"


def heard(text: str) -> list[tuple[str, Any]]:
    """Id and data of each event of a stream."""
    blocks = [dict(line.split(": ", 1) for line in block.split("\n") if ": " in line) for block in text.split("\n\n")]
    return [(block.get("id", ""), json.loads(block["data"])) for block in blocks if "data" in block]


def test_events_of_an_intent_are_told_from_the_start_or_from_the_last_one_that_was_heard(shared: Resident):
    client, key = shared.client(), new_key()
    record = post(client, transfer(), key).json()
    path = f"/v1/intents/{key}/events"
    told = client.get(path)
    assert told.headers["content-type"] == "text/event-stream"
    events = heard(told.text)
    assert [event["status"] for _, event in events] == ["queued", "inflight", "done"]
    assert {event["idempotency_key"] for _, event in events} == {key}
    assert events[-1][1]["tx_hash"] == record["tx_hash"]
    assert events[-1][1]["id"] == f"{lane_mark(record['lane'])}-{events[-1][0]}"
    again = client.get(path, headers={"Last-Event-ID": events[0][0]})
    assert heard(again.text) == events[1:]
    assert client.get(path, headers={"Last-Event-ID": events[-1][0]}).status_code == 204
    refused = client.get(path, headers={"Last-Event-ID": "nonsense"})
    assert (refused.status_code, refused.json()["field"]) == (422, "Last-Event-ID")
    assert shared.client("other").get(path).status_code == 404
    assert shared.client("writer").get(path).status_code == 403
    assert client.get("/v1/intents/nobody/events").status_code == 404


def test_a_pools_stream_tells_each_tenant_its_own_and_goes_on_where_it_broke(shared: Resident):
    mine, theirs = shared.client(), shared.client("other")
    path, keys = "/v1/pools/main/events", [new_key() for _ in range(3)]

    def follow(last: str | None, until_key: str) -> tuple[str, list[str]]:
        seen: list[str] = []
        with theirs.stream("GET", path, headers={} if last is None else {"Last-Event-ID": last}) as told:
            lines = told.iter_lines()
            first = next(line for line in lines if line.startswith("id: "))
            if last is None:
                assert post(mine, transfer(), keys[0]).status_code == 200
                assert post(theirs, transfer(), keys[1]).status_code == 200
            at = first.removeprefix("id: ")
            for line in lines:
                if line.startswith("id: "):
                    at = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    seen.append(event["idempotency_key"])
                    if event["idempotency_key"] == until_key and event["status"] == "done":
                        return at, seen
        raise AssertionError(f"the stream ended after {seen}")

    last, seen = follow(None, keys[1])
    assert set(seen) == {keys[1]}
    assert post(theirs, transfer(), keys[2]).status_code == 200  # nobody listens
    _, seen = follow(last, keys[2])
    assert set(seen) == {keys[2]}
    refused = theirs.get(path, headers={"Last-Event-ID": "bm9uc2Vuc2U"})
    assert (refused.status_code, refused.json()["field"]) == (422, "Last-Event-ID")


def test_the_signing_script_alone_has_the_keys_and_no_route(shared: Resident):
    config = (shared._folder / "resident.capnp").read_text()
    front = config[config.index("const front") : config.index("const signer")]
    assert "KEYS" not in front
    assert "durableObjectNamespace" not in front
    assert shared.client().get("/v1/keys").status_code == 404
    told = shared.client().get("/metrics").text
    assert f'txmanager_lane_lease_changes_total{{lane="{shared.lanes[0]}"' in told
    for secret in shared.environment["KEYS"].split('"')[3::4]:
        assert secret not in shared.said
        assert secret not in told
