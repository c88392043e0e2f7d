"""The list, the earlier lives and the usage of a whole installation: API, worker and archiver as processes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import Program, Stage
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.waiting import until_sync

OURS = 12


class Installation:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.archiver = Program("archiver", stage.config)

    def listed(self, query: str = "", by: str = "all") -> dict[str, Any]:
        answer = self.stage.get(f"/v1/intents?{query}", by=by)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def unretired(self) -> int:
        found = self.stage.client.get("/v1/intents?limit=500").json()["intents"]
        return sum(record["status"] not in ("done", "failed") for record in found)


@pytest.fixture(scope="module")
def whole(redis7: HasUrl, devnet: Devnet) -> Iterator[Installation]:
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet) as stage:
        archive = (
            f'\n[archive]\nurl = "sqlite:///{stage.folder}/archive.db"\nindex_metadata = ["order"]\nperiod_s = 0.1\n'
        )
        stage.config.write_text(stage.config.read_text() + archive)
        running = Installation(stage)
        running.archiver.start()
        try:
            stage.start()
            for n in range(OURS):
                answer = stage.transfer(f"order-{n:02d}", str(n + 1), wait=20, metadata={"order": n})
                assert answer.json()["status"] == "done", answer.text
            assert stage.transfer("theirs", wait=20, by="other").json()["status"] == "done"

            def archived() -> bool:
                lines = stage.get("/v1/usage", by="ops").json()["usage"]
                return sum(line["count"] for line in lines) == OURS + 1

            until_sync(archived, 30, what="everything that ended is archived")
            yield running
        finally:
            running.archiver.kill()


def test_ended_intents_are_listed_with_their_payload(whole: Installation):
    told = whole.listed("limit=500")
    assert told["archived"] is True
    assert [r["idempotency_key"] for r in told["intents"]] == [f"order-{n:02d}" for n in reversed(range(OURS))]
    newest = told["intents"][0]
    assert newest["payload"] == {"receiver_id": "dev1.near", "amount": str(OURS)}
    read = whole.stage.get(f"/v1/intents/order-{OURS - 1}").json()
    assert {name: newest[name] for name in read} == read, "a list tells what reading one tells"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("status=done", OURS),
        ("status=queued", 0),
        ("receiver=dev1.near", OURS),
        ("metadata.order=7", 1),
        ("metadata.order=99", 0),
        ("key_prefix=order-0", 10),
        ("pool=main&kind=near.transfer&status=done&limit=3", 3),
        ("until=2020-01-01T00:00:00Z", 0),
    ],
)
def test_filters_reach_into_the_archive(whole: Installation, query: str, count: int):
    assert len(whole.listed(query)["intents"]) == count


def test_a_transaction_is_found_by_its_hash(whole: Installation):
    [record] = whole.listed("metadata.order=3")["intents"]
    [found] = whole.listed(f"hash={record['tx_hash']}")["intents"]
    assert found == record


def test_a_live_intent_and_ended_ones_are_one_list(whole: Installation):
    whole.stage.worker.stop()
    assert whole.stage.transfer("live", "1").status_code == 202
    pages, cursor = [], ""
    while cursor is not None:
        told = whole.listed("limit=5" + (f"&cursor={cursor}" if cursor else ""))
        pages += [r["idempotency_key"] for r in told["intents"]]
        cursor = told["cursor"]
    assert pages == ["live", *(f"order-{n:02d}" for n in reversed(range(OURS)))]


def test_tenants_see_their_own_rows_and_their_own_books(whole: Installation):
    assert [r["idempotency_key"] for r in whole.listed(by="other")["intents"]] == ["theirs"]
    assert {r["tenant"] for r in whole.listed("limit=500", by="ops")["intents"]} == {"default", "other"}
    [line] = whole.stage.get("/v1/usage?by=tenant", by="other").json()["usage"]
    assert (line["tenant"], line["count"]) == ("other", 1)
    assert whole.stage.get("/v1/usage?tenant=default", by="other").status_code == 403


def test_usage_counts_by_token_kind_and_day(whole: Installation):
    [line] = whole.stage.get("/v1/usage?by=token,kind,day&pool=main").json()["usage"]
    assert (line["token"], line["kind"], line["network"], line["spending"]) == (
        "all",
        "near.transfer",
        "near:localnet",
        "intent",
    )
    assert (line["count"], line["done"], line["deposits"]) == (OURS, OURS, str(sum(range(1, OURS + 1))))
    for query in ("by=color", "since=yesterday", "pool=nowhere"):
        assert whole.stage.get(f"/v1/usage?{query}").status_code == 422


def test_one_life_of_a_key_is_read_with_its_payload(whole: Installation):
    [record] = whole.listed("metadata.order=5")["intents"]
    path = f"/v1/intents/{record['idempotency_key']}?pool=main&life="
    assert whole.stage.get(path + record["life"]).json() == record
    assert whole.stage.get(path + "another").status_code == 404
    assert whole.stage.get(path + record["life"], by="other").status_code == 404


def test_without_an_archive_nobody_keeps_the_books(stage: Stage):
    answer = stage.get("/v1/usage")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_allowed")
