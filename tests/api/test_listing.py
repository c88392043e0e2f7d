"""GET /v1/intents: pages and filters over HTTP, and who sees what."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import Stage
from tests.api.test_intents import RECORD_FIELDS
from tests.conftest import HasUrl
from tests.devnet.process import Devnet


@pytest.fixture(scope="module")
def still(redis7: HasUrl, devnet: Devnet) -> Iterator[Stage]:
    """A stage without a worker: what is accepted stays queued. The lanes are registered, then their worker leaves."""
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet) as running:
        running.start()
        running.worker.stop()
        for n in range(12):
            body = {"metadata": {"order": n}}
            assert running.transfer(f"order-{n:02d}", str(n + 1), **body).status_code == 202
        assert running.transfer("theirs", by="other").status_code == 202
        yield running


def listed(stage: Stage, query: str = "", by: str = "all") -> dict[str, Any]:
    answer = stage.get(f"/v1/intents?{query}", by=by)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def keys(told: dict[str, Any]) -> list[str]:
    return [record["idempotency_key"] for record in told["intents"]]


OURS = [f"order-{n:02d}" for n in reversed(range(12))]


def test_a_list_is_newest_first_with_payload_life_and_tenant(still: Stage):
    told = listed(still)
    assert keys(told) == OURS
    assert {name: told[name] for name in ("cursor", "partial", "archived")} == {
        "cursor": None,
        "partial": False,
        "archived": False,
    }
    newest = told["intents"][0]
    assert list(newest) == [*RECORD_FIELDS, "tenant", "life", "payload"]
    assert newest["payload"] == {"receiver_id": "dev1.near", "amount": "12"}
    assert (newest["tenant"], newest["status"], newest["metadata"]) == ("default", "queued", {"order": 11})


def test_pages_follow_each_other_and_end(still: Stage):
    found, cursor, pages = [], "", 0
    while cursor is not None:
        told = listed(still, f"limit=5&cursor={cursor}" if cursor else "limit=5")
        found += keys(told)
        cursor, pages = told["cursor"], pages + 1
    assert (found, pages) == (OURS, 3)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("status=queued&limit=1", OURS[:1]),
        ("status=done", []),
        ("key_prefix=order-0", OURS[2:]),
        ("pool=main&kind=near.transfer", OURS),
        ("kind=near.delegate", []),
        ("receiver=dev1.near&key_prefix=order-1", OURS[:2]),
        ("receiver=nobody.near", []),
        ("since=2100-01-01T00:00:00Z", []),
        ("until=1000", []),
        ("until=2100-01-01T00:00:00%2B02:00", OURS),
    ],
)
def test_filters_narrow_the_list(still: Stage, query: str, wanted: list[str]):
    assert keys(listed(still, query)) == wanted


def test_a_token_sees_its_own_tenant_and_an_operator_of_all_sees_all(still: Stage):
    assert keys(listed(still, by="other")) == ["theirs"]
    assert keys(listed(still, by="ops")) == ["theirs", *OURS]
    assert keys(listed(still, "tenant=other", by="ops")) == ["theirs"]
    assert keys(listed(still, "tenant=default", by="ops")) == OURS
    refused = still.get("/v1/intents?tenant=default", by="other")
    assert (refused.status_code, refused.json()["field"]) == (403, "tenant")
    assert still.get("/v1/intents", by="writer").status_code == 403
    assert still.get("/v1/intents?pool=spare", by="narrow").status_code == 403


def test_a_cursor_of_one_tenant_opens_nothing_to_another(still: Stage):
    cursor = listed(still, "limit=1", by="ops")["cursor"]
    assert keys(listed(still, f"cursor={cursor}", by="other")) == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("statuss=queued", "statuss"),
        ("status=lost", "status"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=!!!", "cursor"),
        ("since=yesterday", "since"),
        ("since=2026-01-01T00:00:00", "since"),
        ("key_prefix=", "key_prefix"),
        (f"hash={'a' * 300}", "hash"),
        ("pool=nowhere", "pool"),
        ("metadata.order=7", "metadata.order"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(still: Stage, query: str, field: str):
    answer = still.get(f"/v1/intents?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
