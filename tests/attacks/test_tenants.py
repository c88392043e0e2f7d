"""What one tenant's token, whatever its scopes, can see and move of another's: nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.attacks.several import ALL, LANE, Several
from tests.waiting import until
from txmanager.core.mailbox import DeadLetter
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.mailbox import RedisMailbox
from txmanager.runtime.deliver.webhooks import Target, Webhooks

TOKENS: dict[str, dict[str, Any]] = {
    "acme": {"scopes": ALL, "tenant": "acme"},
    "clerk": {"scopes": ["submit", "read"], "tenant": "acme"},
    "reader": {"scopes": ["read"], "tenant": "acme"},
    "elsewhere": {"scopes": ["submit"], "tenant": "acme", "limits": {"pools": []}},
    "rival": {"scopes": ALL, "tenant": "rival"},
    "ops": {"scopes": ALL, "tenant": "*"},
}


@pytest.fixture(scope="module")
def several(redis7) -> Iterator[Several]:
    with Several(redis7.url, TOKENS, processes=1) as running:
        yield running


# -- intents


def test_cancelling_ones_own_intent_needs_only_submit(several: Several):
    assert several.transfer("clerk", "mine").status_code == 202
    for stranger, status in (("reader", 403), ("rival", 404), ("elsewhere", 403)):
        assert several.ask(stranger, "POST", "/v1/intents/mine/cancel").status_code == status, stranger
    assert several.ask("clerk", "GET", "/v1/intents/mine").json()["status"] == "queued"
    assert several.ask("clerk", "POST", "/v1/intents/mine/cancel").json()["status"] == "cancelled"
    assert several.ask("clerk", "POST", "/v1/intents/mine/resolve", json={"verb": "track"}).status_code == 403


def test_a_token_of_all_tenants_names_the_one_it_acts_for(several: Several):
    for by in ("acme", "rival"):
        assert several.transfer(by, "same").status_code == 202
    for method, path in (("POST", "/v1/intents/same/cancel"), ("GET", "/v1/intents/same")):
        refused = several.ask("ops", method, path)
        assert (refused.status_code, refused.json()["field"]) == (422, "tenant")
        assert "acme, rival" in refused.json()["detail"]
    assert several.ask("ops", "POST", "/v1/intents/same/cancel?tenant=rival").json()["status"] == "cancelled"
    assert several.ask("acme", "GET", "/v1/intents/same").json()["status"] == "queued"
    assert several.ask("acme", "GET", "/v1/intents/same?tenant=rival").status_code == 403
    assert several.ask("acme", "POST", "/v1/intents/same/cancel?tenant=acme").json()["status"] == "cancelled"


def test_a_token_of_all_tenants_submits_for_a_named_and_known_one(several: Several):
    assert several.transfer("ops", "for-acme").json()["field"] == "tenant"
    assert several.transfer("ops", "for-acme", tenant="acmee").json()["field"] == "tenant"
    assert several.transfer("ops", "for-acme", tenant="acme").status_code == 202
    assert several.ask("clerk", "GET", "/v1/intents/for-acme").status_code == 200
    assert several.ask("rival", "GET", "/v1/intents/for-acme").status_code == 404
    assert several.transfer("acme", "for-rival", tenant="rival").status_code == 403


# -- lanes


@pytest.mark.parametrize("verb", ["pause", "resume", "drain", "close", "rebaseline"])
def test_a_tenants_operator_moves_no_lane_that_others_share(several: Several, verb: str):
    refused = several.ask("acme", "POST", f"/v1/lanes/{LANE}/{verb}")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    lane = several.ledger(lambda ledger: ledger.lane(LANE))
    assert lane is not None
    assert lane.state is LaneState.ACTIVE


def test_the_only_tenants_operator_steers_its_lanes(redis7):
    with Several(redis7.url, {"solo": {"scopes": ALL, "tenant": "solo"}}, processes=1) as several:
        assert several.ask("solo", "POST", f"/v1/lanes/{LANE}/pause", json={"reason": "why"}).json()["reason"] == "why"


def test_a_lanes_reason_and_evidence_are_told_to_those_who_see_all_tenants(several: Several):
    reason, evidence = "stuck at rival/main/secret-key", {"intent": "rival/main/secret-key"}
    several.ledger(lambda ledger: ledger.set_lane(LANE, LaneState.PAUSED, reason, evidence))
    try:
        for path in (f"/v1/lanes/{LANE}", "/v1/lanes"):
            shown = several.ask("acme", "GET", path)
            assert shown.json().get("state", "paused") == "paused"
            assert "secret-key" not in shown.text
            assert "secret-key" in several.ask("ops", "GET", path).text
    finally:
        several.ledger(lambda ledger: ledger.set_lane(LANE, LaneState.ACTIVE))


# -- dead letters and events


def test_dead_letters_are_seen_and_sent_again_by_their_own_tenant_only(several: Several):
    def letter(id: str, event: dict[str, Any]) -> DeadLetter:
        return DeadLetter(id, "main", "main/backend", {"id": id, **event}, 3, "answered 500", 1)

    async def bury(ledger: Any) -> None:
        box = RedisMailbox(ledger.runner, several.prefix)
        await box.bury(letter("theirs", {"tenant": "rival"}))
        await box.bury(letter("ours", {"tenant": "acme"}))
        await box.bury(letter("older", {}))

    several.ledger(bury)

    def seen(by: str) -> set[str]:
        return {found["id"] for found in several.ask(by, "GET", "/v1/webhooks/dead").json()["dead"]}

    assert seen("acme") == {"ours"}
    assert seen("rival") == {"theirs"}
    assert seen("ops") == {"ours", "theirs", "older"}
    for hidden in ("theirs", "older"):
        assert several.ask("acme", "POST", f"/v1/webhooks/dead/{hidden}/retry").status_code == 404
    assert several.ask("acme", "POST", "/v1/webhooks/dead/ours/retry").status_code == 202


def test_a_pools_stream_tells_a_tenant_its_own_events_and_all_of_them_to_all(several: Several):
    def follow(by: str) -> str:
        headers = {"Authorization": f"Bearer {several.secrets[by]}"}
        with several.clients[0].stream("GET", "/v1/pools/main/events", headers=headers, timeout=20) as stream:
            told, lines = "", stream.iter_text()
            while "id: " not in told:
                told += next(lines)
            for tenant in ("rival", "acme"):
                assert several.transfer(tenant, f"streamed-{by}").status_code == 202
            while told.count("event: intent") < (2 if by == "ops" else 1):
                told += next(lines)
            return told

    told = follow("acme")
    assert told.count("streamed-acme") == 1, "its own, and not the rival's of the same key"
    assert '"tenant"' not in told
    told = follow("ops")
    assert '"tenant":"rival"' in told
    assert '"tenant":"acme"' in told


class Received:
    """Takes what a webhook target is posted."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        self.bodies.append(json.loads(body))
        return 200


def test_webhooks_name_the_tenant_and_a_target_of_one_gets_nothing_of_another(several: Several):
    everybody, ours = Received(), Received()
    for tenant in ("rival", "acme"):
        assert several.transfer(tenant, "hooked").status_code == 202

    async def deliver(ledger: RedisLedger) -> None:
        queued = frozenset({Status.QUEUED})
        targets = [
            Target("main", "everybody", everybody, b"s", queued),
            Target("main", "ours", ours, b"s", queued, tenants=frozenset({"acme"})),
        ]
        webhooks = Webhooks(ledger, RedisMailbox(ledger.runner, several.prefix), targets, poll_s=0.02)
        running = asyncio.create_task(webhooks.run())

        def told(received: Received) -> set[str]:
            return {body["tenant"] for body in received.bodies if body["idempotency_key"] == "hooked"}

        await until(lambda: told(everybody) == {"acme", "rival"} and told(ours) == {"acme"})
        # Both targets are behind everything that was said: nothing more is on its way.
        last = (await ledger.events(LANE, count=10_000))[-1].id
        box = RedisMailbox(ledger.runner, several.prefix)

        async def delivered() -> bool:
            return all([(await box.places(t.id)).get(LANE) == last for t in targets])

        await until(delivered)
        webhooks.stop()
        await running

    several.ledger(deliver)
    assert {body["tenant"] for body in ours.bodies} == {"acme"}


def test_without_tokens_there_is_one_tenant_and_it_may_do_everything(redis7):
    with Several(redis7.url, {}, processes=1) as several:
        client = several.clients[0]
        body = {"kind": "near.transfer", "payload": {"receiver_id": "bob.near", "amount": "1"}}
        assert client.post("/v1/intents", json=body, headers={"Idempotency-Key": "k"}).status_code == 202
        assert client.post("/v1/intents/k/cancel").json()["status"] == "cancelled"
        assert client.post(f"/v1/lanes/{LANE}/pause").json()["state"] == "paused"
